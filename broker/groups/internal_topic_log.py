"""The appends of a coordinator to its internal topic.

Owns how the appends of one turn become one batch a partition, and when an append is committed. Must not know what a
record means. Counterpart in Kafka: GroupMetadataManager.appendForGroup.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from ottla.broker.replicas.manager import ReplicaManager
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.parts import ReplicaParts
from ottla.log.append_info import LogAppendInfo
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.records.batch import NewRecord, ProducedBatch, build_batch, parse_header
from ottla.wire.records.compression import Compression

_ALL_ACKS: Final = -1
# A batch of several appends is too large: each append may still fit into a batch of its own.
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)

Records = Sequence[tuple[bytes, bytes | None]]
Done = Callable[[ErrorCode], None]


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
        self._slow_appends = parts.slow_appends
        self._topic = topic
        # The appends of this turn, by partition.
        self._gathered: dict[int, list[tuple[Records, Done]]] = {}
        self._commit_timeout_ms = commit_timeout_ms
        self._compression = compression

    def append(self, partition: int, records: Records, done: Done) -> None:
        """Append records in one batch. Calls `done` once, when the batch is committed or has failed."""
        is_first = not self._gathered
        self._gathered.setdefault(partition, []).append((records, done))
        if is_first:
            self._turn.at_end(self._append_gathered)

    def _append_gathered(self) -> None:
        gathered, self._gathered = self._gathered, {}
        for partition, appends in gathered.items():
            self._append(partition, appends)

    def _append(self, partition: int, appends: Sequence[tuple[Records, Done]]) -> None:
        replicas = self._replicas
        now_ms = self._clock.now_ms()
        try:
            hosted = replicas.partition(self._topic, partition)
            batch = self._batch(hosted, [each for records, _ in appends for each in records], now_ms)
            if hosted.log.pace.is_slow:
                self._slow_appends.append(hosted, batch, _ALL_ACKS, partial(self._appended, hosted, appends))
                return
            result: LogAppendInfo | KafkaError = replicas.append(hosted, batch, _ALL_ACKS, now_ms)
        except KafkaError as error:
            self._failed(partition, appends, error)
        else:
            self._appended(hosted, appends, result)

    def _failed(self, partition: int, appends: Sequence[tuple[Records, Done]], error: KafkaError) -> None:
        if error.code in _TOO_LARGE and len(appends) > 1:
            for each in appends:
                self._append(partition, [each])
        else:
            _end(appends, error.code)

    def _appended(
        self, hosted: Partition, appends: Sequence[tuple[Records, Done]], result: LogAppendInfo | KafkaError
    ) -> None:
        if isinstance(result, KafkaError):
            self._failed(hosted.topic_partition.partition, appends, result)
            return
        replicas = self._replicas
        end = result.last_offset + 1
        outcome = replicas.acks_error(hosted, end, _ALL_ACKS)
        if outcome is None:
            timeout_ms = self._commit_timeout_ms
            replicas.await_acks([(hosted, end)], _ALL_ACKS, timeout_ms, lambda codes: _end(appends, codes[0]))
        else:
            _end(appends, outcome)

    def _batch(self, partition: Partition, records: Records, now_ms: int) -> ProducedBatch:
        rules = partition.rules
        data = build_batch(
            [NewRecord(key, value, now_ms) for key, value in records],
            compression=self._compression if rules.compression is None else rules.compression,
            timestamp_type=rules.timestamp_type,
        )
        if len(data) > rules.max_message_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE, f"{len(data)} bytes exceed max.message.bytes of {rules.max_message_bytes}"
            )
        return ProducedBatch(parse_header(data), memoryview(data), now_ms)


def _end(appends: Sequence[tuple[Records, Done]], outcome: ErrorCode) -> None:
    for _, done in appends:
        done(outcome)
