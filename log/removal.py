"""Taking segments out of a log: at once for whoever reads it, a while later from the disk.

Owns the order of the steps: whatever a crash leaves of them is a log without a gap, that starts where its oldest
segment does. Must not know when anything is due, nor who waits. Counterpart in Kafka: UnifiedLog.deleteSegments,
LocalLog.deleteSegmentFiles.

Files get the suffix `.deleted` first: a start removes what it finds of these.
"""

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from ottla.log.log import PartitionLog
from ottla.log.retention import old_segments
from ottla.log.segments.segment import Segment, set_aside
from ottla.log.state.checkpoint import sync_directory

# Renaming takes a tenth of a millisecond for each.
_SEGMENTS_AT_ONCE = 10

logger = logging.getLogger("kafka.log.UnifiedLog")
_files_logger = logging.getLogger("kafka.log.LocalLog")


def delete_old_segments(log: PartitionLog, high_watermark: int, now_ms: int) -> list[str]:
    """Take segments out that the log needs no more, the oldest ones first.

    Returns the files to remove later, those of segments that a truncation removed before among them; as long as there
    are any, more segments may have to go. KafkaError where the disk fails.
    """
    log.require_idle()
    with log.storage():
        old = list(islice(_old_segments(log, high_watermark, now_ms), _SEGMENTS_AT_ONCE))
        for _, reason in old:
            _tell(log, reason)
        if len(old) == len(log.segments):
            log.roll(now_ms)
        removed = [path for _ in old for path in _delete_oldest(log)]
    if old and log.segments.first_base_offset > log.log_start_offset:
        log.increment_log_start_offset(log.segments.first_base_offset)
        _tell(log, f"Incremented log start offset to {log.log_start_offset} due to segment deletion")
    return removed + log.segments.take_set_aside()


def _old_segments(log: PartitionLog, high_watermark: int, now_ms: int) -> Iterator[tuple[Segment, str]]:
    return old_segments(
        log.segments,
        log.config,
        log_start_offset=log.log_start_offset,
        high_watermark=high_watermark,
        log_end_offset=log.log_end_offset,
        now_ms=now_ms,
    )


def _tell(log: PartitionLog, what: str) -> None:
    logger.info("[UnifiedLog partition=%s, dir=%s] %s", log.topic_partition, log.directory.parent, what)


def _delete_oldest(log: PartitionLog) -> list[str]:
    """Returns the snapshot of producers at its start."""
    snapshot = log.producers.release_snapshot(log.segments.first_base_offset)
    log.segments.delete_oldest()
    return [] if snapshot is None else set_aside([str(snapshot)])


def remove_files(paths: Iterable[str]) -> None:
    """Remove files that were set aside; for a worker thread. Those of a topic that was deleted since are elsewhere."""
    for path in paths:
        try:
            os.unlink(path)  # noqa: PTH108
            _files_logger.info("Deleted %s", path)
        except FileNotFoundError:
            pass
        except OSError as error:
            _files_logger.error("%s cannot be deleted: %s", path, error)


def sync_directories(directories: Iterable[Path]) -> None:
    """Have new names survive a power failure; for a worker thread. A topic may be deleted meanwhile."""
    for directory in directories:
        with suppress(FileNotFoundError):
            sync_directory(directory)
