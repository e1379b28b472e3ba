"""Which transactions were aborted, for readers of committed records.

Owns .txnindex files: one for each segment with the marker of an aborted transaction. They are small and kept in memory
as a whole. Must not know how a transaction ends.
Counterpart in Kafka: TransactionIndex, AbortedTxn.
"""

import os
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from ottla.log.segments.index import CorruptIndexError
from ottla.log.segments.open_files import LazyFile, OpenFile, OpenFiles

TRANSACTION_INDEX_SUFFIX = ".txnindex"

_VERSION = 0
TRANSACTION_ENTRY = Struct(">hqqqq")
_last_offset = attrgetter("last_offset")


class AbortedTransaction(NamedTuple):
    """Offsets are inclusive. From `last_stable_offset` on, transactions were open when the marker was appended."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the marker."""
    last_stable_offset: int


class TransactionIndex:
    """The aborted transactions whose markers one segment holds, in the order of the markers."""

    __slots__ = ("_file", "_in_file", "entries", "unsynced")

    def __init__(self, files: OpenFiles, path: str) -> None:
        self.entries: list[AbortedTransaction] = []
        self.unsynced = False
        """Whether the file changed since a flush took note of it."""
        self._file = LazyFile(files, path)
        self._in_file = 0

    def moved_to(self, path: str) -> None:
        """Note the new path of the file."""
        self._file.path = path

    def load(self) -> None:
        """Load the file, if it exists; CorruptIndexError if an entry is wrong."""
        self.entries = []
        try:
            data = Path(self._file.path).read_bytes()
        except FileNotFoundError:
            return
        if len(data) % TRANSACTION_ENTRY.size:
            raise CorruptIndexError(f"{self._file.path}: {len(data)} bytes are no whole number of entries")
        for version, *entry in TRANSACTION_ENTRY.iter_unpack(data):
            found = AbortedTransaction._make(entry)
            last = self.entries[-1].last_offset if self.entries else -1
            if version < _VERSION or not 0 <= found.first_offset <= found.last_offset or found.last_offset <= last:
                raise CorruptIndexError(f"{self._file.path} has the entry {found}")
            self.entries.append(found)
        self._in_file = len(self.entries)

    def append(self, transaction: AbortedTransaction) -> None:
        """Add a transaction whose marker is appended."""
        self.entries.append(transaction)
        with suppress(OSError):  # the marker is in the log; the entry waits for the next try, or for recovery
            self.write_tail()

    def write_tail(self) -> None:
        """Write the entries that wait in memory to the file."""
        missing = self.entries[self._in_file :]
        if missing:
            file = self._file.open() if Path(self._file.path).exists() else self._file.create()
            data = b"".join(TRANSACTION_ENTRY.pack(_VERSION, *entry) for entry in missing)
            if os.pwrite(file.fd, data, self._in_file * TRANSACTION_ENTRY.size) != len(data):
                raise OSError(f"{self._file.path}: not all of {len(data)} bytes were written")
            self._in_file = len(self.entries)
            self.unsynced = True

    def truncate_to(self, offset: int) -> None:
        """Keep transactions whose markers are below `offset`."""
        kept = bisect_left(self.entries, offset, key=_last_offset)
        if kept < len(self.entries):
            del self.entries[kept:]
            if kept < self._in_file:
                os.ftruncate(self._file.open().fd, kept * TRANSACTION_ENTRY.size)
                self._in_file = kept
                self.unsynced = True

    def duplicate(self) -> OpenFile:
        """Return a descriptor of its own for a worker thread."""
        return self._file.open().duplicate()

    def release(self) -> None:
        """Close the file."""
        self._file.release()

    def delete(self) -> None:
        """Remove the file, if it exists."""
        self._file.delete()
        self.entries = []
        self._in_file = 0


def aborted_within(
    indexes: Iterable[TransactionIndex], start_offset: int, end_offset: int
) -> Sequence[AbortedTransaction]:
    """Return the aborted transactions with records from `start_offset` on and before `end_offset`.

    `indexes`: of the segment with `start_offset` and of all later segments, because a marker may come late.
    """
    found: list[AbortedTransaction] = []
    for index in indexes:
        entries = index.entries
        for slot in range(bisect_left(entries, start_offset, key=_last_offset), len(entries)):
            entry = entries[slot]
            if entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                return found
    return found
