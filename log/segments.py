"""The segments of a log in order, and where the batches stand that will be asked for next.

Owns the order and the memory of positions. Must not know what the offsets are used for.
Counterpart in Kafka: LogSegments; the memory replaces LogOffsetMetadata.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import overload

from ottla.log.segment import Segment, TimestampAndOffset, end_of_batches
from ottla.log.transaction_index import AbortedTransaction, aborted_within
from ottla.wire.record_batch import BatchHeader

_REMEMBERED = 128
# Bytes in which the last batches of a producer are looked for: tens of milliseconds, if they are full of small ones.
_ON_THE_WAY = 1 << 20


class Segments(Sequence[Segment]):
    """Oldest first. Never empty but for a moment within the log's own methods. The last segment is `active`."""

    __slots__ = ("_base_offsets", "_older", "_recent", "_segments", "_set_aside", "active")

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = list(segments)
        self._base_offsets = [segment.base_offset for segment in segments]
        self._recent: dict[int, tuple[Segment, int]] = {}
        self._older: dict[int, tuple[Segment, int]] = {}
        self._set_aside: list[str] = []
        self.active = segments[-1]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    @overload
    def __getitem__(self, slot: int) -> Segment: ...

    @overload
    def __getitem__(self, slot: slice) -> list[Segment]: ...

    def __getitem__(self, slot: int | slice) -> Segment | list[Segment]:
        return self._segments[slot]

    @property
    def first_base_offset(self) -> int:
        """Where the oldest segment starts."""
        return self._base_offsets[0]

    def add(self, segment: Segment) -> None:
        """A new active segment."""
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)
        self.active = segment
        self.forget()

    def floor_slot(self, offset: int) -> int:
        """The number of the segment in which `offset` would lie; -1 before the first one."""
        return bisect_right(self._base_offsets, offset) - 1

    def reaching(self, offset: int) -> list[Segment]:
        """The segments that can hold offsets from `offset` on."""
        return self._segments[max(self.floor_slot(offset), 0) :]

    def delete_from(self, slot: int) -> None:
        """Remove segments, newest first."""
        for segment in reversed(self._segments[slot:]):
            self._set_aside += segment.set_aside()
        del self._segments[slot:], self._base_offsets[slot:]
        if self._segments:
            self.active = self._segments[-1]
        self.forget()

    def delete_oldest(self) -> None:
        """Remove the oldest of several segments."""
        self._set_aside += self._segments[0].set_aside()
        del self._segments[0], self._base_offsets[0]
        self.forget()

    def take_set_aside(self) -> list[str]:
        """Return the files of removed segments: to be deleted where the disk may be waited for. Each is told once."""
        paths, self._set_aside = self._set_aside, []
        return paths

    # Positions

    def remember(self, offset: int, segment: Segment, position: int) -> None:
        """Keep where the batch that starts with `offset` stands: a reader that has all before it asks for it next."""
        recent = self._recent
        if len(recent) >= _REMEMBERED:
            self._older = recent
            recent = self._recent = {}
        recent[offset] = segment, position

    def forget(self) -> None:
        """Positions changed."""
        self._recent = {}
        self._older = {}

    def locate(self, offset: int) -> tuple[Segment, int] | None:
        """Segment and position of the batch with `offset`, or of the first one behind it; None at the end."""
        remembered = self._remembered(offset)
        if remembered is not None:
            return remembered
        for slot in range(self.floor_slot(offset), len(self._segments)):
            segment = self._segments[slot]
            position = segment.find(offset)
            if position is not None:
                return segment, position
        return None

    def _remembered(self, offset: int) -> tuple[Segment, int] | None:
        return self._recent.get(offset) or self._older.get(offset)

    def end_position(self, segment: Segment, end_offset: int) -> int:
        """How far a segment may be read by who must not see `end_offset`."""
        if segment is not self.active and end_offset >= self._base_offsets[self.floor_slot(segment.base_offset) + 1]:
            return segment.size
        remembered = self._remembered(end_offset)
        if remembered is not None:
            return remembered[1]
        position = segment.find(end_offset)
        if position is None:
            return segment.size
        self.remember(end_offset, segment, position)
        return position

    def read_small(self, segment: Segment, position: int, size: int) -> bytearray | None:
        """Whole batches and a cut one, and remember where the next read will start.

        None if a disk would have to be waited for, or if not even the first batch fits.
        """
        data = segment.read_cached(position, size)
        if data is None:
            return None
        end, following = end_of_batches(data)
        if not end:
            return None
        position += end
        if following is not None and (position < segment.size or segment is self.active):
            self.remember(following, segment, position)
        return data

    def headers_before(self, offset: int) -> Iterator[BatchHeader]:
        """The headers of batches before the one with `offset`: as many as a producer may have on their way."""
        slot = first = self.floor_slot(offset)
        size = 0
        while first > 0 and size < _ON_THE_WAY:
            first -= 1
            size += self._segments[first].size
        for segment in self._segments[first : slot + 1]:
            yield from segment.headers_before(offset, _ON_THE_WAY)

    # Transactions

    def aborted_transactions(self, offset: int, size: int, end_offset: int) -> Sequence[AbortedTransaction]:
        """Those that were aborted and may have records in `size` bytes that were read from `offset` on.

        There may be more than those, as in Kafka: indexes are sparse. `end_offset`: what no record read reaches.
        """
        slot = max(self.floor_slot(offset), 0)
        later = [segment.transactions for segment in self._segments[slot:] if segment.transactions.entries]
        found = self.locate(offset) if later else None
        if found is None:
            return ()
        segment, position = found
        following = self.floor_slot(segment.base_offset) + 1
        if following < len(self._segments):
            end_offset = min(end_offset, self._base_offsets[following])
        upper = segment.offset_index.offset_from(position + size)
        return aborted_within(later, offset, end_offset if upper is None else min(end_offset, upper))

    # Timestamps

    def offset_for_timestamp(self, timestamp_ms: int, start_offset: int) -> TimestampAndOffset | None:
        """The first record from `start_offset` on that is not older, None if there is none."""
        for segment in self._segments:
            if segment.max_timestamp >= timestamp_ms:
                found = segment.offset_for_timestamp(timestamp_ms, start_offset)
                if found is not None:
                    return found
        return None

    def offset_of_max_timestamp(self) -> TimestampAndOffset | None:
        """The first record with the largest timestamp of all, None where there are no timestamps."""
        newest = max(self._segments, key=lambda segment: segment.max_timestamp)
        return newest.find_max_timestamp() if newest.max_timestamp >= 0 else None
