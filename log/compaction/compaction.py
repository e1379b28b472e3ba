"""A log's side of compaction: the job for the cleaner, and how a cleaned segment replaces old segments.

Owns the names of files during the swap: after a crash a start finds the old segments or the new one, and `recovery`
completes the swap. Must not know how a segment is cleaned. Counterparts in Kafka: LogToClean, LocalLog.replaceSegments.

A start removes `.cleaned` and `.deleted` files, and puts `.swap` files in place. The log file is renamed first, because
a start removes the `.swap` files of a segment that still has a `.cleaned` file.
"""

import os
from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.log.compaction.cleanable import Dirt
from ottla.log.compaction.cleaner import CLEANED_SUFFIX, CleaningJob, SourceSegment
from ottla.log.log import PartitionLog
from ottla.log.segments.open_files import OpenFiles
from ottla.log.segments.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, Segment
from ottla.log.segments.transaction_index import TRANSACTION_INDEX_SUFFIX

SWAP_SUFFIX: Final = ".swap"
_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)


class CleanerLimits(NamedTuple):
    """The memory of one cleaner."""

    max_keys: int
    buffer_bytes: int


def cleaning_job(
    log: PartitionLog, dirt: Dirt, segments: Sequence[Segment], limits: CleanerLimits, now_ms: int
) -> CleaningJob:
    """Return the job for the cleaner; `segments` are all segments before the end of the dirt."""
    config = log.config
    producers = {
        producer_id: (entry.batches[-1].last_offset if entry.batches else -1, entry.producer_epoch)
        for producer_id, entry in log.producers.entries.items()
    }
    return CleaningJob(
        directory=str(log.directory),
        segments=[
            SourceSegment(each.base_offset, each.size, each.offset_index.size, each.time_index.size)
            for each in segments
        ],
        first_dirty_offset=dirt.first_dirty_offset,
        end_offset=dirt.first_uncleanable_offset,
        producers=producers,
        now_ms=now_ms,
        delete_retention_ms=config.values["delete.retention.ms"],
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        max_keys=limits.max_keys,
        buffer_bytes=limits.buffer_bytes,
    )


def swap(log: PartitionLog, files: OpenFiles, old: Sequence[Segment], now_ms: int) -> list[str]:
    """Replace the segments `old` by the cleaned segment, which is named after the first of them.

    Returns the files to remove when their readers are done. The caller syncs the directory before. An OSError leaves
    the log unusable; it must be reopened.
    """
    segment = Segment(files, log.directory, old[0].base_offset, log.config, now_ms)
    _rename(segment, CLEANED_SUFFIX, SWAP_SUFFIX)
    deleted = [path for each in old for path in each.set_aside()]
    _rename(segment, SWAP_SUFFIX, "")
    segment.load()
    segment.is_checked = True  # the cleaner has checked all batches
    segment.transactions.load()
    log.segments.replace(old, segment)
    log.producers.remove_stray_snapshots(each.base_offset for each in log.segments)
    return deleted


def _rename(segment: Segment, before: str, after: str) -> None:
    """Change the suffix of a segment's files."""
    stem = segment.file.path.removesuffix(LOG_SUFFIX)
    for suffix in _SUFFIXES:
        try:
            os.rename(stem + suffix + before, stem + suffix + after)  # noqa: PTH104 - paths are plain strings here
        except FileNotFoundError:
            if suffix == LOG_SUFFIX:  # not every segment has every index
                raise
