"""Fsyncs in worker threads: one fsync covers all records that were appended before it began.

Owns which partitions are being flushed because of `flush.messages`. Must not know who appends, nor who waits.
Counterparts in Kafka: UnifiedLog.flush, called by append and by LogManager.
"""

import trio

from ottla.broker.loop.clock import Clock, Offload, StartSoon
from ottla.broker.replicas.hosted import HostedPartitions
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.watchers import HIGH_WATERMARK, OffsetSignal
from ottla.log.flushing import FlushJob
from ottla.wire.errors import KafkaError
from ottla.wire.types import TopicPartition


class GroupCommit:
    """Fsyncs the logs of partitions whose configs ask for it, in a worker thread; one serves all appends that wait."""

    def __init__(
        self, hosted: HostedPartitions, clock: Clock, offload: Offload, start_soon: StartSoon, signal: OffsetSignal
    ) -> None:
        self._hosted = hosted
        self._clock = clock
        self._offload = offload
        self._start_soon = start_soon
        self._signal = signal
        self._flushing: dict[Partition, trio.Event] = {}

    def moved(self, partition: Partition, moved: int) -> None:
        """Notify the watchers of the log end or the high watermark, and begin a flush if one is due."""
        self._signal.notify(partition.topic_partition, moved)
        if partition.flushes_by_count:
            self.maybe_flush(partition)

    def maybe_flush(self, partition: Partition) -> None:
        """Begin a flush if one is due and none is under way."""
        if partition.needs_flush and partition not in self._flushing:
            self._flushing[partition] = trio.Event()
            self._start_soon(self._flush_while_needed, partition)

    async def _flush_while_needed(self, partition: Partition) -> None:
        try:
            while self._hosted.hosts(partition) and not partition.is_offline and partition.needs_flush:
                await self.flush(partition.topic_partition)
        finally:
            self._flushing.pop(partition).set()

    async def settled(self, partition: Partition) -> None:
        """Return when no flush that `maybe_flush` began is under way."""
        while (flushed := self._flushing.get(partition)) is not None:
            await flushed.wait()

    async def flush(self, topic_partition: TopicPartition, up_to: int | None = None) -> None:
        """Fsync in a worker thread. A failure takes the partition offline, because nobody knows what is on the disk."""
        hosted = self._hosted
        partition = hosted.partitions.get(topic_partition)
        if partition is None or partition.is_offline:
            return
        log = partition.log
        job: FlushJob | None = None
        try:
            job = log.flush_job(up_to)
            if job is None:
                return
            await self._offload(job.run)
        except Exception as error:
            if job is not None:
                log.flush_failed(job, error)
            if hosted.hosts(partition) and partition.log is log:
                bug = None if isinstance(error, OSError | KafkaError) else error
                hosted.take_offline(partition, f"it cannot be flushed: {error}", bug)
            return
        log.flushed(job)
        if hosted.hosts(partition):
            # With acks=1 a request may wait for the fsync alone: notify even if the high watermark did not move.
            moved = partition.flushed(self._clock.now_ms()) | HIGH_WATERMARK
            self._signal.notify(partition.topic_partition, moved)
