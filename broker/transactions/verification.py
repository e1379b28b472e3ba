"""The question of partition leaders to transaction coordinators: is this partition in the producer's transaction?

Owns the questions that wait for a coordinator, and what its answers mean. Must not know records or offsets: the callers
verify before a producer's first append in a transaction (KIP-890).

Each coordinator gets one request at a time; the questions that gather meanwhile go into the next one. Of two questions
for one transactional id, the newer counts: the older gets NETWORK_EXCEPTION, or INVALID_PRODUCER_EPOCH if its epoch is
lower. A broker of a version that cannot be asked is warned of once, and its transactions are not verified, as in Kafka.
Counterpart in Kafka: AddPartitionsToTxnManager.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import trio

from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.cluster.topic_names import TRANSACTION_STATE_TOPIC
from ottla.broker.loop.clock import StartSoon
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.broker_client import NoCommonVersionError
from ottla.broker.replicas.partition import NO_LEADER
from ottla.broker.transactions.brokers import Ask
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.types import TopicPartition

logger = logging.getLogger("kafka.server.AddPartitionsToTxnManager")

Errors = Mapping[TopicPartition, ErrorCode]

_RETRIED: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)


class Question(NamedTuple):
    """Whether partitions are in a producer's transaction; with `is_adding`, they are put into it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[TopicPartition]
    is_adding: bool = False


class _Asked(NamedTuple):
    question: Question
    reply: Deferred[Errors]

    def fail(self, code: ErrorCode) -> None:
        """Complete with one code for all partitions."""
        self.reply.complete(dict.fromkeys(self.question.partitions, code))


class Verifier:
    """Asks the coordinators of transactions."""

    def __init__(
        self,
        ask: Ask,
        metadata: MetadataCache,
        start_soon: StartSoon,
        partition_for: Callable[[str], int | None],
        is_enabled: Callable[[], bool],
    ) -> None:
        """`partition_for` returns the partition of __transaction_state that keeps an id, None without the topic.

        `is_enabled` returns whether the callers shall verify.
        """
        self.is_enabled = is_enabled
        self._ask = ask
        self._metadata = metadata
        self._start_soon = start_soon
        self._partition_for = partition_for
        # The questions that wait, by broker and transactional id. The broker has a task as long as it has an entry.
        self._waiting: dict[int, dict[str, _Asked]] = {}
        self._warned: set[int] = set()

    def verify(self, question: Question) -> Deferred[Errors]:
        """Return the coordinator's error code for each partition, NONE for those in the transaction."""
        asked = _Asked(question, Deferred(applied=False))
        index = self._partition_for(question.transactional_id)
        known = None if index is None else self._metadata.partition(TRANSACTION_STATE_TOPIC, index)
        if known is None or known.leader == NO_LEADER:
            asked.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif known.leader in self._waiting:
            self._add(self._waiting[known.leader], asked)
        else:
            self._waiting[known.leader] = {question.transactional_id: asked}
            self._start_soon(self._work, known.leader)
        return asked.reply

    def _add(self, waiting: dict[str, _Asked], asked: _Asked) -> None:
        name, epoch = asked.question.transactional_id, asked.question.producer_epoch
        older = waiting.get(name)
        if older is not None and older.question.producer_epoch > epoch:
            asked.fail(ErrorCode.INVALID_PRODUCER_EPOCH)
            return
        waiting[name] = asked
        if older is not None:
            is_same = older.question.producer_epoch == epoch
            older.fail(ErrorCode.NETWORK_EXCEPTION if is_same else ErrorCode.INVALID_PRODUCER_EPOCH)

    async def _work(self, broker_id: int) -> None:
        """Send one request after the other, until no question waits for this broker."""
        # The questions of this turn gather first.
        await trio.lowlevel.checkpoint()
        while asked := list(self._waiting[broker_id].values()):
            self._waiting[broker_id] = {}
            try:
                await self._send(asked, broker_id)
            except NoCommonVersionError:
                self._warn(broker_id)
                for each in asked:
                    each.fail(ErrorCode.NONE)
            except OSError as error:
                logger.debug("Broker %d did not answer AddPartitionsToTxn: %s", broker_id, error)
                for each in asked:
                    each.fail(ErrorCode.NETWORK_EXCEPTION)
            except Exception:
                logger.exception("A bug: asking broker %d about transactions failed, clients try again", broker_id)
                for each in asked:
                    each.fail(ErrorCode.NETWORK_EXCEPTION)
        del self._waiting[broker_id]

    def _warn(self, broker_id: int) -> None:
        if broker_id not in self._warned:
            self._warned.add(broker_id)
            logger.warning(
                "Broker %d is of a version that cannot verify transactions: its transactions are not verified",
                broker_id,
            )

    async def _send(self, asked: Sequence[_Asked], broker_id: int) -> None:
        request = AddPartitionsToTxnRequest(transactions=[_transaction(each.question) for each in asked])
        response = await self._ask(broker_id, request)
        assert isinstance(response, AddPartitionsToTxnResponse)
        code = _known(response.error_code)
        if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            logger.error(
                "Broker %d does not let this broker verify transactions: CLUSTER_AUTHORIZATION_FAILED", broker_id
            )
            code = ErrorCode.INVALID_TXN_STATE
        codes = {
            (result.transactional_id, TopicPartition(topic.name, each.partition_index)): _known(
                each.partition_error_code
            )
            for result in response.results_by_transaction
            for topic in result.topic_results
            for each in topic.results_by_partition
        }
        for question, reply in asked:
            # A partition that the coordinator leaves out is not verified.
            reply.complete(
                {
                    each: code or codes.get((question.transactional_id, each), ErrorCode.INVALID_TXN_STATE)
                    for each in question.partitions
                }
            )


def _transaction(question: Question) -> AddPartitionsToTxnTransaction:
    indexes: dict[str, list[int]] = {}
    for topic, index in question.partitions:
        indexes.setdefault(topic, []).append(index)
    return AddPartitionsToTxnTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer_id,
        producer_epoch=question.producer_epoch,
        verify_only=not question.is_adding,
        topics=[AddPartitionsToTxnTopic(name=name, partitions=each) for name, each in indexes.items()],
    )


def _known(code: int) -> ErrorCode:
    """Return a coordinator's code. It may be newer than this broker."""
    return ErrorCode(code) if code in ErrorCode._value2member_map_ else ErrorCode.UNKNOWN_SERVER_ERROR


def producer_error(code: ErrorCode, *, knows_abortable: bool) -> ErrorCode:
    """Return the error of a producer for the coordinator's error. Old producers do not know TRANSACTION_ABORTABLE."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code


def produce_error(code: ErrorCode, *, knows_abortable: bool) -> ErrorCode:
    """Return the error of an append for the coordinator's error: one that producers retry, if it passes."""
    return ErrorCode.NOT_ENOUGH_REPLICAS if code in _RETRIED else producer_error(code, knows_abortable=knows_abortable)
