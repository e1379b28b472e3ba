"""The segments of a log in order, and where the batches near its end stand.

Owns the order and the memory of positions. Must not know what the offsets are used for.
Counterpart in Kafka: LogSegments; the memory replaces LogOffsetMetadata.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from ottla.log.segment import Segment

_REMEMBERED = 128


class Segments:
    """Never empty but for a moment within the log's own methods. The last segment is `active`."""

    __slots__ = ("_base_offsets", "_older", "_recent", "_segments", "active")

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = list(segments)
        self._base_offsets = [segment.base_offset for segment in segments]
        self._recent: dict[int, int] = {}
        self._older: dict[int, int] = {}
        self.active = segments[-1]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def as_list(self) -> list[Segment]:
        """Oldest first."""
        return self._segments

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
        """Remove segments, newest first, files and all."""
        for segment in reversed(self._segments[slot:]):
            segment.delete()
        del self._segments[slot:], self._base_offsets[slot:]
        if self._segments:
            self.active = self._segments[-1]
        self.forget()

    # Positions in the active segment

    def remember(self, offset: int, position: int) -> None:
        """Keep where the batch that starts with `offset` stands: readers at the end of the log ask for it next."""
        recent = self._recent
        if len(recent) >= _REMEMBERED:
            self._older = recent
            recent = self._recent = {}
        recent[offset] = position

    def forget(self) -> None:
        """Positions changed."""
        self._recent = {}
        self._older = {}

    def locate(self, offset: int) -> tuple[Segment, int, int | None] | None:
        """Segment and position of the batch with `offset`, or of the first one behind it; None at the end.

        Its size too, where the search came across it.
        """
        segment = self.active
        if offset >= segment.base_offset:
            remembered = self._remembered(offset)
            if remembered is not None:
                return segment, remembered, None
            found = segment.find(offset)
            return (segment, *found) if found else None
        for slot in range(self.floor_slot(offset), len(self._segments)):
            segment = self._segments[slot]
            found = segment.find(offset)
            if found is not None:
                return segment, *found
        return None

    def _remembered(self, offset: int) -> int | None:
        position = self._recent.get(offset)
        return self._older.get(offset) if position is None else position

    def end_position(self, segment: Segment, end_offset: int) -> int:
        """How far a segment may be read by who must not see `end_offset`."""
        if segment is self.active:
            position = self._remembered(end_offset)
            if position is None:
                found = segment.find(end_offset)
                if found is None:
                    return segment.size
                position = found[0]
            self.remember(end_offset, position)
            return position
        if end_offset >= self._base_offsets[self.floor_slot(segment.base_offset) + 1]:
            return segment.size
        found = segment.find(end_offset)
        return found[0] if found else segment.size
