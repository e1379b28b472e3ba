"""Descriptors of log files: opened on first use, kept in a bounded LRU, closed with the last reference.

Owns descriptors, and how many of the process's descriptors are for log files. Must not know what the files mean.
Counterpart in Kafka: FileRecords' and AbstractIndex' open channels (Kafka keeps every file open; the limit of
descriptors here is 20,000, and 10,000 partitions have 30,000 files).

A `FileRegion` in a reply holds no descriptor, only its file, which is opened again when the bytes are sent. Otherwise
replies that no client reads would take all descriptors.
"""

import errno
import os
import resource
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

RWF_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_PROBE_EVERY = 65536
_MOST_OPEN: Final = 4096
_GIVEN_UP_AT_ONCE: Final = 64
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE)
_READ_AND_WRITE: Final = os.O_RDWR | os.O_CLOEXEC


class OpenFile:
    """One descriptor. It closes with the last reference to this object."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def duplicate(self) -> "OpenFile":
        """Return a descriptor of its own on the same open file, for a worker thread."""
        return OpenFile(os.dup(self.fd))

    def __del__(self) -> None:
        with suppress(OSError):
            os.close(self.fd)


class LazyFile:
    """A file by its path, opened on demand. The pool may close it at any time between two uses."""

    __slots__ = ("_file", "_is_over", "_kept", "_pool", "_regions", "path")

    def __init__(self, pool: "OpenFiles", path: str) -> None:
        self.path = path
        self._pool = pool
        self._file: OpenFile | None = None
        self._regions = 0
        # Whether the file was released while regions existed, because another file may have its path now.
        self._is_over = False
        self._kept: OpenFile | None = None

    def open(self) -> OpenFile:
        """Return the descriptor, valid as long as the caller holds it."""
        file = self._file
        if file is None:
            file = self._opened(_READ_AND_WRITE)
        else:
            self._pool.used(self)
        return file

    def create(self) -> OpenFile:
        """Create the file, or empty an existing one; return the descriptor."""
        self.release()
        return self._opened(_READ_AND_WRITE | os.O_CREAT | os.O_TRUNC)

    def _opened(self, flags: int) -> OpenFile:
        try:
            fd = os.open(self.path, flags, 0o644)
        except OSError as error:
            if error.errno not in _EXHAUSTED or not self._pool.give_up():
                raise
            fd = os.open(self.path, flags, 0o644)
        file = self._file = OpenFile(fd)
        self._pool.opened(self)
        return file

    def release(self) -> None:
        """Close the file. References to the descriptor and regions keep the descriptor open."""
        if self._regions:
            self._is_over = True
            self._kept = self._kept or self._file
        if self._file is not None:
            self._file = None
            self._pool.forget(self)

    def evicted(self) -> None:
        """Drop the descriptor, because the pool dropped the file."""
        self._file = None

    def delete(self) -> None:
        """Remove the file if it exists."""
        self.release()
        with suppress(FileNotFoundError):
            os.unlink(self.path)  # noqa: PTH108 - paths are plain strings here

    def region_begins(self) -> None:
        """Count a new region."""
        self._regions += 1

    def region_ends(self) -> None:
        """Count the end of a region."""
        self._regions -= 1
        if not self._regions:
            self._is_over = False
            self._kept = None

    def open_for_region(self) -> OpenFile:
        """Return the descriptor; FileNotFoundError if the file was released while it was not open."""
        if not self._is_over:
            return self.open()
        if self._kept is None:
            raise FileNotFoundError(errno.ENOENT, "removed before it was sent", self.path)
        return self._kept


class OpenFiles:
    """The least recently used order of all open log files of a broker."""

    __slots__ = ("_limit", "_order", "used")

    def __init__(self, limit: int | None = None) -> None:
        """Without a `limit`, keep at most half of the process's descriptors, because connections need the rest."""
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._limit = limit or (_MOST_OPEN if soft == resource.RLIM_INFINITY else min(_MOST_OPEN, soft // 2))
        self._order: OrderedDict[LazyFile, None] = OrderedDict()
        self.used = self._order.move_to_end
        """Marks a file as used. It is the bare method of the dictionary, because every use calls it."""

    def __len__(self) -> int:
        return len(self._order)

    def opened(self, file: LazyFile) -> None:
        """Add an open file; beyond the limit, close the least recently used file."""
        self._order[file] = None
        if len(self._order) > self._limit:
            eldest, _ = self._order.popitem(last=False)
            eldest.evicted()

    def give_up(self) -> bool:
        """Close some files, because the process is out of descriptors; return whether any were open."""
        count = min(len(self._order), _GIVEN_UP_AT_ONCE)
        for _ in range(count):
            eldest, _ = self._order.popitem(last=False)
            eldest.evicted()
        return count > 0

    def forget(self, file: LazyFile) -> None:
        """Remove a released file."""
        self._order.pop(file, None)


class FileRegion:
    """Bytes of a log file that go to a socket unchanged. Only the loop may use it; worker threads use `reader`."""

    __slots__ = ("_file", "failed", "length", "position")

    def __init__(self, file: LazyFile, position: int, length: int, failed: Callable[[OSError], object]) -> None:
        """OSError if the file cannot be opened."""
        self._file = file
        self.position = position
        self.length = length
        self.failed = failed
        """Call this on the loop with an OSError of reading the bytes, because only the caller meets the error."""
        file.region_begins()
        file.open()

    def __del__(self) -> None:
        self._file.region_ends()

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        return f"FileRegion({self._file.path}, position={self.position}, length={self.length})"

    def fileno(self) -> int:
        """Return the descriptor, valid until another file is opened."""
        return self._file.open_for_region().fd

    def reader(self) -> Callable[[], bytes]:
        """Return a function that reads the bytes and may wait for the disk. Any thread may call the function."""
        return partial(_read, self._file.open_for_region(), self.position, self.length)

    def read(self) -> bytes:
        """Return the bytes; may wait for the disk."""
        return self.reader()()

    def is_cached(self) -> bool:
        """Whether the region seems to be in the page cache: one byte of every 64 KiB, and the last byte, are."""
        if not self.length:
            return True
        file = self._file.open_for_region()
        fd = file.fd
        probe = [bytearray(1)]
        end = self.position + self.length
        try:
            for position in range(self.position, end, _PROBE_EVERY):
                os.preadv(fd, probe, position, RWF_NOWAIT)
            os.preadv(fd, probe, end - 1, RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError:  # the file system cannot tell; sending blocks no longer than reading
            return True
        return True


def _read(file: OpenFile, position: int, length: int) -> bytes:
    return os.pread(file.fd, length, position)
