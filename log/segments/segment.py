"""A segment: one file of record batches with its indexes.

Owns positions in files: appending, finding offsets and timestamps, truncating. Must not know other segments, producers
or leader epochs. Counterpart in Kafka: LogSegment, FileRecords.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from ottla.log.config import LogConfig
from ottla.log.segments.index import MAX_RELATIVE_OFFSET, NO_TIMESTAMP, CorruptIndexError, OffsetIndex, TimeIndex
from ottla.log.segments.open_files import RWF_NOWAIT, LazyFile, OpenFile, OpenFiles
from ottla.log.segments.transaction_index import TRANSACTION_INDEX_SUFFIX, TransactionIndex
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.records.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, iter_records, parse_header

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
DELETED_SUFFIX = ".deleted"

_READ_AHEAD = 4096
# The fields that give the extent of a batch: base offset, length and last offset delta.
_EXTENT = Struct(">qi11xi")
_LENGTH = Struct(">8xi")
# How many batches a read walks to remember where the next read starts. Beyond them the index is quicker.
_WALK_AT_MOST = 32


class TimestampAndOffset(NamedTuple):
    """A record found by its timestamp. The epoch is -1 if its batch has none."""

    timestamp: int
    offset: int
    leader_epoch: int


class Damage(NamedTuple):
    """An unreadable part of a segment, because no batch begins at `start`. The ends are exclusive."""

    start: int
    start_offset: int
    end: int
    end_offset: int


class Segment:
    """Offsets from `base_offset` on. `size` counts the bytes of appended batches; bytes behind them do not count."""

    __slots__ = (
        "_first_timestamp", "base_offset", "bytes_since_index", "created_ms", "damage", "file", "found_bytes",
        "index_interval_bytes", "is_checked", "max_timestamp", "offset_index", "offset_of_max_timestamp",
        "roll_jitter_ms", "size", "time_index", "transactions", "unsynced",
    )  # fmt: skip

    def __init__(
        self, files: OpenFiles, directory: Path, base_offset: int, config: LogConfig, now_ms: int, suffix: str = ""
    ) -> None:
        """`suffix`: ends the names of all files, while the segment is not part of a log."""
        prefix = f"{directory}/{base_offset:020d}"
        index_bytes = config.segment_index_bytes
        self.base_offset = base_offset
        self.file = LazyFile(files, prefix + LOG_SUFFIX + suffix)
        self.offset_index = OffsetIndex(files, prefix + INDEX_SUFFIX + suffix, base_offset, index_bytes)
        self.time_index = TimeIndex(files, prefix + TIME_INDEX_SUFFIX + suffix, base_offset, index_bytes)
        self.transactions = TransactionIndex(files, prefix + TRANSACTION_INDEX_SUFFIX + suffix)
        self.size = 0
        self.is_checked = True
        """False for a segment found on the disk, until its batches were checked."""
        self.found_bytes = 0
        """How many bytes were found on the disk, neither written nor checked by this process."""
        self.damage: Damage | None = None
        self.unsynced = False
        self.bytes_since_index = 0
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = base_offset
        self.created_ms = now_ms
        self.roll_jitter_ms = config.random_segment_jitter_ms()
        self.index_interval_bytes = config.index_interval_bytes
        self._first_timestamp: int | None = None

    def __repr__(self) -> str:
        return f"Segment(base_offset={self.base_offset}, size={self.size})"

    # Files

    def moved_to(self, directory: Path) -> None:
        """Note that the files are in `directory` now."""
        prefix = f"{directory}/{self.base_offset:020d}"
        self.file.path = prefix + LOG_SUFFIX
        self.offset_index.moved_to(prefix + INDEX_SUFFIX)
        self.time_index.moved_to(prefix + TIME_INDEX_SUFFIX)
        self.transactions.moved_to(prefix + TRANSACTION_INDEX_SUFFIX)

    def create(self) -> None:
        """Create the three files, empty."""
        self.file.create()
        self.offset_index.create()
        self.time_index.create()
        self.unsynced = True

    def load(self) -> None:
        """Load existing files as a clean shutdown or a roll left them.

        FileNotFoundError or CorruptIndexError if the indexes must be rebuilt.
        """
        self.load_size()
        self.offset_index.load()
        self.time_index.load()
        if self.offset_index.last_position() >= max(self.size, 1):
            raise CorruptIndexError(f"{self.offset_index.path} points behind the end of its segment")
        if self.size and not self.time_index.entries and self.first_timestamp() >= 0:
            raise CorruptIndexError(f"{self.time_index.path} has no entry for its segment")
        self.max_timestamp, self.offset_of_max_timestamp = self.time_index.last_entry
        self.found_bytes = self.size
        self.is_checked = not self.size

    def reset(self) -> None:
        """Forget all batches and empty the indexes; recovery then adds the batches one by one."""
        self.offset_index.create()
        self.time_index.create()
        self.size = 0
        self.bytes_since_index = 0
        self.max_timestamp, self.offset_of_max_timestamp = NO_TIMESTAMP, self.base_offset
        self.is_checked = True
        self.found_bytes = 0
        self.damage = None

    def load_size(self) -> None:
        """Take the size from the log file."""
        self.size = os.stat(self.file.path).st_size  # noqa: PTH116

    def resize_indexes_to_max(self) -> None:
        """Make room in the indexes, because this is the active segment."""
        self.offset_index.resize_to_max()
        self.time_index.resize_to_max()

    def become_inactive(self) -> None:
        """Complete and trim the indexes, because no more records come."""
        self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp, final=True)
        self.offset_index.trim()
        self.time_index.trim()

    def unsynced_files(self) -> list[OpenFile]:
        """Return duplicated descriptors of all files that changed since the last call."""
        found = []
        self.offset_index.write_tail()
        self.time_index.write_tail()
        self.transactions.write_tail()
        if self.unsynced:
            found.append(self.file.open().duplicate())
            self.unsynced = False
        for index in (self.offset_index, self.time_index, self.transactions):
            if index.unsynced:
                found.append(index.duplicate())
                index.unsynced = False
        return found

    def mark_unsynced(self) -> None:
        """Mark all files as changed, because a flush failed or was discarded."""
        self.unsynced = self.offset_index.unsynced = self.time_index.unsynced = True
        self.transactions.unsynced = bool(self.transactions.entries)

    def release(self) -> None:
        """Close all files."""
        self.file.release()
        self.offset_index.release()
        self.time_index.release()
        self.transactions.release()

    def delete(self) -> None:
        """Remove the files; regions stay readable. The log file goes last, because a start finds a segment by it."""
        self.offset_index.delete()
        self.time_index.delete()
        self.transactions.delete()
        self.file.delete()

    def set_aside(self) -> list[str]:
        """Rename the files so that a start removes them; return their new names for `remove_files`.

        The log file goes first, because a start ignores an index without a log file.
        """
        self.release()
        # Few segments have a transaction index.
        transactions = self.file.path.removesuffix(LOG_SUFFIX) + TRANSACTION_INDEX_SUFFIX
        return set_aside([self.file.path, self.offset_index.path, self.time_index.path, transactions])

    # Age

    def last_modified_ms(self) -> int:
        """When the log file was last written to."""
        return os.stat(self.file.path).st_mtime_ns // 1_000_000  # noqa: PTH116

    def largest_timestamp(self) -> int:
        """The largest timestamp of all records; without timestamps, `last_modified_ms`."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.last_modified_ms()

    # Appending

    def should_roll(self, config: LogConfig, size: int, max_timestamp: int, last_offset: int, now_ms: int) -> bool:
        """Whether a batch of this size, timestamp and last offset needs a new segment."""
        if self.size > config.segment_bytes - size or last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if not self.size:
            return False
        first = self.first_timestamp()
        waited = max_timestamp - first if first >= 0 else now_ms - self.created_ms
        return (
            waited > config.max_segment_ms - self.roll_jitter_ms
            or self.offset_index.entries >= self.offset_index.max_entries
            or self.time_index.is_full
        )

    @property
    def indexable_batches(self) -> int:
        """How many batches fit into the indexes, if each of them gets an entry."""
        offsets, times = self.offset_index, self.time_index
        return min(offsets.max_entries - offsets.entries, times.max_entries - times.entries)

    def first_timestamp(self) -> int:
        """The max timestamp of the first batch, from which `segment.ms` counts."""
        first = self._first_timestamp
        if first is None:
            if not self.size:
                return NO_TIMESTAMP
            found = next(self.headers(0), None)
            first = self._first_timestamp = NO_TIMESTAMP if found is None else found[1].max_timestamp
        return first

    def write(self, buffers: Sequence[bytes | bytearray | memoryview], size: int) -> None:
        """Write batches to the end of the file. They do not count before `added`.

        OSError for a failed or short write, which leaves the file as it was.
        """
        write_at(self.file.open().fd, self.file.path, buffers, size, self.size)

    def added(self, size: int, last_offset: int, max_timestamp: int) -> None:
        """Count one written batch, and add index entries if `index.interval.bytes` have passed."""
        position = self.size
        if not position:
            self._first_timestamp = max_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max_timestamp = last_offset
        if self.bytes_since_index > self.index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
            self.bytes_since_index = 0
        self.bytes_since_index += size
        self.size = position + size
        self.unsynced = True

    # Finding

    def find(self, offset: int) -> int | None:
        """Return the position of the batch with `offset`, or of the first batch behind it; None if there is none."""
        position = self.offset_index.position_for(offset)
        if self.damage is not None:
            position = self._beside_damage(self.damage, offset, position)
        fd = self.file.open().fd
        end = self.size
        block = b""
        block_start = position
        while position < end:
            at = position - block_start
            if at + _EXTENT.size > len(block):
                block = os.pread(fd, _READ_AHEAD, position)
                block_start = position
                at = 0
                if len(block) < _EXTENT.size:
                    break
            base_offset, length, last_offset_delta = _EXTENT.unpack_from(block, at)
            if length < HEADER_SIZE - LOG_OVERHEAD:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.file.path}: no batch at position {position}")
            if base_offset + last_offset_delta >= offset:
                return position
            position += length + LOG_OVERHEAD
        return None

    def _beside_damage(self, damage: Damage, offset: int, position: int) -> int:
        if damage.start_offset <= offset < damage.end_offset:
            raise self._damaged(damage)
        return max(position, damage.end) if offset >= damage.end_offset else position

    def readable_end(self, position: int, end: int) -> int:
        """Return the end, at most `end`, of a read from `position` on; CORRUPT_MESSAGE if `position` is damaged."""
        damage = self.damage
        if damage is None or position >= damage.end:
            return end
        if position >= damage.start:
            raise self._damaged(damage)
        return min(end, damage.start)

    def _damaged(self, damage: Damage) -> KafkaError:
        detail = f"{self.file.path} is damaged between positions {damage.start} and {damage.end}"
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, detail)

    def batch_size(self, position: int) -> int:
        """Return the size of the batch that starts at `position`."""
        return LOG_OVERHEAD + int(_LENGTH.unpack(os.pread(self.file.open().fd, _LENGTH.size, position))[0])

    def read_cached(self, position: int, size: int) -> bytearray | None:
        """Return bytes from the page cache; None if they are not all there, or if the file system cannot tell."""
        data = bytearray(size)
        try:
            got = os.preadv(self.file.open().fd, (data,), position, RWF_NOWAIT)
        except OSError:
            return None
        return data if got == size else None

    def headers(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """Return positions and headers of the batches from `position` on, up to the end of the segment."""
        return iter_headers(self.file.open(), position, self.size)

    def headers_before(self, offset: int, at_most: int) -> Iterator[BatchHeader]:
        """Return the headers of the batches in the last `at_most` bytes, or a few more, before `offset`."""
        found = self.find(offset)
        end = self.size if found is None else found
        for position, header in self.headers(self.offset_index.position_at_or_before(end - at_most)):
            if position >= end:
                return
            yield header

    def read_batch(self, position: int, header: BatchHeader) -> memoryview:
        """Return the bytes of one batch."""
        return memoryview(os.pread(self.file.open().fd, header.size, position))

    def next_offset(self) -> tuple[int, int]:
        """Return the offset behind the last whole batch, and the position of the end of this batch."""
        end = self.offset_index.last_position()
        offset = self.base_offset
        for position, header in self.headers(end):
            offset = header.next_offset
            end = position + header.size
        return offset, end

    def offset_for_timestamp(self, timestamp: int, start_offset: int) -> TimestampAndOffset | None:
        """Return the first record from `start_offset` on that is not older than `timestamp`."""
        from_offset = max(self.time_index.lookup(timestamp).offset, start_offset)
        for position, header in self.headers(self.offset_index.position_for(from_offset)):
            if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
                for record in iter_records(self.read_batch(position, header)):
                    if record.timestamp >= timestamp and record.offset >= start_offset:
                        return TimestampAndOffset(record.timestamp, record.offset, header.partition_leader_epoch)
        return None

    def find_max_timestamp(self) -> TimestampAndOffset | None:
        """Return the first record with the largest timestamp of the segment."""
        largest = self.max_timestamp
        for position, header in self.headers(self.offset_index.position_for(self.offset_of_max_timestamp)):
            if header.max_timestamp != largest:
                continue
            for record in iter_records(self.read_batch(position, header)):
                if record.timestamp == largest:
                    return TimestampAndOffset(largest, record.offset, header.partition_leader_epoch)
        return None

    # Truncating

    def truncate_to(self, offset: int) -> None:
        """Drop the batch with `offset` and all later batches; extend the indexes of the new active segment."""
        found = self.find(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transactions.truncate_to(offset)
        if found is not None:
            self.truncate_file(found)
        self.bytes_since_index = 0
        self._load_max_timestamp()

    def truncate_file(self, size: int) -> None:
        """Cut the log file to `size`."""
        os.ftruncate(self.file.open().fd, size)
        self.size = size
        self.found_bytes = min(self.found_bytes, size)
        self.unsynced = True
        if not size:
            self._first_timestamp = None

    def _load_max_timestamp(self) -> None:
        """Take the largest timestamp from the time index and from the batches behind its last entry."""
        self.max_timestamp, self.offset_of_max_timestamp = self.time_index.last_entry
        for _, header in self.headers(self.offset_index.position_for(self.offset_of_max_timestamp)):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.offset_of_max_timestamp = header.last_offset


def write_at(fd: int, path: str, buffers: Sequence[bytes | bytearray | memoryview], size: int, position: int) -> None:
    """Write `size` bytes at `position`, the end of the file; OSError for a failed write, which is cut off again."""
    try:
        written = os.pwrite(fd, buffers[0], position) if len(buffers) == 1 else os.pwritev(fd, buffers, position)
        if written != size:
            raise OSError(f"{path}: wrote {written} of {size} bytes")
    except OSError:
        with suppress(OSError):  # a recovery will find the rest if this fails too
            os.ftruncate(fd, position)
        raise


def set_aside(paths: Sequence[str]) -> list[str]:
    """Rename files so that a start removes them; return the new names of all files that existed."""
    renamed = []
    for path in paths:
        with suppress(FileNotFoundError):
            os.rename(path, path + DELETED_SUFFIX)  # noqa: PTH104 - paths are plain strings here
            renamed.append(path + DELETED_SUFFIX)
    return renamed


def iter_headers(file: OpenFile, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Return positions and headers of the batches between two positions; CorruptBatch if a position has no batch."""
    block = b""
    block_start = position
    while position + HEADER_SIZE <= end:
        at = position - block_start
        if at + HEADER_SIZE > len(block):
            block = os.pread(file.fd, _READ_AHEAD, position)
            block_start = position
            at = 0
        header = parse_header(block, at)
        if position + header.size > end:
            return
        yield position, header
        position += header.size


def end_of_batches(data: bytearray) -> tuple[int, int | None]:
    """Return the end of the whole batches in `data`, and the next offset, None behind more than _WALK_AT_MOST."""
    end, following = 0, None
    for _ in range(_WALK_AT_MOST):
        if end + HEADER_SIZE > len(data):
            return end, following
        base_offset, length, last_offset_delta = _EXTENT.unpack_from(data, end)
        if end + LOG_OVERHEAD + length > len(data):
            return end, following
        end += LOG_OVERHEAD + length
        following = base_offset + last_offset_delta + 1
    return end, None
