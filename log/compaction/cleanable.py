"""Which part of a log is to be compacted, and whether compaction is due.

Pure: owns the choice, from facts of the segments. Must not know how a log is compacted.
Counterpart in Kafka: LogCleanerManager.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol

_NO_LIMIT: Final = 2**63 - 1


class SegmentFacts(Protocol):
    """What the choice reads of a segment."""

    @property
    def base_offset(self) -> int:
        """The first offset of the segment."""

    @property
    def size(self) -> int:
        """Bytes of all batches."""

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of all records."""

    def first_timestamp(self) -> int:
        """The max timestamp of the first batch, -1 if it has none."""


class Dirt(NamedTuple):
    """The part of a log to compact: from `first_dirty_offset` to `first_uncleanable_offset`, exclusive."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    overdue_ms: int
    """By how many milliseconds the oldest dirty record exceeds `max.compaction.lag.ms`."""

    @property
    def ratio(self) -> float:
        """The share of the cleanable bytes in all clean and cleanable bytes."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def is_due(self, min_cleanable_ratio: float) -> bool:
        """Whether the log is dirty enough, or a record overdue."""
        return self.ratio > min_cleanable_ratio or (self.overdue_ms > 0 and self.cleanable_bytes > 0)


def first_dirty_offset(checkpoint: int | None, log_start_offset: int, log_end_offset: int) -> tuple[int, str | None]:
    """Return the first dirty offset; and the reason, in Kafka's words, if it differs from the checkpoint."""
    if checkpoint is None:
        return log_start_offset, None
    if checkpoint < log_start_offset:
        return log_start_offset, (
            f"to log start offset {log_start_offset} since the checkpointed offset {checkpoint} is invalid."
        )
    if checkpoint > log_end_offset:
        return log_start_offset, (
            f"to the log start offset {log_start_offset}, since the checkpointed offset {checkpoint} is larger than "
            f"the log end offset {log_end_offset}."
        )
    return checkpoint, None


def find_dirt(
    segments: Sequence[SegmentFacts],
    first_dirty_offset: int,
    last_stable_offset: int,
    *,
    min_lag_ms: int,
    max_lag_ms: int,
    now_ms: int,
) -> Dirt:
    """Return the dirt of a log: whole segments without the active one, up to the last stable offset."""
    inactive = segments[:-1]
    dirty = _reaching(inactive, first_dirty_offset)
    uncleanable = min(last_stable_offset, segments[-1].base_offset)
    if min_lag_ms > 0:
        fresh = (each.base_offset for each in dirty if each.max_timestamp > now_ms - min_lag_ms)
        uncleanable = min(next(fresh, uncleanable), uncleanable)
    uncleanable = max(first_dirty_offset, uncleanable)
    # A segment is compacted as a whole or not at all.
    beyond = _reaching(inactive, uncleanable) if uncleanable < segments[-1].base_offset else ()
    end = next((each.base_offset for each in beyond), segments[-1].base_offset)
    start = min(first_dirty_offset, end)
    cleanable = [each for each in _reaching(inactive, start) if each.base_offset < end]
    return Dirt(
        first_dirty_offset,
        end,
        sum(each.size for each in segments if each.base_offset < first_dirty_offset),
        sum(each.size for each in cleanable) if start < end else 0,
        _overdue_ms(dirty, max_lag_ms, now_ms),
    )


def _reaching(segments: Sequence[SegmentFacts], offset: int) -> Sequence[SegmentFacts]:
    """Return the segments that can hold offsets from `offset` on."""
    before = sum(each.base_offset <= offset for each in segments)
    return segments[max(before - 1, 0) :]


def _overdue_ms(dirty: Iterable[SegmentFacts], max_lag_ms: int, now_ms: int) -> int:
    if max_lag_ms == _NO_LIMIT:
        return 0
    oldest = min((first for each in dirty if (first := each.first_timestamp()) > 0), default=_NO_LIMIT)
    return max(0, now_ms - max_lag_ms - oldest)
