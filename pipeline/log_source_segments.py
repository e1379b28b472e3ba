"""The files of one partition, found while a broker may roll, delete and swap them, and what they tell of its records.

Owns a look at the directory that holds together, where segments end, and which transactions are open. Opens files for
reading only. Must not know which topics are wanted, nor checkpoints of the log directory. Counterparts in Kafka:
LogSegments, LogLoader, ProducerStateManager.
"""

import os
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple, TypeVar
from zlib import crc32

from ottla.log.compaction.compaction import SWAP_SUFFIX
from ottla.log.segments.open_files import OpenFile, OpenFiles
from ottla.log.segments.segment import INDEX_SUFFIX, LOG_SUFFIX, iter_headers
from ottla.log.segments.transaction_index import TRANSACTION_INDEX_SUFFIX, TransactionIndex
from ottla.log.state.producer_snapshot import SNAPSHOT_SUFFIX, CorruptSnapshotError, decode_snapshot
from ottla.wire.records.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, CorruptBatch, parse_header
from ottla.wire.records.batch_header import MAGIC, MAGIC_POSITION

_INDEX_ENTRY = Struct(">ii")
# Of a message of the formats 0 and 1: offset, size, a checksum over all from the format on, the format.
_OLD_HEAD = Struct(">8xiIB")
# That a segment may have: its indexes tell them in 32 bits.
_MOST_OFFSETS: Final = 1 << 31
# A swap takes well below a millisecond; what a crash has left of one stays.
_LOOKS: Final = 20
_BETWEEN_LOOKS_S: Final = 0.005

Found = TypeVar("Found")


class ChangingLogError(Exception):
    """The files of a partition change faster than they can be looked at."""


def open_file(path: str | Path) -> OpenFile:
    """Open a file for reading, and for nothing else."""
    return OpenFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))


def size_of(file: OpenFile) -> int:
    """How long the file is now."""
    return os.fstat(file.fd).st_size


def inode_of(file: OpenFile) -> int:
    """Which file it is: others of the same name have other numbers."""
    return os.fstat(file.fd).st_ino


def header_at(file: OpenFile, position: int) -> BatchHeader:
    """The header of the batch at a position. CorruptBatch where there is none."""
    return parse_header(os.pread(file.fd, HEADER_SIZE, position))


class Place(NamedTuple):
    """A position of a segment where a batch begins or may begin, and its base offset."""

    position: int
    offset: int


class SegmentFile(NamedTuple):
    """A segment by its log file. Its suffix is not empty where a crash came between the steps of a swap."""

    base_offset: int
    directory: Path
    suffix: str = ""

    @property
    def path(self) -> Path:
        """Of the log file."""
        return self._path(LOG_SUFFIX)

    def _path(self, kind: str) -> Path:
        return self.directory / f"{self.base_offset:020d}{kind}{self.suffix}"

    def offset_index(self) -> "IndexFile":
        """What its offset index says, which may be nothing."""
        try:
            return IndexFile(self.base_offset, open_file(self._path(INDEX_SUFFIX)))
        except FileNotFoundError:
            return IndexFile(self.base_offset, None)

    def aborted(self) -> TransactionIndex:
        """The transactions whose markers are here and say that they were aborted."""
        index = TransactionIndex(OpenFiles(), str(self._path(TRANSACTION_INDEX_SUFFIX)))
        index.load()
        return index

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Positions and headers of the whole batches from a position on. CorruptBatch where there is none."""
        file = open_file(self.path)
        return iter_headers(file, position, size_of(file))

    def place_at_or_before(self, offset: int) -> Place:
        """Where to begin for who wants records from an offset on."""
        return self.checked(self.offset_index().position_for(offset), offset) or Place(0, self.base_offset)

    def checked(self, position: int, at_most: int) -> Place | None:
        """The batch at a position that an index told of, None if there is none, or one with higher offsets."""
        if position:
            with suppress(CorruptBatch):
                header = header_at(open_file(self.path), position)
                if self.base_offset <= header.base_offset <= at_most:
                    return Place(position, header.base_offset)
        return None

    def old_format(self, position: int) -> int | None:
        """The message format of what is at a position, if it is one of those that Kafka wrote before 0.11."""
        file = open_file(self.path)
        data = os.pread(file.fd, _OLD_HEAD.size, position)
        if len(data) < _OLD_HEAD.size:
            return None
        size, crc, magic = _OLD_HEAD.unpack(data)
        is_whole = 4 <= size <= size_of(file) - position - LOG_OVERHEAD
        is_old = magic < MAGIC and is_whole and crc32(os.pread(file.fd, size - 4, position + MAGIC_POSITION)) == crc
        return magic if is_old else None

    def end(self) -> Place:
        """Where the last whole batch ends, and the offset that follows it."""
        position, offset = self.place_at_or_before(self.base_offset + _MOST_OFFSETS)
        with suppress(CorruptBatch):
            for at, header in self.headers(position):
                position, offset = at + header.size, max(offset, header.next_offset)
        return Place(position, offset)


class IndexFile:
    """The entries of an offset index. The file of an active segment has ten megabytes of zeros behind them."""

    def __init__(self, base_offset: int, file: OpenFile | None) -> None:
        self._base_offset = base_offset
        self._file = file
        slots = 0 if file is None else size_of(file) // _INDEX_ENTRY.size
        self._count = bisect_left(range(slots), True, key=lambda slot: self._entry(slot) == (0, 0))

    def position_for(self, offset: int) -> int:
        """A position from which a walk finds an offset."""
        relative = offset - self._base_offset
        slot = bisect_right(range(self._count), relative, key=lambda slot: self._entry(slot)[0]) - 1
        return 0 if slot < 0 else self._entry(slot)[1]

    def position_behind(self, position: int) -> int | None:
        """The first position behind another one that is told of."""
        slot = bisect_right(range(self._count), position, key=lambda slot: self._entry(slot)[1])
        return None if slot == self._count else self._entry(slot)[1]

    def _entry(self, slot: int) -> tuple[int, int]:
        """An offset, relative to that of the segment, and a position."""
        if self._file is None:
            return (0, 0)
        data = os.pread(self._file.fd, _INDEX_ENTRY.size, slot * _INDEX_ENTRY.size)
        relative, position = _INDEX_ENTRY.unpack(data) if len(data) == _INDEX_ENTRY.size else (0, 0)
        return relative, position


def steady(directory: Path, look: Callable[[Sequence[str]], Found]) -> Found:
    """What a look at the files of a partition finds, whose names were the same before and after it.

    FileNotFoundError if there is no such partition (any more).
    """
    names = _names(directory)
    for attempt in range(_LOOKS):
        is_swapping = any(name.endswith(SWAP_SUFFIX) for name in names) and attempt < _LOOKS // 2
        try:
            found = None if is_swapping else look(names)
        except FileNotFoundError:
            is_swapping = True
        after = _names(directory)
        if not is_swapping and names == after:
            return found  # type: ignore[return-value]
        names = after
        time.sleep(_BETWEEN_LOOKS_S)
    raise ChangingLogError(f"{directory}: files come and go too fast to be looked at")


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def segment_files(directory: Path, names: Sequence[str]) -> list[SegmentFile]:
    """The segments by the names of all files, oldest first."""
    segments = {base: SegmentFile(base, directory) for base in _base_offsets(names, LOG_SUFFIX)}
    for base in _base_offsets(names, LOG_SUFFIX + SWAP_SUFFIX):
        swapped = SegmentFile(base, directory, SWAP_SUFFIX)
        # A start puts it in the place of all that it was made of.
        end = swapped.end().offset
        segments = {other: segment for other, segment in segments.items() if not base <= other < end}
        segments[base] = swapped
    return [segments[base] for base in sorted(segments)]


def _base_offsets(names: Sequence[str], suffix: str) -> list[int]:
    stems = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
    return sorted(int(stem) for stem in stems if stem.isdecimal())


class OpenTransactions(NamedTuple):
    """The transactions that are open at an offset: the producer of each, and where it began."""

    offset: int
    first_offsets: dict[int, int]
    damage: str = ""
    """What cannot be read behind the beginning of one, and may be its end."""

    @property
    def last_stable_offset(self) -> int:
        """Everything below is decided."""
        return min([self.offset, *self.first_offsets.values()])


def open_transactions(
    directory: Path, names: Sequence[str], end: int, known: OpenTransactions | None
) -> OpenTransactions:
    """The transactions that are open at `end`, from the newest snapshot of producers before, or what was `known`."""
    segments = segment_files(directory, names)
    best = OpenTransactions(segments[0].base_offset if segments else end, {})
    if known is not None and best.offset <= known.offset <= end:
        best = known
    for offset in reversed(_base_offsets(names, SNAPSHOT_SUFFIX)):
        if best.offset < offset <= end:
            with suppress(CorruptSnapshotError):
                entries = decode_snapshot((directory / f"{offset:020d}{SNAPSHOT_SUFFIX}").read_bytes())
                began = {each.producer_id: each.current_txn_first_offset for each in entries}
                best = OpenTransactions(offset, {key: first for key, first in began.items() if first >= 0})
                break
    began, damage = dict(best.first_offsets), best.damage
    for header in _headers_between(segments, best.offset, end):
        if isinstance(header, str):
            damage = damage or header
        elif header.is_transactional and header.is_control:
            began.pop(header.producer_id, None)
        elif header.is_transactional:
            began.setdefault(header.producer_id, header.base_offset)
        damage = damage if began else ""  # else who reads it tells of it
    return OpenTransactions(end, began, damage)


def _headers_between(segments: Sequence[SegmentFile], start: int, end: int) -> Iterator[BatchHeader | str]:
    """The headers that can be read, and of each that cannot where it is and why."""
    first = max(bisect_right([segment.base_offset for segment in segments], start) - 1, 0)
    for segment in segments[first:]:
        position: int | None = segment.place_at_or_before(start).position
        index = segment.offset_index()
        while position is not None and segment.base_offset < end:
            try:
                for at, header in segment.headers(position):
                    position = at + header.size
                    if header.last_offset >= start and header.base_offset < end:
                        yield header
                    if header.next_offset >= end:
                        return
                break
            except CorruptBatch as error:
                yield f"{segment.path}: position {position}: {error.detail}"
                position = index.position_behind(position)
