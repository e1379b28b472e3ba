"""Compaction: the choice of the next log, and the swap of its cleaned segments.

Owns the choice, the checkpoints, and when a cleaning is void: once the log was truncated, deleted, moved or is no
longer compacted, or once one of its segments has gone. Segments change only between two awaits of the loop, so that
retention need not know of compaction. Must not know which records stay: a process of its own decides that.
Counterparts in Kafka: LogCleaner, LogCleanerManager.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import trio

from ottla.broker.replicas.parts import ReplicaParts
from ottla.broker.upkeep.compaction_process import CleanerChild, CleanerEnded
from ottla.log.compaction.cleanable import Dirt, find_dirt, first_dirty_offset
from ottla.log.compaction.cleaner import CleaningJob, CleaningStats, CorruptLogError
from ottla.log.compaction.compaction import CleanerLimits, cleaning_job, swap
from ottla.log.compaction.offset_map import keys_that_fit
from ottla.log.compaction.process import Outcome
from ottla.log.log import PartitionLog
from ottla.log.segments.segments import NEVER_CUT
from ottla.log.state.checkpoint import sync_directory, write_checkpoints
from ottla.wire.types import TopicPartition

logger = logging.getLogger("kafka.log.LogCleaner")

CLEANER_KEYS: Final = (
    "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.buffer.size",
    "log.cleaner.io.max.bytes.per.second",
    "log.cleaner.threads",
)
# The least time between two looks at all logs, because a look is not free.
_LEAST_BACKOFF_MS: Final = 100
_LOOKED_AT_AT_ONCE: Final = 50
_LARGEST_MAP: Final = 2**31 - 1
_MEBIBYTE: Final = 1 << 20


class Worker(Protocol):
    """Cleans one log after the other, in another process."""

    async def begin(self, job: CleaningJob, bytes_per_second: float) -> None:
        """Begin a job."""

    async def outcome(self) -> Outcome:
        """Return the next outcome of the job."""

    async def close(self) -> None:
        """Stop, also in the middle of a job."""


class _Chosen(NamedTuple):
    topic_partition: TopicPartition
    log: PartitionLog
    dirt: Dirt


class _VoidError(Exception):
    """The log has changed since the cleaning began."""


class Cleaning:
    """The cleaners of one broker."""

    def __init__(
        self,
        parts: ReplicaParts,
        config: Callable[[], Mapping[str, Any]],
        new_worker: Callable[[], Worker] = CleanerChild,
    ) -> None:
        """`config` returns the broker's values by Kafka's names."""
        self._logs = parts.logs
        self._clock = parts.clock
        self._offload = parts.offload
        self._hosted = parts.hosted
        self._config = config
        self._new_worker = new_worker
        # The offset up to which a log is clean, and that log: an earlier one of its name does not count.
        self._clean_to: dict[TopicPartition, tuple[PartitionLog, int]] = {}
        self._busy: set[TopicPartition] = set()
        self._uncleanable: dict[TopicPartition, PartitionLog] = {}
        self._round = trio.CancelScope()

    async def run(self) -> None:
        """Clean logs that need it, until cancelled."""
        if not self._config()["log.cleaner.enable"]:
            return
        for topic_partition, offset in (await self._offload(self._logs.read_cleaner_offsets)).items():
            log = self._logs.get(topic_partition)
            if log is not None:
                self._clean_to[topic_partition] = log, offset
        async with trio.open_nursery() as lasting:
            while True:
                with trio.CancelScope() as self._round:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(trio.sleep_forever)
                        for number in range(self._config()["log.cleaner.threads"]):
                            nursery.start_soon(self._clean_on, number, lasting)

    async def reconfigured(self, config: object) -> None:
        """Start over with changed values."""
        self._round.cancel()

    async def _clean_on(self, number: int, lasting: trio.Nursery) -> None:
        worker = self._new_worker()
        try:
            while True:
                chosen = await self._choose()
                if chosen is None:
                    # All is clean: the process ends, to free its memory.
                    await worker.close()
                    await trio.sleep(max(_LEAST_BACKOFF_MS, self._config()["log.cleaner.backoff.ms"]) / 1000)
                else:
                    await self._clean(number, worker, chosen, lasting)
        finally:
            await worker.close()

    # The choice

    async def _choose(self) -> _Chosen | None:
        """Return the log with the highest share of dirty bytes, of those that need cleaning."""
        now_ms = self._clock.now_ms()
        filthiest: _Chosen | None = None
        before = self._written()
        for count, (topic_partition, log) in enumerate(tuple(self._logs.logs.items()), 1):
            if log.config.compact:
                dirt = self._dirt_of(topic_partition, log, now_ms)
                if dirt is not None and (filthiest is None or dirt.ratio > filthiest.dirt.ratio):
                    filthiest = _Chosen(topic_partition, log, dirt)
            if not count % _LOOKED_AT_AT_ONCE:
                await trio.lowlevel.checkpoint()
        self._forget_the_gone()
        if self._written() != before:
            await self._checkpoint()
        if filthiest is None or filthiest.topic_partition in self._busy:
            return None
        return filthiest if self._is_current(filthiest) else None

    def _forget_the_gone(self) -> None:
        logs = self._logs
        self._clean_to = {key: known for key, known in self._clean_to.items() if logs.get(key) is known[0]}
        self._uncleanable = {key: log for key, log in self._uncleanable.items() if logs.get(key) is log}

    def _dirt_of(self, topic_partition: TopicPartition, log: PartitionLog, now_ms: int) -> Dirt | None:
        """Return the dirty part of a log if its cleaning is due."""
        stable = self._last_stable_offset(topic_partition)
        is_uncleanable = self._uncleanable.get(topic_partition) is log
        if stable is None or is_uncleanable or topic_partition in self._busy:
            return None
        values = log.config.values
        try:
            dirt = find_dirt(
                log.segments,
                self._first_dirty_offset(topic_partition, log),
                stable,
                min_lag_ms=values["min.compaction.lag.ms"],
                max_lag_ms=values["max.compaction.lag.ms"],
                now_ms=now_ms,
            )
        except OSError as error:
            self._disk_failed(topic_partition, error)
            return None
        return dirt if dirt.is_due(values["min.cleanable.dirty.ratio"]) else None

    def _first_dirty_offset(self, topic_partition: TopicPartition, log: PartitionLog) -> int:
        known, checkpoint = self._clean_to.get(topic_partition, (log, None))
        if known is not log:
            checkpoint = None
        if checkpoint is not None:
            checkpoint = min(checkpoint, log.segments.lowest_cut)
        offset, why = first_dirty_offset(checkpoint, log.log_start_offset, log.log_end_offset)
        if why is not None and not log.config.delete:
            logger.warning("Resetting first dirty offset of %s %s", topic_partition, why)
        if checkpoint is not None:
            self._clean_to[topic_partition] = log, offset
        log.segments.lowest_cut = NEVER_CUT
        return offset

    # Cleaning

    async def _clean(self, number: int, worker: Worker, chosen: _Chosen, lasting: trio.Nursery) -> None:
        topic_partition, log, _ = chosen
        self._busy.add(topic_partition)
        try:
            stats = await self._carry_out(worker, chosen, lasting)
        except _VoidError:
            logger.info("The cleaning of log %s is dropped, because the log has changed", topic_partition)
            await worker.close()
        except Exception as error:
            await worker.close()
            # A log that was truncated or deleted meanwhile looks corrupt to the cleaner.
            if self._is_current(chosen):
                self._failed(topic_partition, log, error)
        else:
            self._clean_to[topic_partition] = log, stats.end_offset
            await self._checkpoint()
            _log_stats(number, chosen, stats)
        finally:
            self._busy.discard(topic_partition)

    def _failed(self, topic_partition: TopicPartition, log: PartitionLog, error: Exception) -> None:
        if not isinstance(error, CorruptLogError | CleanerEnded):
            self._disk_failed(topic_partition, error)
            return
        self._uncleanable[topic_partition] = log
        logger.warning(
            "Unexpected exception thrown when cleaning log %s. Marking its partition (%s) as uncleanable: %s",
            log.directory,
            topic_partition,
            error,
        )

    async def _carry_out(self, worker: Worker, chosen: _Chosen, lasting: trio.Nursery) -> CleaningStats:
        topic_partition, log, dirt = chosen
        logger.info("Beginning cleaning of log %s", topic_partition)
        if self._clean_to.get(topic_partition, (None, 0))[0] is not log:
            # A recovery that finds a segment without batches has to know that the cleaner may have emptied it.
            self._clean_to[topic_partition] = log, dirt.first_dirty_offset
            await self._checkpoint()
        waiting = [each for each in log.segments if each.base_offset < dirt.first_uncleanable_offset]
        rate = self._config()["log.cleaner.io.max.bytes.per.second"] / self._config()["log.cleaner.threads"]
        await worker.begin(cleaning_job(log, dirt, waiting, self._limits(), self._clock.now_ms()), rate)
        while True:
            outcome = await worker.outcome()
            if isinstance(outcome, CleaningStats):
                return outcome
            run, waiting = waiting[: outcome.segment_count], waiting[outcome.segment_count :]
            if not self._is_current(chosen) or not log.segments.has_inactive(run):
                raise _VoidError
            logger.info("Swapping in cleaned segment %d for %d segments of %s", outcome.base_offset, len(run), log)
            deleted = swap(log, self._logs.files, run, self._clock.now_ms())
            # Before the checkpoint and the removal of the old segments.
            await self._offload(sync_directory, log.directory)
            lasting.start_soon(self._remove_later, deleted)

    def _last_stable_offset(self, topic_partition: TopicPartition) -> int | None:
        partition = self._hosted.partitions.get(topic_partition)
        return None if partition is None or partition.is_offline else partition.last_stable_offset

    def _disk_failed(self, topic_partition: TopicPartition, error: Exception) -> None:
        """Take a log offline, because its files are in an unknown state."""
        partition = self._hosted.partitions[topic_partition]
        if isinstance(error, OSError):
            self._logs.failures.failed(partition.log.directory.parent, error, "compacting a log of")
        else:
            self._hosted.take_offline(partition, f"it cannot be cleaned: {error}", error)

    def _is_current(self, chosen: _Chosen) -> bool:
        """Whether the log is the one that was chosen, untruncated, and still compacted."""
        topic_partition, log, _ = chosen
        is_served = self._logs.get(topic_partition) is log and self._last_stable_offset(topic_partition) is not None
        return is_served and log.config.compact and log.segments.lowest_cut == NEVER_CUT

    def _limits(self) -> CleanerLimits:
        """Return the share of one cleaner in the buffers."""
        config = self._config()
        threads = config["log.cleaner.threads"]
        map_bytes = min(config["log.cleaner.dedupe.buffer.size"] // threads, _LARGEST_MAP)
        max_keys = keys_that_fit(map_bytes, config["log.cleaner.io.buffer.load.factor"])
        return CleanerLimits(max_keys, config["log.cleaner.io.buffer.size"] // threads // 2)

    async def _remove_later(self, paths: Sequence[str]) -> None:
        """Remove replaced files after `log.segment.delete.delay.ms`; if that fails, the next start removes them."""
        await trio.sleep(int(self._config()["log.segment.delete.delay.ms"]) / 1000)
        try:
            await self._offload(_remove, paths)
        except OSError as error:
            logger.error("Replaced segment files were not removed, the next start removes them: %s", error)

    # Checkpoints

    def _written(self) -> dict[TopicPartition, int]:
        return {topic_partition: offset for topic_partition, (_, offset) in self._clean_to.items()}

    async def _checkpoint(self) -> None:
        self._logs.not_written(await self._offload(write_checkpoints, self._logs.cleaner_offsets(self._written())))


def _remove(paths: Sequence[str]) -> None:
    for path in paths:
        Path(path).unlink(missing_ok=True)


def _log_stats(number: int, chosen: _Chosen, stats: CleaningStats) -> None:
    """Log what a cleaning did, in Kafka's words, as one line."""
    read, written, indexed = (
        each / _MEBIBYTE for each in (stats.bytes_read, stats.bytes_written, stats.map_bytes_read)
    )
    seconds = max(stats.seconds, 0.001)
    logger.info(
        "Log cleaner thread %d cleaned log %s (dirty section = [%d, %d]): "
        "%.1f MB of log processed in %.1f seconds (%.1f MB/sec), indexed %.1f MB in %.1f seconds, "
        "buffer utilization: %.1f%%, start size: %.1f MB (%d messages), end size: %.1f MB (%d messages), "
        "%.1f%% size reduction (%.1f%% fewer messages)",
        number,
        chosen.topic_partition,
        chosen.dirt.first_dirty_offset,
        stats.end_offset,
        read,
        seconds,
        read / seconds,
        indexed,
        stats.map_seconds,
        100 * stats.map_utilization,
        read,
        stats.messages_read,
        written,
        stats.messages_written,
        100 * (1 - written / read) if read else 0.0,
        100 * (1 - stats.messages_written / stats.messages_read) if stats.messages_read else 0.0,
    )
    if stats.invalid_messages:
        logger.warning("Found %d invalid messages during compaction of %s.", stats.invalid_messages, chosen.log)
