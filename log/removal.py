"""Removing old segments: from the log at once, from the disk after `file.delete.delay.ms`.

Owns the order of the steps, so that a crash between any two leaves a log without a gap. Must not know when a task is
due. Counterpart in Kafka: UnifiedLog.deleteSegments, LocalLog.deleteSegmentFiles.

Files get the suffix `.deleted` first; the next start removes the files with this suffix.
"""

import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path

from ottla.log.log import PartitionLog
from ottla.log.retention import old_segments
from ottla.log.segments.segment import set_aside
from ottla.log.state.checkpoint import sync_directory

# Renaming the files of one segment takes a tenth of a millisecond.
_SEGMENTS_AT_ONCE = 10

logger = logging.getLogger("kafka.log.UnifiedLog")
_files_logger = logging.getLogger("kafka.log.LocalLog")


def delete_old_segments(log: PartitionLog, high_watermark: int, now_ms: int) -> list[str]:
    """Take old segments out of the log, at most _SEGMENTS_AT_ONCE; KafkaError if the disk fails.

    Returns the files to remove later, including the files of truncated segments. Unless the list is empty, the caller
    calls again, because more segments may be old.
    """
    log.require_idle()
    with log.storage():
        found = old_segments(
            log.segments,
            log.config,
            log_start_offset=log.log_start_offset,
            high_watermark=high_watermark,
            log_end_offset=log.log_end_offset,
            now_ms=now_ms,
        )
        old = list(islice(found, _SEGMENTS_AT_ONCE))
        for _, reason in old:
            _log(log, reason)
        if len(old) == len(log.segments):
            log.roll(now_ms)
        removed = [path for _ in old for path in _delete_oldest(log)]
    if old and log.segments.first_base_offset > log.log_start_offset:
        log.increment_log_start_offset(log.segments.first_base_offset)
        _log(log, f"Incremented log start offset to {log.log_start_offset} due to segment deletion")
    return removed + log.segments.take_set_aside()


def _log(log: PartitionLog, message: str) -> None:
    logger.info("[UnifiedLog partition=%s, dir=%s] %s", log.topic_partition, log.directory.parent, message)


def _delete_oldest(log: PartitionLog) -> list[str]:
    """Take out the oldest segment; return the renamed producer snapshot at its start, if there is one."""
    snapshot = log.producers.release_snapshot(log.segments.first_base_offset)
    log.segments.delete_oldest()
    return [] if snapshot is None else set_aside([str(snapshot)])


def remove_files(paths: Iterable[str]) -> None:
    """Remove files that were set aside; for a worker thread. Files of a topic deleted since are missing."""
    for path in paths:
        try:
            os.unlink(path)  # noqa: PTH108
            _files_logger.info("Deleted %s", path)
        except FileNotFoundError:
            pass
        except OSError as error:
            _files_logger.error("Cannot delete %s, the next start deletes it: %s", path, error)


def sync_directories(directories: Iterable[Path]) -> None:
    """Sync directories, so that new names survive a power failure; for a worker thread. Skips missing directories."""
    for directory in directories:
        with suppress(FileNotFoundError):
            sync_directory(directory)
