"""Going once through the batches of a segment that was found on the disk, before anything of it is served.

Owns what is looked at: that the headers follow each other to the end of the file, that offsets rise and stay below the
next segment's, and that the indexes point where they should. A checksum covers neither a batch's length nor its offset.
Plain values: runs in a worker thread. Must not know who reads. Counterpart in Kafka: none; it serves what it finds.
"""

import os
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from ottla.log.batch_order import certain_batches
from ottla.log.crc import crc_of_range
from ottla.log.index import MAX_RELATIVE_OFFSET, NO_TIMESTAMP
from ottla.log.open_files import OpenFile
from ottla.log.segment import iter_headers
from ottla.wire.batch_header import ATTRIBUTES_POSITION
from ottla.wire.record_batch import BatchHeader, CorruptBatch

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")


class CheckOutcome(NamedTuple):
    """What was found."""

    sound_bytes: int
    """Up to here batches may be served; all of them where nothing is wrong."""
    end_offset: int
    """The first offset behind those."""
    offset_entries: bytes | None
    """What the offset index should hold, None if it does. What it holds need not be that, byte for byte."""
    time_entries: bytes | None


class SegmentCheck(NamedTuple):
    """Made where the log lives; `run` anywhere."""

    file: OpenFile
    offset_index: OpenFile
    time_index: OpenFile
    offset_entries: int
    """How many there are; more may come meanwhile."""
    time_entries: int
    base_offset: int
    size: int
    end_offset: int
    """Where the next segment begins, or the log ends."""
    max_timestamp: int
    """What is known of newer timestamps than the time index tells, -1 if nothing is."""
    index_interval_bytes: int

    def run(self) -> CheckOutcome:
        """Go through it."""
        fd = self.file.fd
        base_offset = self.base_offset
        found = _Indexes(base_offset, self.index_interval_bytes)
        positions = _PositionCheck(_entries(self.offset_index, self.offset_entries, _OFFSET_ENTRY), base_offset)
        times = _TimeCheck(_entries(self.time_index, self.time_entries, _TIME_ENTRY), base_offset)
        sound_bytes, following = 0, base_offset
        before: tuple[int, BatchHeader] | None = None
        highest = min(self.end_offset - 1, base_offset + MAX_RELATIVE_OFFSET)
        for position, header in certain_batches(self._headers(), base_offset, highest):
            if header.base_offset > following and before is not None and not _is_intact(fd, *before):
                break
            positions.take(position, header)
            times.take(header)
            found.take(position, header)
            before = position, header
            sound_bytes, following = position + header.size, header.next_offset
        # A batch that claims to be longer than it is swallows others: what follows it, or ought to, tells.
        is_doubtful = sound_bytes < self.size or following < self.end_offset
        if before is not None and is_doubtful and not _is_intact(fd, *before):
            sound_bytes, following = before[0], before[1].base_offset
        is_whole = sound_bytes == self.size
        positions.end(following, is_whole)
        times.end(following, max(self.max_timestamp, NO_TIMESTAMP))
        found.end()
        return CheckOutcome(
            sound_bytes,
            following,
            None if positions.is_right else bytes(found.offset_entries),
            None if times.is_right else bytes(found.time_entries),
        )

    def _headers(self) -> Iterator[tuple[int, BatchHeader]]:
        try:
            yield from iter_headers(self.file, 0, self.size)
        except CorruptBatch:
            return


def _entries(file: OpenFile, count: int, entry: Struct) -> Iterator[tuple[int, ...]]:
    return entry.iter_unpack(os.pread(file.fd, count * entry.size, 0))


def _is_intact(fd: int, position: int, header: BatchHeader) -> bool:
    return crc_of_range(fd, position + ATTRIBUTES_POSITION, position + header.size) == header.crc


class _PositionCheck:
    """Does each entry of the offset index lead to where the batches behind its offset begin?"""

    def __init__(self, entries: Iterator[tuple[int, ...]], base_offset: int) -> None:
        self.is_right = True
        self._entries = entries
        self._base_offset = base_offset
        self._last_offset = base_offset - 1
        self._next = next(self._entries, None)

    def take(self, position: int, header: BatchHeader) -> None:
        """A batch."""
        while self._next is not None and self._next[1] <= position:
            offset = self._base_offset + self._next[0]
            # Kafka notes the last offset of all batches that came together, and the position of the first.
            if self._next[1] != position or not max(header.base_offset, self._last_offset + 1) <= offset:
                self.is_right = False
            self._last_offset = offset
            self._next = next(self._entries, None)

    def end(self, end_offset: int, is_whole: bool) -> None:
        """No more batches. Entries for what is damaged do not matter: nobody gets there."""
        if is_whole and (self._next is not None or self._last_offset >= max(end_offset, self._base_offset)):
            self.is_right = False


class _TimeCheck:
    """Does each entry of the time index tell a timestamp that nothing up to its offset is above?"""

    def __init__(self, entries: Iterator[tuple[int, ...]], base_offset: int) -> None:
        self.is_right = True
        self._entries = entries
        self._base_offset = base_offset
        self._largest = NO_TIMESTAMP
        self._last = (NO_TIMESTAMP, -1)
        self._next = next(self._entries, None)

    def take(self, header: BatchHeader) -> None:
        """A batch."""
        while self._next is not None and self._base_offset + self._next[1] < header.base_offset:
            self._advance(self._next)
        self._largest = max(self._largest, header.max_timestamp)

    def _advance(self, entry: tuple[int, ...]) -> None:
        if entry[0] <= self._last[0] or entry[1] < self._last[1] or self._largest > entry[0]:
            self.is_right = False
        self._last = entry[0], entry[1]
        self._next = next(self._entries, None)

    def end(self, end_offset: int, max_timestamp: int) -> None:
        """No more batches."""
        while self._next is not None:
            if self._base_offset + self._next[1] >= end_offset:
                self.is_right = False
                return
            self._advance(self._next)
        if self._largest > max(self._last[0], max_timestamp):
            self.is_right = False


class _Indexes:
    """The entries as appending the batches one by one makes them."""

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self.offset_entries = bytearray()
        self.time_entries = bytearray()
        self._base_offset = base_offset
        self._interval = interval_bytes
        self._bytes_since_entry = 0
        self._largest = self._noted = (NO_TIMESTAMP, 0)

    def take(self, position: int, header: BatchHeader) -> None:
        """A batch."""
        relative = header.last_offset - self._base_offset
        if header.max_timestamp > self._largest[0]:
            self._largest = header.max_timestamp, relative
        if self._bytes_since_entry > self._interval:
            self.offset_entries += _OFFSET_ENTRY.pack(relative, position)
            self._note_time()
            self._bytes_since_entry = 0
        self._bytes_since_entry += header.size

    def end(self) -> None:
        """No more batches."""
        self._note_time()

    def _note_time(self) -> None:
        if self._largest[0] > self._noted[0]:
            self.time_entries += _TIME_ENTRY.pack(*self._largest)
            self._noted = self._largest
