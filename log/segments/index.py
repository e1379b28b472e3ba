"""The sparse indexes of a segment: offset -> position and timestamp -> offset.

Owns .index and .timeindex files. The files of an active segment are as long as `segment.index.bytes` allows, zero
behind the last entry, as Kafka maps them; the files of other segments are trimmed. The newest entries wait in memory
and are written together; after a crash recovery rebuilds them. Must not know records.
Counterpart in Kafka: AbstractIndex, OffsetIndex, TimeIndex.
"""

import os
from contextlib import suppress
from struct import Struct
from typing import ClassVar, NamedTuple

from ottla.log.segments.open_files import LazyFile, OpenFile, OpenFiles

MAX_RELATIVE_OFFSET = 2**31 - 1
NO_TIMESTAMP = -1

_TAIL_LIMIT = 4096
_BLOCK_ENTRIES = 512

OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")
_INT32 = Struct(">i")
_INT64 = Struct(">q")


class TimestampOffset(NamedTuple):
    """An entry of the time index: no record up to `offset` has a timestamp above `timestamp`."""

    timestamp: int
    offset: int


class CorruptIndexError(Exception):
    """An index file that contradicts itself or its segment."""


class _Index:
    """The base of both indexes: sorted entries of one size, the newest in memory, all others in the file."""

    __slots__ = (
        "_block", "_block_start", "_file", "_in_file", "_tail", "base_offset", "entries", "max_entries", "unsynced",
    )  # fmt: skip
    _ENTRY: ClassVar[Struct]
    _KEY: ClassVar[Struct]

    def __init__(self, files: OpenFiles, path: str, base_offset: int, max_bytes: int) -> None:
        self.base_offset = base_offset
        self.max_entries = max_bytes // self._ENTRY.size
        self.entries = 0
        self.unsynced = False
        """Whether the file changed since a flush took note of it."""
        self._file = LazyFile(files, path)
        self._in_file = 0
        self._tail = bytearray()
        self._block = b""
        self._block_start = 0

    @classmethod
    def longest(cls, max_bytes: int) -> int:
        """Return the length of the file of an active segment."""
        return max_bytes // cls._ENTRY.size * cls._ENTRY.size

    @property
    def path(self) -> str:
        """The path of the file."""
        return self._file.path

    def moved_to(self, path: str) -> None:
        """Note the new path of the file."""
        self._file.path = path

    @property
    def size(self) -> int:
        """Bytes of all entries."""
        return self.entries * self._ENTRY.size

    def create(self) -> None:
        """Create an empty file for an active segment, with room for `max_entries`."""
        os.ftruncate(self._file.create().fd, self.max_entries * self._ENTRY.size)
        self._reset(0)

    def load(self) -> None:
        """Load an existing, trimmed file. FileNotFoundError; CorruptIndexError if its entries contradict each other."""
        size = os.stat(self._file.path).st_size  # noqa: PTH116
        if size % self._ENTRY.size:
            raise CorruptIndexError(f"{self.path}: {size} bytes are no whole number of entries")
        self._reset(size // self._ENTRY.size)

    def _reset(self, entries: int) -> None:
        self.entries = self._in_file = entries
        self._tail.clear()
        self._block = b""
        self._take_last()

    def _take_last(self) -> None:
        """Remember the last entry, if a lookup needs it."""

    def _append(self, entry: bytes) -> None:
        self._tail += entry
        self.entries += 1
        if len(self._tail) >= _TAIL_LIMIT:
            with suppress(OSError):  # the record is in the log; the entries wait for the next try, or for recovery
                self.write_tail()

    def write_tail(self) -> None:
        """Write the entries that wait in memory to the file."""
        if self._tail:
            entry_size = self._ENTRY.size
            written = os.pwrite(self._file.open().fd, self._tail, self._in_file * entry_size)
            if written != len(self._tail):
                raise OSError(f"{self.path}: wrote {written} of {len(self._tail)} bytes")
            self._in_file = self.entries
            self._tail.clear()
            self.unsynced = True

    def resize_to_max(self) -> None:
        """Extend the file to `max_entries`, because its segment becomes the active one."""
        self.write_tail()
        os.ftruncate(self._file.open().fd, max(self.max_entries, self.entries) * self._ENTRY.size)
        self.unsynced = True

    def trim(self) -> None:
        """Cut the file behind the last entry, because its segment takes no more records."""
        self.write_tail()
        os.ftruncate(self._file.open().fd, self.entries * self._ENTRY.size)
        self.unsynced = True

    def truncate_entries(self, entries: int) -> None:
        """Keep the first `entries`; the file is zero behind them."""
        self.write_tail()
        fd = self._file.open().fd
        os.ftruncate(fd, entries * self._ENTRY.size)
        os.ftruncate(fd, max(self.max_entries, entries) * self._ENTRY.size)
        self.unsynced = True
        self._reset(entries)

    def replace_entries(self, count: int, entries: bytes) -> None:
        """Replace the first `count` entries by `entries`; keep all later entries."""
        self.write_tail()
        file = self._file.open()
        size = self._ENTRY.size
        behind = os.pread(file.fd, (self.entries - count) * size, count * size)
        length = os.fstat(file.fd).st_size
        total = len(entries) // size + self.entries - count
        os.ftruncate(file.fd, 0)
        os.pwrite(file.fd, entries + behind, 0)
        os.ftruncate(file.fd, total * size if length == self.entries * size else max(length, total * size))
        self.unsynced = True
        self._reset(total)

    def entry_bytes(self, slot: int) -> bytes:
        """Return the bytes of one entry, from memory or from the file."""
        size = self._ENTRY.size
        if slot >= self._in_file:
            at = (slot - self._in_file) * size
            return bytes(self._tail[at : at + size])
        return os.pread(self._file.open().fd, size, slot * size)

    def floor_slot(self, target: int, key: Struct, at: int) -> int:
        """Return the last slot whose key (at byte `at` of the entry) is not above `target`, -1 if there is none."""
        tail = self._tail
        size = self._ENTRY.size
        if tail and key.unpack_from(tail, at)[0] <= target:
            return self._in_file + _floor(tail, len(tail) // size, size, key, at, target)
        if not self._in_file:
            return -1
        block = self._block
        if not block or not self._block_has(target, key, at):
            block = self._load_block(target, key, at)
        slot = _floor(block, len(block) // size, size, key, at, target)
        return self._block_start + slot if slot >= 0 else -1

    def _block_has(self, target: int, key: Struct, at: int) -> bool:
        block = self._block
        last = len(block) - self._ENTRY.size
        if not key.unpack_from(block, at)[0] <= target:
            return False
        is_last = self._block_start + len(block) // self._ENTRY.size == self._in_file
        return is_last or bool(target < key.unpack_from(block, last + at)[0])

    def _load_block(self, target: int, key: Struct, at: int) -> bytes:
        """Return and keep the block of the file around `target`, because the next lookup is likely close by."""
        size = self._ENTRY.size
        fd = self._file.open().fd
        low, high = 0, self._in_file
        while high - low > _BLOCK_ENTRIES:
            middle = (low + high) // 2
            if key.unpack(os.pread(fd, key.size, middle * size + at))[0] <= target:
                low = middle
            else:
                high = middle
        self._block = os.pread(fd, (high - low) * size, low * size)
        self._block_start = low
        return self._block

    def duplicate(self) -> OpenFile:
        """Return a descriptor of its own for a worker thread."""
        return self._file.open().duplicate()

    def release(self) -> None:
        """Close the file."""
        self._file.release()

    def delete(self) -> None:
        """Remove the file."""
        self._file.delete()
        self._reset(0)


def _floor(buffer: bytes | bytearray, count: int, size: int, key: Struct, at: int, target: int) -> int:
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if key.unpack_from(buffer, middle * size + at)[0] <= target:
            low = middle + 1
        else:
            high = middle
    return low - 1


class OffsetIndex(_Index):
    """Entries of 8 bytes: relative offset, and the position of the batch that ends with this offset."""

    __slots__ = ()
    _ENTRY: ClassVar[Struct] = OFFSET_ENTRY

    def load(self) -> None:
        """Load the file; CorruptIndexError too if no append could have made the last entry."""
        super().load()
        if self.entries:
            relative, position = OFFSET_ENTRY.unpack(self.entry_bytes(self.entries - 1))
            if relative < 0 or position <= 0:
                raise CorruptIndexError(f"{self.path}: last entry has offset {relative} at position {position}")

    def append(self, offset: int, position: int) -> None:
        """Add the position of the batch that ends with `offset`. A full index drops the entry; the segment rolls."""
        if self.entries < self.max_entries:
            self._append(OFFSET_ENTRY.pack(offset - self.base_offset, position))

    def position_for(self, offset: int) -> int:
        """Return a position at or before the batch with `offset`, from which a walk finds the batch."""
        slot = self.floor_slot(offset - self.base_offset, _INT32, 0)
        return 0 if slot < 0 else int(OFFSET_ENTRY.unpack(self.entry_bytes_near(slot))[1])

    def position_at_or_before(self, position: int) -> int:
        """Return the start of a batch not far before `position`."""
        slot = self.floor_slot(position, _INT32, _INT32.size)
        return 0 if slot < 0 else int(OFFSET_ENTRY.unpack(self.entry_bytes_near(slot))[1])

    def entry_bytes_near(self, slot: int) -> bytes:
        """Return `entry_bytes`, if possible from the block that the last lookup kept."""
        at = (slot - self._block_start) * OFFSET_ENTRY.size
        if slot < self._in_file and 0 <= at < len(self._block):
            return self._block[at : at + OFFSET_ENTRY.size]
        return self.entry_bytes(slot)

    def offset_from(self, position: int) -> int | None:
        """Return the offset of the first entry from `position` on; batches before `position` have lower offsets."""
        low, high = 0, self.entries
        while low < high:
            middle = (low + high) >> 1
            if OFFSET_ENTRY.unpack(self.entry_bytes(middle))[1] < position:
                low = middle + 1
            else:
                high = middle
        if low == self.entries:
            return None
        return self.base_offset + int(OFFSET_ENTRY.unpack(self.entry_bytes(low))[0])

    def last_position(self) -> int:
        """Return the position of the last entry, 0 if there is none."""
        return int(OFFSET_ENTRY.unpack(self.entry_bytes(self.entries - 1))[1]) if self.entries else 0

    def truncate_to(self, offset: int) -> None:
        """Keep entries below `offset`."""
        self.truncate_entries(self.floor_slot(offset - self.base_offset - 1, _INT32, 0) + 1)


class TimeIndex(_Index):
    """Entries of 12 bytes: the largest timestamp so far, and the relative last offset of the batch that has it."""

    __slots__ = ("last_entry",)
    _ENTRY: ClassVar[Struct] = TIME_ENTRY

    def __init__(self, files: OpenFiles, path: str, base_offset: int, max_bytes: int) -> None:
        super().__init__(files, path, base_offset, max_bytes)
        self.last_entry = TimestampOffset(NO_TIMESTAMP, base_offset)

    @property
    def is_full(self) -> bool:
        """Whether only one place is left, which is kept for the entry of the roll."""
        return self.entries >= self.max_entries - 1

    def load(self) -> None:
        """Load the file; CorruptIndexError too if no append could have made the last entry."""
        super().load()
        if self.entries:
            first, last = self.entry(0), self.last_entry
            rises = self.entries == 1 or last.timestamp > first.timestamp
            # A power cut leaves zeros. The index is rebuilt, because timestamp 0 would look old enough to delete.
            is_lost = last == (0, self.base_offset)
            if is_lost or not rises or last.timestamp < 0 or last.offset < self.base_offset:
                raise CorruptIndexError(f"{self.path}: last entry is {last}, first is {first}")

    def entry(self, slot: int) -> TimestampOffset:
        """Return one entry with its absolute offset."""
        timestamp, relative = TIME_ENTRY.unpack(self.entry_bytes(slot))
        return TimestampOffset(timestamp, self.base_offset + relative)

    def maybe_append(self, timestamp: int, offset: int, *, final: bool = False) -> None:
        """Add an entry if `timestamp` is larger than all before. `final`: the segment is rolled or closed."""
        if timestamp > self.last_entry.timestamp and (self.entries < self.max_entries if final else not self.is_full):
            self._append(TIME_ENTRY.pack(timestamp, offset - self.base_offset))
            self.last_entry = TimestampOffset(timestamp, offset)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """Return the last entry not above `timestamp`; records with larger timestamps lie behind its offset."""
        slot = self.floor_slot(timestamp, _INT64, 0)
        return TimestampOffset(NO_TIMESTAMP, self.base_offset) if slot < 0 else self.entry(slot)

    def truncate_to(self, offset: int) -> None:
        """Keep entries below `offset`."""
        self._block = b""  # loaded by timestamp, but this search goes by offset
        self.truncate_entries(self.floor_slot(offset - self.base_offset - 1, _INT32, _INT64.size) + 1)

    def _take_last(self) -> None:
        entries = self.entries
        self.last_entry = self.entry(entries - 1) if entries else TimestampOffset(NO_TIMESTAMP, self.base_offset)
