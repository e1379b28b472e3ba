"""Segments that were found on the disk are checked by a worker thread before they are read.

Owns which segments are being checked. Must not know what is checked, nor who waits for it.
Counterpart in Kafka: none.
"""

import logging

import trio

from ottla.broker.loop.clock import Offload, StartSoon
from ottla.broker.replicas.hosted import HostedPartitions
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.reads import ReadResult
from ottla.broker.replicas.watchers import EVERYTHING, OffsetSignal
from ottla.log.segments.segment import Segment
from ottla.log.segments.segments import UncheckedSegmentError
from ottla.wire.errors import ErrorCode, KafkaError

logger = logging.getLogger("kafka.log.LogSegment")


class SegmentChecks:
    """The checks that are under way."""

    def __init__(self, hosted: HostedPartitions, offload: Offload, start_soon: StartSoon, signal: OffsetSignal) -> None:
        self._hosted = hosted
        self._offload = offload
        self._start_soon = start_soon
        self._signal = signal
        self._running: dict[Segment, trio.Event] = {}

    def answer(self, partition: Partition, error: KafkaError) -> ReadResult:
        """Turn a read error into a result. For an unchecked segment, start the check and return no records."""
        if not isinstance(error, UncheckedSegmentError):
            return ReadResult(error.code)
        if error.segment not in self._running:
            self._running[error.segment] = trio.Event()
            self._start_soon(self._check, partition, error.segment)
        log = partition.log
        return ReadResult(
            ErrorCode.NONE, b"", partition.high_watermark, partition.last_stable_offset, log.log_start_offset, False
        )

    async def finish(self, partition: Partition, unchecked: UncheckedSegmentError) -> None:
        """Check a segment, or wait for the check that is under way."""
        running = self._running.get(unchecked.segment)
        if running is not None:
            await running.wait()
        else:
            self._running[unchecked.segment] = trio.Event()
            await self._check(partition, unchecked.segment)

    async def _check(self, partition: Partition, segment: Segment) -> None:
        segments = partition.log.segments
        try:
            if segment in segments:
                job = segments.check_job(segment)
                outcome = await self._offload(job.run)
                if segment in segments:
                    segments.checked(segment, job, outcome)
        except Exception as error:
            if isinstance(error, OSError):
                partition.log.disk_error(error)
            if self._hosted.hosts(partition):
                bug = None if isinstance(error, OSError | KafkaError) else error
                self._hosted.take_offline(partition, f"{segment.file.path} cannot be read: {error}", bug)
        finally:
            self._running.pop(segment).set()
        self._signal.notify(partition.topic_partition, EVERYTHING)
