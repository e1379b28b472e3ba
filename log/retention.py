"""Which segments are to be deleted: below the log start offset, beyond `retention.bytes`, or past `retention.ms`.

Pure: owns the rules and the reasons for the log. Must not know files, nor how segments are removed.
Counterpart in Kafka: UnifiedLog.deleteOldSegments, SegmentDeletionReason.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from ottla.log.config import LogConfig


class Aging(Protocol):
    """What retention reads of a segment."""

    base_offset: int
    size: int
    max_timestamp: int

    def largest_timestamp(self) -> int:
        """The largest timestamp of its records; without timestamps, `last_modified_ms`."""

    def last_modified_ms(self) -> int:
        """When the log file was last written to."""


S = TypeVar("S", bound=Aging)


def old_segments(
    segments: Sequence[S],
    config: LogConfig,
    *,
    log_start_offset: int,
    high_watermark: int,
    log_end_offset: int,
    now_ms: int,
) -> Iterator[tuple[S, str]]:
    """Return the segments to delete, oldest first, each with the reason.

    No segment reaches above the high watermark. The active segment counts only if it holds records; the caller rolls
    the log first.
    """
    retention_bytes: int = config.values["retention.bytes"]
    retention_ms: int = config.values["retention.ms"] if config.delete else -1
    excess = -1
    if config.delete and retention_bytes >= 0:
        excess = sum(segment.size for segment in segments) - retention_bytes
    for slot, segment in enumerate(segments):
        is_active = slot + 1 == len(segments)
        end_offset = log_end_offset if is_active else segments[slot + 1].base_offset
        if end_offset > high_watermark or (is_active and not segment.size):
            return
        excess -= segment.size
        if end_offset <= log_start_offset and not is_active:
            yield segment, f"Deleting segments due to log start offset {log_start_offset} breach: {_described(segment)}"
        elif excess >= 0:
            yield (
                segment,
                f"Deleting segment {_described(segment)} due to log retention size {retention_bytes} breach. "
                f"Log size after deletion will be {excess + retention_bytes}.",
            )
        elif 0 <= retention_ms < now_ms - segment.largest_timestamp():
            by = "largest record timestamp in" if segment.max_timestamp >= 0 else "last modified time of"
            yield (
                segment,
                f"Deleting segment {_described(segment)} due to log retention time {retention_ms}ms breach based on "
                f"the {by} the segment",
            )
        else:
            return


def _described(segment: Aging) -> str:
    return (
        f"LogSegment(baseOffset={segment.base_offset}, size={segment.size}, "
        f"lastModifiedTime={segment.last_modified_ms()}, largestRecordTimestamp={segment.max_timestamp})"
    )
