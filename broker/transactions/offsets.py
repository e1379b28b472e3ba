"""The verification of a TxnOffsetCommit: is the group's partition of __consumer_offsets in the transaction?

Owns the question and the guard of the append that follows. Must not know groups.
Counterpart in Kafka: ReplicaManager.maybeStartTransactionVerificationForPartition.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.broker.cluster.topic_names import GROUP_METADATA_TOPIC
from ottla.broker.loop.clock import Clock
from ottla.broker.loop.deferred import Deferred
from ottla.broker.replicas.manager import ReplicaManager
from ottla.broker.transactions.verification import Errors, Question, Verifier, producer_error
from ottla.log.state.verification import UNVERIFIED, VerificationGuard
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from ottla.wire.records.batch_header import NO_SEQUENCE
from ottla.wire.types import TopicPartition

_ABORTABLE_FROM_VERSION: Final = 4


class Verification(NamedTuple):
    """The outcome: an error for the client, or the guard that the append needs, None if the transaction is open."""

    error: ErrorCode
    guard: VerificationGuard | None = None


class OffsetsVerifier:
    """Verifies the transactions of offsets."""

    def __init__(
        self,
        verifier: Verifier,
        replicas: ReplicaManager,
        clock: Clock,
        partition_for: Callable[[str], int | None],
    ) -> None:
        """`partition_for` returns the partition of __consumer_offsets that keeps a group, None without the topic."""
        self._verifier = verifier
        self._replicas = replicas
        self._clock = clock
        self._partition_for = partition_for

    def verify(self, request: TxnOffsetCommitRequest, version: int) -> Deferred[Verification]:
        """Return whether the coordinator of the transaction has the group's partition in it."""
        outcome: Deferred[Verification] = Deferred(applied=False)
        index = self._partition_for(request.group_id)
        if index is None:
            outcome.complete(Verification(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return outcome
        if not self._verifier.is_enabled():
            outcome.complete(Verification(ErrorCode.NONE, UNVERIFIED))
            return outcome
        partition = TopicPartition(GROUP_METADATA_TOPIC, index)
        knows_abortable = version >= _ABORTABLE_FROM_VERSION
        try:
            guard = self._replicas.partition(*partition).start_verification(
                request.producer_id, NO_SEQUENCE, request.producer_epoch, False, self._clock.now_ms()
            )
        except KafkaError as error:
            outcome.complete(Verification(error.code))
            return outcome
        if guard is None:
            outcome.complete(Verification(ErrorCode.NONE))
            return outcome

        def answered(errors: Errors) -> Verification:
            # The group coordinator translates the errors that an append may have, too.
            return Verification(producer_error(errors[partition], knows_abortable=knows_abortable), guard)

        question = Question(request.transactional_id, request.producer_id, request.producer_epoch, [partition])
        return self._verifier.verify(question).map(answered)
