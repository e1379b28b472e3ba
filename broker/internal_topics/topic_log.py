"""The appends of a coordinator to its internal topic.

Owns how the appends of one turn become one batch a partition. Must not know what a record means.
Counterpart in Kafka: GroupMetadataManager.appendForGroup.

An append in a transaction is a batch of its own, because a batch has one producer. It does not wait for the end of the
turn: a marker that is appended later in the turn must follow it in the log.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from ottla.broker.internal_topics.committed_appends import CommittedAppends
from ottla.broker.replicas.manager import ReplicaManager
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.parts import ReplicaParts
from ottla.coordinator.effects import Producer
from ottla.log.state.verification import AppendOrigin, TransactionalAppend, VerificationGuard
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.records.batch import NewRecord, ProducedBatch, build_batch, parse_header
from ottla.wire.records.batch_header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from ottla.wire.records.compression import Compression

# A batch of several appends is too large: each append may still fit into a batch of its own.
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)

Records = Sequence[tuple[bytes, bytes | None]]
Done = Callable[[ErrorCode], None]
_Append = tuple[Records, Done]


class InternalTopicLog:
    """Appends to the partitions of one internal topic."""

    def __init__(
        self,
        replicas: ReplicaManager,
        parts: ReplicaParts,
        topic: str,
        *,
        commit_timeout_ms: int,
        compression: Compression,
    ) -> None:
        self._replicas = replicas
        self._clock = parts.clock
        self._turn = parts.turn
        self._appends = CommittedAppends(replicas, parts)
        self._topic = topic
        # The appends of this turn, by partition.
        self._gathered: dict[int, list[_Append]] = {}
        self._commit_timeout_ms = commit_timeout_ms
        self._compression = compression

    def append(self, partition: int, records: Records, done: Done, producer: Producer | None = None) -> None:
        """Append records in one batch. Calls `done` once, when the batch is committed or has failed."""
        if producer is not None:
            earlier = self._gathered.pop(partition, None)
            if earlier is not None:
                self._append(partition, earlier)
            self._append(partition, [(records, done)], producer)
            return
        is_first = not self._gathered
        self._gathered.setdefault(partition, []).append((records, done))
        if is_first:
            self._turn.at_end(self._append_gathered)

    def _append_gathered(self) -> None:
        gathered, self._gathered = self._gathered, {}
        for partition, appends in gathered.items():
            self._append(partition, appends)

    def _append(self, partition: int, appends: Sequence[_Append], producer: Producer | None = None) -> None:
        ended = partial(self._ended, partition, appends)
        try:
            hosted = self._replicas.partition(self._topic, partition)
            records = [each for records, _ in appends for each in records]
            batch = self._batch(hosted, records, self._clock.now_ms(), producer)
        except KafkaError as error:
            ended(error.code)
        else:
            self._appends.append(hosted, batch, self._commit_timeout_ms, ended, _origin(producer))

    def _ended(self, partition: int, appends: Sequence[_Append], outcome: ErrorCode) -> None:
        if outcome in _TOO_LARGE and len(appends) > 1:
            for each in appends:
                self._append(partition, [each])
            return
        for _, done in appends:
            done(outcome)

    def _batch(self, partition: Partition, records: Records, now_ms: int, producer: Producer | None) -> ProducedBatch:
        rules = partition.rules
        data = build_batch(
            [NewRecord(key, value, now_ms) for key, value in records],
            compression=self._compression if rules.compression is None else rules.compression,
            timestamp_type=rules.timestamp_type,
            producer_id=NO_PRODUCER_ID if producer is None else producer.producer_id,
            producer_epoch=NO_PRODUCER_EPOCH if producer is None else producer.producer_epoch,
            base_sequence=NO_SEQUENCE if producer is None else 0,
            transactional=producer is not None,
        )
        if len(data) > rules.max_message_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE, f"{len(data)} bytes exceed max.message.bytes of {rules.max_message_bytes}"
            )
        return ProducedBatch(parse_header(data), memoryview(data), now_ms)


def _origin(producer: Producer | None) -> TransactionalAppend | None:
    if producer is None:
        return None
    guard = producer.guard
    assert guard is None or isinstance(guard, VerificationGuard)
    return TransactionalAppend(AppendOrigin.COORDINATOR, guard)
