"""Descriptors of log files: opened when first needed, kept in a bounded LRU, closed when the last holder lets go.

Owns descriptors. Must not know what the files mean.
Counterpart in Kafka: FileRecords' and AbstractIndex' open channels (Kafka keeps every file open for good; the limit of
descriptors here is 20,000, and 10,000 partitions have 30,000 files).
"""

import os
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

RWF_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_PROBE_EVERY = 65536


class OpenFile:
    """One descriptor. Whoever reads from it holds this object: it closes with the last reference."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def duplicate(self) -> "OpenFile":
        """A descriptor of its own on the same open file, for a worker thread."""
        return OpenFile(os.dup(self.fd))

    def __del__(self) -> None:
        with suppress(OSError):
            os.close(self.fd)


class LazyFile:
    """A file by its path, opened on demand through the pool that may close it at any time between two uses."""

    __slots__ = ("_file", "_pool", "path")

    def __init__(self, pool: "OpenFiles", path: str) -> None:
        self.path = path
        self._pool = pool
        self._file: OpenFile | None = None

    def open(self) -> OpenFile:
        """The descriptor; good for as long as the caller holds it."""
        file = self._file
        if file is None:
            file = OpenFile(os.open(self.path, os.O_RDWR | os.O_CLOEXEC))
            self._file = file
            self._pool.opened(self)
        else:
            self._pool.used(self)
        return file

    def create(self) -> OpenFile:
        """Make the file, empty, whatever stood there before."""
        self.release()
        file = OpenFile(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644))
        self._file = file
        self._pool.opened(self)
        return file

    def release(self) -> None:
        """Let go of the descriptor; others who hold it keep it alive."""
        if self._file is not None:
            self._file = None
            self._pool.forget(self)

    def evicted(self) -> None:
        """The pool's side of release."""
        self._file = None

    def delete(self) -> None:
        """Remove the file if it is there."""
        self.release()
        with suppress(FileNotFoundError):
            os.unlink(self.path)  # noqa: PTH108 - paths are plain strings here


class OpenFiles:
    """The least recently used order of all open log files of a broker."""

    __slots__ = ("_limit", "_order", "used")

    def __init__(self, limit: int = 4096) -> None:
        self._limit = limit
        self._order: OrderedDict[LazyFile, None] = OrderedDict()
        self.used = self._order.move_to_end
        """Called for every use of an open file, so it is the bare method."""

    def __len__(self) -> int:
        return len(self._order)

    def opened(self, file: LazyFile) -> None:
        """Enter a file; the one unused for longest may lose its place."""
        self._order[file] = None
        if len(self._order) > self._limit:
            eldest, _ = self._order.popitem(last=False)
            eldest.evicted()

    def forget(self, file: LazyFile) -> None:
        """Leave out a file that its owner released."""
        self._order.pop(file, None)


class FileRegion:
    """Bytes of a log file that go to a socket as they are."""

    __slots__ = ("failed", "file", "length", "position")

    def __init__(self, file: OpenFile, position: int, length: int, failed: Callable[[OSError], object]) -> None:
        self.file = file
        self.position = position
        self.length = length
        self.failed = failed
        """To be called on the loop with the error of a disk that does not give the bytes: nobody else knows of it."""

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        return f"FileRegion(fd={self.file.fd}, position={self.position}, length={self.length})"

    def fileno(self) -> int:
        """The descriptor, valid while this region is held."""
        return self.file.fd

    def read(self) -> bytes:
        """The bytes themselves. May wait for the disk: a way to warm the page cache from a worker thread."""
        return os.pread(self.file.fd, self.length, self.position)

    def is_cached(self) -> bool:
        """Whether the region seems to be in the page cache, from a byte of every 64 KiB and the last one."""
        if not self.length:
            return True
        fd = self.file.fd
        probe = [bytearray(1)]
        end = self.position + self.length
        try:
            for position in range(self.position, end, _PROBE_EVERY):
                os.preadv(fd, probe, position, RWF_NOWAIT)
            os.preadv(fd, probe, end - 1, RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError:  # a file system that cannot tell: sending from it blocks no longer than reading would
            return True
        return True
