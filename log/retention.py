"""Which segments a log needs no more: those below its start, and the oldest where it is too large or they are too old.

Pure: owns the rules and what is said about them. Must not know files, nor how segments are removed.
Counterpart in Kafka: UnifiedLog.deleteOldSegments, SegmentDeletionReason.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from ottla.log.config import LogConfig


class Aging(Protocol):
    """What is asked of a segment."""

    base_offset: int
    size: int
    max_timestamp: int

    def largest_timestamp(self) -> int:
        """Of its records; where they have none, when it was last written to."""

    def last_modified_ms(self) -> int:
        """When it was last written to."""


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
    """The segments that may go, oldest first, and why.

    None reaches above the high watermark. The active one, the last, is among them only if it holds records: another
    one is to begin first.
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
