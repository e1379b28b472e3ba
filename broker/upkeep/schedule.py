"""The periodic tasks: fsyncs, checkpoints, retention, expiring producers, removing deleted logs.

Owns when each is due. Files are planned on the loop, and written by a worker thread from plain values. Must not know
the roles of partitions. Counterpart in Kafka: the scheduled tasks of LogManager and ReplicaManager.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import trio

from ottla.broker.loop.clock import Slice
from ottla.broker.replicas.parts import ReplicaParts
from ottla.broker.upkeep.retention import OldSegments
from ottla.log.manager import remove_directories
from ottla.log.state.checkpoint import write_checkpoints
from ottla.wire.errors import KafkaError
from ottla.wire.types import TopicPartition

logger = logging.getLogger("org.apache.kafka.server.util.KafkaScheduler")

# Kafka syncs a segment when it is rolled; here a task syncs all that were rolled since its last look.
_ROLLED_EVERY_MS: Final = 1_000
_PRODUCERS_EVERY_MS: Final = 600_000
_DELETED_EVERY_MS: Final = 1_000


class Housekeeping:
    """The periodic tasks of one broker."""

    def __init__(
        self,
        parts: ReplicaParts,
        *,
        high_watermarks: Callable[[], Mapping[TopicPartition, int]],
        config: Callable[[], Mapping[str, Any]],
    ) -> None:
        """`config` returns values by Kafka's names."""
        self._logs = parts.logs
        self._clock = parts.clock
        self._offload = parts.offload
        self._start_soon = parts.start_soon
        self._flush = parts.group_commit.flush
        self._old_segments = OldSegments(parts)
        self._high_watermarks = high_watermarks
        self._config = config
        self._started_ms = parts.clock.now_ms()
        self._flushed_ms: dict[TopicPartition, int] = {}
        self._writing = trio.Lock()
        # The content of each file, so that a file that did not change is not written.
        self._written: dict[Path, Mapping[TopicPartition, int]] = {}

    async def run(self) -> None:
        """Run all tasks when they are due, until cancelled."""
        config = self._config()
        first_ms = config["log.initial.task.delay.ms"]
        tasks: list[tuple[int | None, int, Callable[[], Awaitable[None]]]] = [
            (first_ms, config["log.retention.check.interval.ms"], self.delete_old_segments),
            (first_ms, config["log.flush.scheduler.interval.ms"], self.flush_due),
            (first_ms, config["log.flush.offset.checkpoint.interval.ms"], self.checkpoint_recovery_points),
            (first_ms, config["log.flush.start.offset.checkpoint.interval.ms"], self.checkpoint_log_start_offsets),
            (None, config["replica.high.watermark.checkpoint.interval.ms"], self.checkpoint_high_watermarks),
            (None, _ROLLED_EVERY_MS, self.flush_rolled),
            (None, _PRODUCERS_EVERY_MS, self.expire_producers),
            (None, _DELETED_EVERY_MS, self.remove_deleted),
        ]
        async with trio.open_nursery() as nursery:
            for first_after_ms, interval_ms, task in tasks:
                if interval_ms > 0:
                    nursery.start_soon(self._repeat, first_after_ms, interval_ms, task)

    async def _repeat(self, first_ms: int | None, interval_ms: int, task: Callable[[], Awaitable[None]]) -> None:
        """Run a task every `interval_ms`, the first time after `first_ms` if that is given."""
        wait_ms = interval_ms if first_ms is None else first_ms
        while True:
            await trio.sleep(wait_ms / 1000)
            wait_ms = interval_ms
            try:
                await task()
            except (OSError, KafkaError) as error:
                logger.error("%s failed, it runs again in %d ms: %s", task.__name__, interval_ms, error)
            except Exception:
                logger.exception("A bug: %s failed, it runs again in %d ms", task.__name__, interval_ms)

    async def flush_due(self) -> None:
        """Flush the logs whose last flush is older than their `flush.ms`."""
        now_ms = self._clock.now_ms()
        time_slice = Slice()
        for topic_partition, log in tuple(self._logs.logs.items()):
            await time_slice.rest()
            last_ms = self._flushed_ms.get(topic_partition, self._started_ms)
            if log.log_end_offset > log.recovery_point and now_ms - last_ms >= log.config.flush_ms:
                self._flushed_ms[topic_partition] = now_ms
                await self._flush(topic_partition, None)
        for gone in self._flushed_ms.keys() - self._logs.logs.keys():
            del self._flushed_ms[gone]

    async def flush_rolled(self) -> None:
        """Flush all rolled segments, so that a recovery begins with the active one."""
        time_slice = Slice()
        for topic_partition, log in tuple(self._logs.logs.items()):
            await time_slice.rest()
            active_from = log.segments.active.base_offset
            if active_from > log.recovery_point:
                await self._flush(topic_partition, active_from)

    async def checkpoint_recovery_points(self) -> None:
        """Write the recovery points."""
        await self._write(self._logs.recovery_points())

    async def checkpoint_log_start_offsets(self) -> None:
        """Write the log start offsets."""
        await self._write(self._logs.log_start_offsets())

    async def checkpoint_high_watermarks(self) -> None:
        """Write the high watermarks."""
        await self._write(self._logs.high_watermarks(self._high_watermarks()))

    async def checkpoint(self) -> None:
        """Write all checkpoints."""
        await self.checkpoint_recovery_points()
        await self.checkpoint_log_start_offsets()
        await self.checkpoint_high_watermarks()

    async def _write(self, plan: Mapping[Path, Mapping[TopicPartition, int]]) -> None:
        async with self._writing:
            changed = {path: offsets for path, offsets in plan.items() if self._written.get(path) != offsets}
            if changed:
                failed = await self._offload(write_checkpoints, changed)
                self._written.update((path, offsets) for path, offsets in changed.items() if path not in failed)
                self._logs.not_written(failed)

    async def delete_old_segments(self) -> None:
        """Delete old segments."""
        await self._old_segments.delete()

    async def remove_deleted(self) -> None:
        """Remove the directories of deleted logs after `log.segment.delete.delay.ms`."""
        directories = self._logs.take_deleted()
        if directories:
            self._start_soon(self._remove_later, directories, self._config()["log.segment.delete.delay.ms"])

    async def _remove_later(self, directories: Sequence[Path], delay_ms: int) -> None:
        await trio.sleep(delay_ms / 1000)
        await self._offload(remove_directories, directories)

    async def expire_producers(self) -> None:
        """Forget producers without records for `producer.id.expiration.ms`."""
        now_ms = self._clock.now_ms()
        time_slice = Slice()
        for log in tuple(self._logs.logs.values()):
            await time_slice.rest()
            log.producers.remove_expired(now_ms)
