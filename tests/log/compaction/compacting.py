"""Logs compacted in this process, for tests."""

from collections.abc import Iterator
from pathlib import Path

from ottla.log.compaction.cleanable import Dirt, find_dirt
from ottla.log.compaction.cleaner import CleanedGroup, CleaningStats, clean
from ottla.log.compaction.compaction import CleanerLimits, cleaning_job, swap
from ottla.log.log import PartitionLog
from ottla.log.segments.open_files import OpenFiles
from ottla.wire.records.batch import Compression, NewRecord, ProducedBatch, build_batch, parse_header
from tests.log.building import NOW_MS

FILES = OpenFiles(8)
LIMITS = CleanerLimits(max_keys=1000, buffer_bytes=1)


def keyed(
    *pairs: tuple[bytes | None, bytes | None],
    compression: Compression = Compression.NONE,
    producer_id: int = -1,
    sequence: int = 0,
    timestamp: int = NOW_MS,
) -> ProducedBatch:
    """A batch of these keys and values, a millisecond apart."""
    records = [NewRecord(key, value, timestamp + number) for number, (key, value) in enumerate(pairs)]
    known = producer_id >= 0
    data = memoryview(
        build_batch(
            records,
            compression=compression,
            producer_id=producer_id,
            producer_epoch=0 if known else -1,
            base_sequence=sequence if known else -1,
        )
    )
    return ProducedBatch(parse_header(data), data, records[-1].timestamp)


def at_full_speed(count: int) -> None:
    """The pace of a cleaner without a limit."""


def dirt_of(log: PartitionLog, first_dirty_offset: int = 0, now_ms: int = NOW_MS) -> Dirt:
    values = log.config.values
    return find_dirt(
        log.segments,
        first_dirty_offset,
        log.log_end_offset,
        min_lag_ms=values["min.compaction.lag.ms"],
        max_lag_ms=values["max.compaction.lag.ms"],
        now_ms=now_ms,
    )


def clean_steps(
    log: PartitionLog, first_dirty_offset: int = 0, *, limits: CleanerLimits = LIMITS, now_ms: int = NOW_MS
) -> Iterator[CleaningStats | list[str]]:
    """Clean, and swap each group in; yield the files to remove after each swap, and the stats at the end."""
    dirt = dirt_of(log, first_dirty_offset, now_ms)
    waiting = [each for each in log.segments if each.base_offset < dirt.first_uncleanable_offset]
    for outcome in clean(cleaning_job(log, dirt, waiting, limits, now_ms), at_full_speed):
        if isinstance(outcome, CleanedGroup):
            run, waiting = waiting[: outcome.segment_count], waiting[outcome.segment_count :]
            yield swap(log, FILES, run, now_ms)
        else:
            yield outcome


def clean_log(
    log: PartitionLog, first_dirty_offset: int = 0, *, limits: CleanerLimits = LIMITS, now_ms: int = NOW_MS
) -> CleaningStats:
    """Clean, and remove the replaced files."""
    for step in clean_steps(log, first_dirty_offset, limits=limits, now_ms=now_ms):
        if isinstance(step, CleaningStats):
            return step
        for path in step:
            Path(path).unlink()
    raise AssertionError("a cleaning that did not end")
