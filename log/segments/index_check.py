"""The check of a segment's indexes against its batches.

Owns when an entry is wrong, and which entries an append of the same batches makes. Sound entries may differ from those:
Kafka makes one entry for all batches of an append, and `index.interval.bytes` may have changed. Must not know files.
Counterpart in Kafka: DumpLogSegments' checks of indexes.
"""

from ottla.log.segments.index import NO_TIMESTAMP, OFFSET_ENTRY, TIME_ENTRY
from ottla.wire.records.batch import BatchHeader


class PositionCheck:
    """The check that each entry of the offset index has the position at which a batch begins."""

    def __init__(self, entries: bytes, base_offset: int) -> None:
        self.wrong: int | None = None
        """The slot of the first wrong entry, None if there is none."""
        self._entries = OFFSET_ENTRY.iter_unpack(entries)
        self._slot = 0
        self._base_offset = base_offset
        self._last_offset = base_offset - 1
        self._next = next(self._entries, None)

    def take(self, position: int, header: BatchHeader) -> None:
        """Check the entries up to the next batch."""
        while self._next is not None and self._next[1] <= position:
            offset = self._base_offset + self._next[0]
            # Kafka takes the last offset of all batches of an append, and the position of the first batch.
            if self._next[1] != position or not max(header.base_offset, self._last_offset + 1) <= offset:
                self._is_wrong()
            self._last_offset = offset
            self._next = next(self._entries, None)
            self._slot += 1

    def end(self, end_offset: int, is_whole: bool) -> None:
        """Check the entries behind the last batch. `is_whole` is False for a damaged segment: they do not matter."""
        if is_whole and self._last_offset >= max(end_offset, self._base_offset):
            self._slot -= 1
            self._is_wrong()
        elif is_whole and self._next is not None:
            self._is_wrong()

    def _is_wrong(self) -> None:
        if self.wrong is None:
            self.wrong = self._slot


class TimeCheck:
    """The check that no record up to the offset of a time index entry has a larger timestamp than the entry."""

    def __init__(self, entries: bytes, base_offset: int) -> None:
        self.wrong: int | None = None
        """The slot of the first wrong or missing entry, None if there is none."""
        self._entries = TIME_ENTRY.iter_unpack(entries)
        self._slot = 0
        self._base_offset = base_offset
        self._largest = NO_TIMESTAMP
        self._last = (NO_TIMESTAMP, -1)
        self._next = next(self._entries, None)

    def take(self, header: BatchHeader) -> None:
        """Check the entries before the next batch."""
        while self._next is not None and self._base_offset + self._next[1] < header.base_offset:
            self._advance(self._next)
        self._largest = max(self._largest, header.max_timestamp)

    def _advance(self, entry: tuple[int, ...]) -> None:
        if entry[0] <= self._last[0] or entry[1] < self._last[1] or self._largest > entry[0]:
            self._is_wrong()
        self._last = entry[0], entry[1]
        self._next = next(self._entries, None)
        self._slot += 1

    def end(self, end_offset: int, is_whole: bool, max_timestamp: int = NO_TIMESTAMP) -> None:
        """Check the entries behind the last batch. `max_timestamp`: timestamps up to here need no entry."""
        if not is_whole:
            return
        while self._next is not None and self._base_offset + self._next[1] < end_offset:
            self._advance(self._next)
        if self._next is not None or self._largest > max(self._last[0], max_timestamp):
            self._is_wrong()

    def _is_wrong(self) -> None:
        if self.wrong is None:
            self.wrong = self._slot


class IndexEntries:
    """The entries that appending the batches one by one makes."""

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self.offset_entries = bytearray()
        self.time_entries = bytearray()
        self._base_offset = base_offset
        self._interval = interval_bytes
        self._bytes_since_entry = 0
        self._largest = self._noted = (NO_TIMESTAMP, 0)

    def take(self, position: int, header: BatchHeader) -> None:
        """Add the entries of the next batch."""
        relative = header.last_offset - self._base_offset
        if header.max_timestamp > self._largest[0]:
            self._largest = header.max_timestamp, relative
        if self._bytes_since_entry > self._interval:
            self.offset_entries += OFFSET_ENTRY.pack(relative, position)
            self._note_time()
            self._bytes_since_entry = 0
        self._bytes_since_entry += header.size

    def end(self) -> None:
        """Add the last entry of the time index."""
        self._note_time()

    def _note_time(self) -> None:
        if self._largest[0] > self._noted[0]:
            self.time_entries += TIME_ENTRY.pack(*self._largest)
            self._noted = self._largest
