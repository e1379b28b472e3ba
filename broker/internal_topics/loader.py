"""The loading of a coordinator's shards from its internal topic.

Owns the reading of each partition that this broker begins to lead: off the loop, in slices, one partition after the
other. Must not know what a record means. Counterparts in Kafka: GroupMetadataManager.doLoadGroupsAndOffsets,
RequestHandlerHelper.onLeadershipChange.
"""

import gc
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

import trio

from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.parts import ReplicaParts
from ottla.coordinator.open_transactions import OpenTransactions
from ottla.log.segments.open_files import FileRegion
from ottla.log.segments.segments import UncheckedSegmentError
from ottla.wire.errors import KafkaError
from ottla.wire.records.batch import ControlType, CorruptBatch, end_transaction_marker, iter_batches, iter_records

logger = logging.getLogger("kafka.coordinator.group.GroupMetadataManager")

# The time for which replaying may block the loop.
_SLICE_SECONDS: Final = 0.001
# From this number of records on, a full garbage collection of them takes noticeable time.
_MANY_RECORDS: Final = 10_000


class _UnwantedError(Exception):
    """This broker does not lead the partition any more, or leads it in another epoch: stop reading it."""


class Coordinator(Protocol):
    """The coordinator's runtime, as far as loading goes."""

    def begin_loading(self, partition: int, leader_epoch: int) -> bool:
        """Lead a partition. Returns whether to load it."""
        ...

    def is_loading(self, partition: int, leader_epoch: int) -> bool:
        """Whether this epoch of a partition is still being loaded."""
        ...

    def replay(
        self,
        partition: int,
        leader_epoch: int,
        key: bytes,
        value: bytes | None,
        offset: int,
        producer_id: int | None = None,
    ) -> None:
        """Apply the next record. With a producer id it is part of a transaction that is still open."""
        ...

    def loaded(self, partition: int, leader_epoch: int) -> None:
        """Serve the partition, because all records are replayed."""
        ...

    def unload(self, partition: int, leader_epoch: int) -> None:
        """Lead the partition no longer."""
        ...


class PartitionLoader:
    """Loads and unloads shards when the roles of this broker in one internal topic change."""

    def __init__(
        self,
        parts: ReplicaParts,
        topic: str,
        coordinator: Coordinator,
        *,
        load_buffer_size: int,
        slice_clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._clock = parts.clock
        self._offload = parts.offload
        self._start_soon = parts.start_soon
        self._hosted = parts.hosted
        self._segment_checks = parts.segment_checks
        self._topic = topic
        self._coordinator = coordinator
        self._load_buffer_size = load_buffer_size
        self._slice_clock = slice_clock
        self._turn = trio.Lock()

    def load(self, partition: Partition) -> None:
        """Load a partition that this broker leads from now on."""
        topic, index = partition.topic_partition
        leader_epoch = partition.leader_epoch
        if topic == self._topic and self._coordinator.begin_loading(index, leader_epoch):
            if partition.log.log_end_offset == partition.log.log_start_offset:
                self._coordinator.loaded(index, leader_epoch)
            else:
                self._start_soon(self._load, partition, leader_epoch)

    def unload(self, partition: Partition) -> None:
        """Unload a partition that this broker does not lead any more."""
        topic, index = partition.topic_partition
        if topic == self._topic:
            self._coordinator.unload(index, partition.leader_epoch)

    async def _load(self, partition: Partition, leader_epoch: int) -> None:
        topic_partition = partition.topic_partition
        async with self._turn:
            started = self._clock.monotonic()
            try:
                self._check_wanted(partition, leader_epoch)
                count = await self._replay_all(partition, leader_epoch)
                self._check_wanted(partition, leader_epoch)
            except _UnwantedError:
                return
            except Exception as error:
                bug = None if isinstance(error, OSError | KafkaError) else error
                logger.error(
                    "Loading %s failed: %s. Requests for what it keeps are refused until this broker leads it anew",
                    topic_partition, error, exc_info=bug,
                )  # fmt: skip
                # No coordinator is better than a coordinator without all committed records.
                with suppress(_UnwantedError):
                    self._check_wanted(partition, leader_epoch)
                    self._coordinator.unload(topic_partition.partition, leader_epoch)
                return
            self._coordinator.loaded(topic_partition.partition, leader_epoch)
            milliseconds = (self._clock.monotonic() - started) * 1000
            logger.info("Finished loading %s in %d ms: %d records", topic_partition, milliseconds, count)
            if count >= _MANY_RECORDS:
                gc.freeze()

    def _check_wanted(self, partition: Partition, leader_epoch: int) -> None:
        # The partition is compared too, because a topic that was deleted and created again begins with the same epochs.
        topic_partition = partition.topic_partition
        if not self._hosted.hosts(partition) or not self._coordinator.is_loading(
            topic_partition.partition, leader_epoch
        ):
            raise _UnwantedError

    async def _replay_all(self, partition: Partition, leader_epoch: int) -> int:
        """Replay the whole log. Returns how many records it has."""
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
        # At once, because a marker that is appended while other tasks run would be missed. These records are few.
        for producer_id, written in transactions:
            for key, (at, value) in written.items():
                self._coordinator.replay(partition.topic_partition.partition, leader_epoch, key, value, at, producer_id)
        return total

    async def _bytes(self, region: FileRegion | bytes | bytearray) -> bytes | bytearray:
        """Return the bytes of a region. A worker thread reads those that are in a file."""
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
        """Replay whole batches. Returns how many records they have, and the offset behind them.

        Of each key only the last record is replayed, as from a compacted log, because most keys are committed again.
        """
        index = partition.topic_partition.partition
        clock, replay = self._slice_clock, self._coordinator.replay
        last: dict[bytes, tuple[int, bytes | None]] = {}
        count, end = 0, -1
        slice_end = clock() + _SLICE_SECONDS
        for header, batch in iter_batches(data):
            end = header.next_offset
            if header.is_control:
                is_commit = end_transaction_marker(batch).control_type is ControlType.COMMIT
                for key, decided in transactions.end(header.producer_id, is_commit=is_commit).items():
                    if key not in last or last[key][0] < decided[0]:
                        last[key] = decided
                continue
            for record in iter_records(batch):
                if record.key is not None and header.is_transactional:
                    transactions.write(header.producer_id, record.offset, record.key, record.value)
                    count += 1
                elif record.key is not None:
                    last.pop(record.key, None)
                    last[record.key] = record.offset, record.value
                    count += 1
                    if record.value is None:
                        transactions.delete(record.key)
                if clock() >= slice_end:
                    slice_end = await self._rest(partition, leader_epoch)
        for key, (offset, value) in last.items():
            replay(index, leader_epoch, key, value, offset)
            if clock() >= slice_end:
                slice_end = await self._rest(partition, leader_epoch)
        return count, end

    async def _rest(self, partition: Partition, leader_epoch: int) -> float:
        """Run the other tasks of the loop. Returns when the next slice ends."""
        await trio.lowlevel.checkpoint()
        self._check_wanted(partition, leader_epoch)
        return self._slice_clock() + _SLICE_SECONDS
