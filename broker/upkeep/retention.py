"""Retention: old segments of all logs are taken out, and their files removed after `file.delete.delay.ms`.

Owns when the files are removed, by a worker thread. Must not know which segments are old: `log/retention` does.
Counterparts in Kafka: LogManager.cleanupLogs, LocalLog.deleteSegmentFiles.
"""

import logging
import time
from pathlib import Path
from typing import Final

import trio

from ottla.broker.loop.clock import Slice
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.parts import ReplicaParts
from ottla.log.removal import delete_old_segments, remove_files, sync_directories
from ottla.wire.errors import KafkaError

# Directories for each call in a worker thread, which cannot be cancelled.
_DIRECTORIES_AT_ONCE: Final = 100

logger = logging.getLogger("kafka.log.LogManager")


class OldSegments:
    """The old segments of all hosted partitions, led or followed."""

    def __init__(self, parts: ReplicaParts) -> None:
        self._clock = parts.clock
        self._offload = parts.offload
        self._start_soon = parts.start_soon
        self._hosted = parts.hosted
        self._slow_appends = parts.slow_appends

    async def delete(self) -> None:
        """Look at every log once, and delete its old segments."""
        started = time.monotonic()
        changed: list[Path] = []
        time_slice = Slice()
        for partition in tuple(self._hosted.partitions.values()):
            await self._slow_appends.idle(partition.topic_partition)
            while self._delete_some(partition):
                if not changed or changed[-1] is not partition.log.directory:
                    changed.append(partition.log.directory)
                await trio.lowlevel.checkpoint()
                await self._slow_appends.idle(partition.topic_partition)
            await time_slice.rest()
        for first in range(0, len(changed), _DIRECTORIES_AT_ONCE):
            await self._offload(sync_directories, changed[first : first + _DIRECTORIES_AT_ONCE])
        logger.debug("Old segments of %d logs deleted in %.3f seconds", len(changed), time.monotonic() - started)

    def _delete_some(self, partition: Partition) -> bool:
        """Delete some old segments; return whether there may be more."""
        if partition.is_offline or not self._hosted.hosts(partition):
            return False
        log = partition.log
        try:
            removed = delete_old_segments(log, partition.high_watermark, self._clock.now_ms())
        except (OSError, KafkaError) as error:
            self._hosted.take_offline(partition, f"its old segments cannot be deleted: {error}")
            return False
        if removed:
            self._start_soon(self._remove_later, removed, log.config.values["file.delete.delay.ms"])
        return bool(removed)

    async def _remove_later(self, paths: list[str], delay_ms: int) -> None:
        await trio.sleep(delay_ms / 1000)
        await self._offload(remove_files, paths)
