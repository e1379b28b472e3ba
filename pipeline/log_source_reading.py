"""Reading one slice of a log: from files to columns, whatever a broker does to the files meanwhile.

Owns the walk over batches, which of them are left out, and what is said of those that are damaged. Must not know what
is made of the columns. Counterparts in Kafka: CompletedFetch, FileRecords.

A file that was opened can be read though it is deleted. One that is gone before has others in its place that hold the
same offsets, or the offsets are gone with it.
"""

import logging
import os
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Final

from ottla.log.segments.open_files import OpenFile
from ottla.pipeline.log_source_columns import BatchWalk, Columns
from ottla.pipeline.log_source_directories import TO_GO_ON, Slice, UnreadableLogError
from ottla.pipeline.log_source_segments import (
    SegmentFile,
    header_at,
    inode_of,
    open_file,
    segment_files,
    size_of,
    steady,
)
from ottla.wire.errors import KafkaError
from ottla.wire.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    CorruptBatch,
    check_records,
    crc_is_valid,
    iter_batches,
    parse_header,
)
from ottla.wire.records.compression import DecompressionError, decompress_pieces

CHUNK: Final = 4 << 20
# What makes a set of columns: few enough bytes to be held by many tasks at a time, enough rows to be worth the trouble.
COLUMN_BYTES: Final = 8 << 20
COLUMN_ROWS: Final = 1 << 16

logger = logging.getLogger("ottla.pipeline.log_source")


class DamagedLogError(UnreadableLogError):
    """A batch that cannot be read."""


class SliceReader:
    """Reads one slice, once."""

    def __init__(self, wanted: Slice, *, is_permissive: bool, fail_on_data_loss: bool) -> None:
        self._slice = wanted
        self._is_permissive = is_permissive
        self._fail_on_data_loss = fail_on_data_loss
        self._aborted: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for producer_id, first_offset, last_offset in wanted.aborted:
            self._aborted[producer_id].append((first_offset, last_offset))
        self._next = wanted.start
        """Records before it are read, or are not there any more."""
        self._columns = Columns(wanted.start, wanted.end)

    def read(self) -> Iterator[Columns]:
        """The records in their order, some tens of thousands at a time."""
        for segment, file, position, is_exact in self._files():
            yield from self._read_file(segment, file, position, is_exact)
        if self._columns.rows:
            yield self._columns

    # Finding files

    def _files(self) -> Iterator[tuple[SegmentFile, OpenFile, int, bool]]:
        """The file that was planned for, or those that are in its place, where to begin, and whether the end is exact.

        A file that was swapped has other batches: beyond the end as well, where the last ones before it were dropped.
        """
        segment = self._slice.segment
        try:
            file = open_file(segment.path)
        except FileNotFoundError:
            yield from self._files_instead(segment.directory)
            return
        is_exact = self._slice.is_exact and inode_of(file) == self._slice.inode
        yield segment, file, self._slice.place.position if self._is_there(file) else 0, is_exact

    def _is_there(self, file: OpenFile) -> bool:
        """Whether the batch to begin with is where it was."""
        position, offset = self._slice.place
        try:
            return header_at(file, position).base_offset == offset
        except CorruptBatch:
            return False

    def _files_instead(self, directory: Path) -> Iterator[tuple[SegmentFile, OpenFile, int, bool]]:
        while self._next < self._slice.end:
            try:
                segment, file, end = steady(directory, partial(self._look, directory))
            except FileNotFoundError:
                self._lost(self._slice.end)
                return
            if segment.base_offset > self._next:
                self._lost(min(segment.base_offset, self._slice.end))
            yield segment, file, 0, False
            self._next = max(self._next, end)

    def _look(self, directory: Path, names: Sequence[str]) -> tuple[SegmentFile, OpenFile, int]:
        """The segment that has the next offset, or else the first; its file, and where the one behind it begins."""
        segments = segment_files(directory, names)
        if not segments:
            raise FileNotFoundError(directory)
        slot = max(bisect_right([each.base_offset for each in segments], self._next) - 1, 0)
        end = segments[slot + 1].base_offset if slot + 1 < len(segments) else self._slice.end
        return segments[slot], open_file(segments[slot].path), end

    def _lost(self, end: int) -> None:
        what = f"{self._slice.topic_partition}: records {self._next} to {end - 1} were deleted before they were read"
        if self._fail_on_data_loss:
            raise UnreadableLogError(f"{what}. {TO_GO_ON}")
        logger.warning("%s", what)
        self._next = end

    # Reading batches

    def _read_file(self, segment: SegmentFile, file: OpenFile, begin: int, is_exact: bool) -> Iterator[Columns]:
        start, end = self._next, self._slice.end
        lowest = segment.base_offset
        for position, header, batch in self._batches(segment, file, begin):
            is_beyond = header.base_offset >= end and not (is_exact and header.base_offset > end)
            if is_beyond and (lowest >= end or not self._is_out_of_order(file, position, header)):
                return
            if not crc_is_valid(batch):
                self._damaged(segment, position, "The checksum of the batch is another one")
                continue
            if not lowest <= header.base_offset < end:
                self._damaged(segment, position, f"No batch can have offset {header.base_offset} here")
            else:
                lowest = header.next_offset
            if header.last_offset >= start and not self._is_left_out(header):
                try:
                    if self._is_permissive:  # none of its records is taken if there is one that cannot be
                        check_records(batch)
                    yield from self._take(header, batch)
                except (KafkaError, DecompressionError, ValueError) as error:
                    self._damaged(segment, position, getattr(error, "detail", str(error)))
            if lowest >= end:
                return

    def _is_out_of_order(self, file: OpenFile, position: int, header: BatchHeader) -> bool:
        """Whether offsets go back behind a batch: its own, which is under no checksum, is then another one."""
        try:
            return header_at(file, position + header.size).base_offset < header.next_offset
        except CorruptBatch:
            return False

    def _is_left_out(self, header: BatchHeader) -> bool:
        if header.is_control:
            return True
        if not header.is_transactional or header.producer_id not in self._aborted:
            return False
        # Of one producer, of which one begins behind the end of another.
        aborted = self._aborted[header.producer_id]
        slot = bisect_left(aborted, header.base_offset, key=itemgetter(1))
        return slot < len(aborted) and aborted[slot][0] <= header.base_offset

    def _batches(
        self, segment: SegmentFile, file: OpenFile, position: int
    ) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        size = size_of(file)
        wanted = CHUNK
        while position < size:
            start = position
            try:
                chunk = memoryview(os.pread(file.fd, min(wanted, size - position), position))
                for header, batch in iter_batches(chunk):
                    yield position, header, batch
                    position += header.size
                if position == start:
                    wanted = parse_header(chunk).size
                    if wanted > size - position:
                        raise CorruptBatch(f"A batch of {wanted} bytes where {size - position} are left")
                else:
                    wanted = CHUNK
            except (CorruptBatch, OSError) as error:
                self._damaged(segment, position, error.detail if isinstance(error, CorruptBatch) else str(error))
                position = segment.offset_index().position_behind(position) or size

    def _damaged(self, segment: SegmentFile, position: int, what: str) -> None:
        if not self._is_permissive:
            raise DamagedLogError(f"{segment.path}: position {position}: {what}")
        logger.warning("%s: position %d: %s; left out", segment.path, position, what)

    def _take(self, header: BatchHeader, batch: memoryview) -> Iterator[Columns]:
        walk = BatchWalk(header)
        rest: list[bytes] = []
        size = 0
        for piece in decompress_pieces(header.compression, batch[HEADER_SIZE:]):
            rest.append(piece)
            size += len(piece)
            if size >= walk.wanted:
                data = b"".join(rest) if len(rest) > 1 else piece
                if not self._columns.fits(size):
                    yield self._columns
                    self._columns = Columns(self._slice.start, self._slice.end)
                taken = self._columns.take(data, walk)
                size -= taken
                rest = [data[taken:]] if size else []
                if self._columns.size >= COLUMN_BYTES or self._columns.rows >= COLUMN_ROWS:
                    yield self._columns
                    self._columns = Columns(self._slice.start, self._slice.end)
        if walk.left or size:
            raise CorruptBatch(f"{size} bytes are left behind the records, of which {walk.left} are missing")
