"""The check of a segment that was found on the disk, before its first read.

Owns the checks: the headers follow each other to the end of the file, offsets rise and stay below the next segment's,
and the index entries are right. A checksum covers neither a batch's length nor its offset. Works on plain values in a
worker thread. Must not know readers. Counterpart in Kafka: none, because Kafka serves every segment unchecked.
"""

import os
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from ottla.log.segments.batch_order import certain_batches
from ottla.log.segments.crc import crc_of_range
from ottla.log.segments.index import MAX_RELATIVE_OFFSET, OFFSET_ENTRY, TIME_ENTRY
from ottla.log.segments.index_check import IndexEntries, PositionCheck, TimeCheck
from ottla.log.segments.open_files import OpenFile
from ottla.log.segments.segment import iter_headers
from ottla.wire.records.batch import BatchHeader, CorruptBatch
from ottla.wire.records.batch_header import ATTRIBUTES_POSITION


class CheckOutcome(NamedTuple):
    """The result of a check."""

    sound_bytes: int
    """The end of the sound batches; the size of the segment if nothing is wrong."""
    end_offset: int
    """The first offset behind the sound batches."""
    offset_entries: bytes | None
    """The right entries of the offset index, None if its entries are right."""
    time_entries: bytes | None


class SegmentCheck(NamedTuple):
    """The check of one segment. The loop creates it; any thread may call `run`."""

    file: OpenFile
    offset_index: OpenFile
    time_index: OpenFile
    offset_entries: int
    """How many entries to check; the log may add more meanwhile."""
    time_entries: int
    base_offset: int
    size: int
    end_offset: int
    """The base offset of the next segment, or the log end offset."""
    max_timestamp: int
    """The largest timestamp without an entry in the time index, -1 if unknown."""
    index_interval_bytes: int

    def run(self) -> CheckOutcome:
        """Check all batches and index entries."""
        fd = self.file.fd
        base_offset = self.base_offset
        found = IndexEntries(base_offset, self.index_interval_bytes)
        positions = PositionCheck(_entries(self.offset_index, self.offset_entries, OFFSET_ENTRY), base_offset)
        times = TimeCheck(_entries(self.time_index, self.time_entries, TIME_ENTRY), base_offset)
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
        # A wrong length may hide later batches: if some are missing behind the last batch, check its checksum.
        is_doubtful = sound_bytes < self.size or following < self.end_offset
        if before is not None and is_doubtful and not _is_intact(fd, *before):
            sound_bytes, following = before[0], before[1].base_offset
        is_whole = sound_bytes == self.size
        positions.end(following, is_whole)
        times.end(following, is_whole, self.max_timestamp)
        found.end()
        return CheckOutcome(
            sound_bytes,
            following,
            None if positions.wrong is None else bytes(found.offset_entries),
            None if times.wrong is None else bytes(found.time_entries),
        )

    def _headers(self) -> Iterator[tuple[int, BatchHeader]]:
        try:
            yield from iter_headers(self.file, 0, self.size)
        except CorruptBatch:
            return


def _entries(file: OpenFile, count: int, entry: Struct) -> bytes:
    return os.pread(file.fd, count * entry.size, 0)


def _is_intact(fd: int, position: int, header: BatchHeader) -> bool:
    return crc_of_range(fd, position + ATTRIBUTES_POSITION, position + header.size) == header.crc
