"""The partitions of __consumer_offsets as the group coordinator sees them: where it writes, and what it is read out of.

Owns how what is appended in a turn becomes one batch that is committed, and the reading of a partition that this broker
begins to lead: off the loop, in pieces, one partition after the other. Must not know what a record or a group is.
Counterparts in Kafka: appendForGroup and doLoadGroupsAndOffsets of GroupMetadataManager, RequestHandlerHelper's
onLeadershipChange.
"""

import gc
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

import trio

from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.cluster.topic_names import GROUP_METADATA_TOPIC
from ottla.broker.replicas.manager import ReplicaManager
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.parts import ReplicaParts
from ottla.coordinator.config import read_group_config
from ottla.coordinator.open_transactions import OpenTransactions
from ottla.coordinator.runtime import GroupCoordinator
from ottla.log.append_info import LogAppendInfo
from ottla.log.segments.open_files import FileRegion
from ottla.log.segments.segments import UncheckedSegmentError
from ottla.wire.compression import Compression
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.record_batch import (
    ControlType,
    CorruptBatch,
    NewRecord,
    ProducedBatch,
    build_batch,
    end_transaction_marker,
    iter_batches,
    iter_records,
    parse_header,
)

logger = logging.getLogger("kafka.coordinator.group.GroupMetadataManager")

_ALL_ACKS: Final = -1
# Of a batch that holds what several requests append, each of them might do with a batch of its own.
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
# What replaying may hold the loop for at a time.
_SLICE_SECONDS: Final = 0.001
# So many objects make a full garbage collection felt.
_MANY_RECORDS: Final = 10_000


class _UnwantedError(Exception):
    """This broker does not lead the partition any more, or leads it anew: what is read of it is of no use."""


class Groups(Protocol):
    """What is told of roles, and takes what is read."""

    def begin_loading(self, partition: int, leader_epoch: int) -> bool:
        """This broker leads; whether there is something to load."""
        ...

    def replay(self, partition: int, leader_epoch: int, key: bytes, value: bytes | None) -> None:
        """Take the next record."""
        ...

    def is_loading(self, partition: int, leader_epoch: int) -> bool:
        """Whether records are still wanted."""
        ...

    def loaded(self, partition: int, leader_epoch: int) -> None:
        """There are no more."""
        ...

    def unload(self, partition: int, leader_epoch: int | None = None) -> None:
        """This broker does not lead any more."""
        ...


Records = Sequence[tuple[bytes, bytes | None]]
Done = Callable[[ErrorCode], None]


class OffsetsLog:
    """Where the coordinator writes."""

    def __init__(
        self, replicas: ReplicaManager, parts: ReplicaParts, *, commit_timeout_ms: int, compression: Compression
    ) -> None:
        self._replicas = replicas
        self._clock = parts.clock
        self._turn = parts.turn
        self._slow_appends = parts.slow_appends
        # What waits for the end of the turn, by partition.
        self._gathered: dict[int, list[tuple[Records, Done]]] = {}
        self._commit_timeout_ms = commit_timeout_ms
        self._compression = compression

    def append(self, partition: int, records: Records, done: Done) -> None:
        """Append records in one batch; `done` is called once it is committed, or never will be."""
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
            hosted = replicas.partition(GROUP_METADATA_TOPIC, partition)
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


class GroupPartitions:
    """Tells the coordinator which partitions it has, and reads out what they hold."""

    def __init__(
        self,
        parts: ReplicaParts,
        groups: Groups,
        *,
        load_buffer_size: int,
        slice_clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._offload = parts.offload
        self._start_soon = parts.start_soon
        self._hosted = parts.hosted
        self._segment_checks = parts.segment_checks
        self._groups = groups
        self._load_buffer_size = load_buffer_size
        self._slice_clock = slice_clock
        self._turn = trio.Lock()

    def load(self, partition: Partition) -> None:
        """Load the groups of a partition that this broker leads from now on."""
        topic, index = partition.topic_partition
        leader_epoch = partition.leader_epoch
        if topic == GROUP_METADATA_TOPIC and self._groups.begin_loading(index, leader_epoch):
            if partition.log.log_end_offset == partition.log.log_start_offset:
                self._groups.loaded(index, leader_epoch)
            else:
                self._start_soon(self._load, partition, leader_epoch)

    def unload(self, partition: Partition) -> None:
        """Let go of the groups of a partition that this broker does not lead any more."""
        topic, index = partition.topic_partition
        if topic == GROUP_METADATA_TOPIC:
            self._groups.unload(index, partition.leader_epoch)

    async def _load(self, partition: Partition, leader_epoch: int) -> None:
        index = partition.topic_partition.partition
        async with self._turn:
            started = trio.current_time()
            try:
                self._check_wanted(partition, leader_epoch)
                count = await self._replay_all(partition, leader_epoch)
                self._check_wanted(partition, leader_epoch)
            except _UnwantedError:
                return
            except Exception as error:
                bug = None if isinstance(error, OSError | KafkaError) else error
                logger.error("Error loading offsets from %s: %s", partition.topic_partition, error, exc_info=bug)
                # Better nobody than one who does not know all that was committed.
                with suppress(_UnwantedError):
                    self._check_wanted(partition, leader_epoch)
                    self._groups.unload(index, leader_epoch)
                return
            self._groups.loaded(index, leader_epoch)
            milliseconds = (trio.current_time() - started) * 1000
            logger.info("Finished loading %s in %d ms: %d records", partition.topic_partition, milliseconds, count)
            if count >= _MANY_RECORDS:
                gc.freeze()

    def _check_wanted(self, partition: Partition, leader_epoch: int) -> None:
        """A topic that was deleted and made again begins with the same epochs."""
        topic_partition = partition.topic_partition
        if not self._hosted.hosts(partition) or not self._groups.is_loading(topic_partition.partition, leader_epoch):
            raise _UnwantedError

    async def _replay_all(self, partition: Partition, leader_epoch: int) -> int:
        """Hand over what the whole log comes to; returns how many records it has."""
        log = partition.log
        offset = log.log_start_offset
        total = 0
        transactions = OpenTransactions()
        while offset < log.log_end_offset:
            try:
                end = log.log_end_offset
                region = log.read(offset, self._load_buffer_size, end, min_one_message=True, may_copy=False)
            except UncheckedSegmentError as unchecked:
                await self._segment_checks.finish(partition, unchecked)
                self._check_wanted(partition, leader_epoch)
                continue
            data = await self._bytes(region)
            count, following = await self._replay(partition, leader_epoch, memoryview(data), transactions)
            if following <= offset:
                raise CorruptBatch(f"No batch at offset {offset}")
            offset = following
            total += count
        for producer_id in transactions:
            # Its offsets are in the log for whoever will end it.
            logger.warning("Producer %d has left a transaction open in %s", producer_id, partition.topic_partition)
        return total

    async def _bytes(self, region: FileRegion | bytes | bytearray) -> bytes | bytearray:
        """Read what lies in a file off the loop."""
        if not isinstance(region, FileRegion):
            return region
        read = region.reader()
        try:
            data: bytes = await self._offload(read)
        except OSError as error:
            region.failed(error)
            raise
        return data

    async def _replay(
        self, partition: Partition, leader_epoch: int, data: memoryview, transactions: OpenTransactions
    ) -> tuple[int, int]:
        """Hand over what whole batches come to; returns how many records they have, and the offset behind them.

        Only the last one of a key counts, as in a log that was compacted: mostly a commit of what was committed again.
        """
        index = partition.topic_partition.partition
        clock, replay = self._slice_clock, self._groups.replay
        last: dict[bytes, bytes | None] = {}
        count, end = 0, -1
        slice_end = clock() + _SLICE_SECONDS
        for header, batch in iter_batches(data):
            end = header.next_offset
            if header.is_control:
                is_committed = end_transaction_marker(batch).control_type is ControlType.COMMIT
                for key, decided in transactions.end(header.producer_id, is_committed=is_committed).items():
                    last.pop(key, None)
                    last[key] = decided
                continue
            for record in iter_records(batch):
                if record.key is not None and header.is_transactional:
                    transactions.write(header.producer_id, record.offset, record.key, record.value)
                    count += 1
                elif record.key is not None:
                    last.pop(record.key, None)
                    last[record.key] = record.value
                    count += 1
                    transactions.count(record.offset, record.key, record.value)
                if clock() >= slice_end:
                    slice_end = await self._rest(partition, leader_epoch)
        for key, value in last.items():
            replay(index, leader_epoch, key, value)
            if clock() >= slice_end:
                slice_end = await self._rest(partition, leader_epoch)
        return count, end

    async def _rest(self, partition: Partition, leader_epoch: int) -> float:
        """Let others have the loop; returns when the next slice of it ends."""
        await trio.lowlevel.checkpoint()
        self._check_wanted(partition, leader_epoch)
        return self._slice_clock() + _SLICE_SECONDS


def group_coordinator(
    values: Mapping[str, Any], replicas: ReplicaManager, parts: ReplicaParts, metadata: MetadataCache
) -> GroupCoordinator:
    """Return the coordinator of the groups of all partitions that this broker will lead."""
    log = OffsetsLog(
        replicas,
        parts,
        commit_timeout_ms=values["offsets.commit.timeout.ms"],
        compression=Compression(values["offsets.topic.compression.codec"]),
    )
    return GroupCoordinator(
        log,
        read_group_config(values),
        now_ms=parts.clock.now_ms,
        call_later=parts.clock.call_later,
        partition_count=lambda: len(metadata.partitions(GROUP_METADATA_TOPIC)) or None,
    )
