"""The cleaner: rewrites segments with only the newest record of each key.

Owns which records stay, and the new files, which are synced before they are reported. Works on plain values, in a
process of its own. Must not know a log that is in use, nor how new files replace old files.
Counterparts in Kafka: Cleaner, MemoryRecords.filterTo.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ottla.log.compaction.cleaned_transactions import CleanedTransactions, aborted_transactions
from ottla.log.compaction.offset_map import OffsetMap
from ottla.log.config import LogConfig
from ottla.log.segments.index import MAX_RELATIVE_OFFSET, CorruptIndexError
from ottla.log.segments.open_files import OpenFiles
from ottla.log.segments.segment import LOG_SUFFIX, Segment
from ottla.wire.errors import KafkaError
from ottla.wire.records.batch_header import HEADER_SIZE, BatchHeader, crc_is_valid, parse_header
from ottla.wire.records.filter import BatchRecords, Span, batch_records, emptied_batch, filtered_batch

CLEANED_SUFFIX: Final = ".cleaned"
# How many segments become one at most, because swapping takes the loop a few microseconds for each.
_GROUP_AT_MOST: Final = 100
_WRITTEN_AT_ONCE: Final = 1 << 20
_LEAST_BUFFER: Final = 1 << 16
_LATEST: Final = 2**63 - 1

Pace = Callable[[int], None]
"""Called with the number of bytes read or written; may wait, or raise."""


class CorruptLogError(Exception):
    """A log with a corrupt batch or index."""


class SourceSegment(NamedTuple):
    """An inactive segment as plain values."""

    base_offset: int
    size: int
    offset_index_bytes: int
    time_index_bytes: int


class CleaningJob(NamedTuple):
    """A log to compact, with everything that compaction depends on."""

    directory: str
    segments: Sequence[SourceSegment]
    """All segments below `end_offset`."""
    first_dirty_offset: int
    end_offset: int
    producers: Mapping[int, tuple[int, int]]
    """By producer id the last offset of its data, -1 without data, and its epoch."""
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    max_keys: int
    buffer_bytes: int


class CleanedGroup(NamedTuple):
    """Segments that one cleaned segment can replace. It has the name of the first, with `CLEANED_SUFFIX`."""

    base_offset: int
    segment_count: int


class CleaningStats(NamedTuple):
    """What a cleaning read and wrote; seconds count from its start."""

    end_offset: int
    """Where the next cleaning begins."""
    map_bytes_read: int
    map_seconds: float
    map_utilization: float
    bytes_read: int
    bytes_written: int
    messages_read: int
    messages_written: int
    invalid_messages: int
    seconds: float


def clean(job: CleaningJob, pace: Pace) -> Iterator[CleanedGroup | CleaningStats]:
    """Compact a log; yield each group when its new segment is synced, and the stats at the end.

    CorruptLogError for a corrupt log; OSError if the disk fails.
    """
    try:
        remove_cleaned(Path(job.directory))
        yield from _Cleaning(job, pace).run()
    except CorruptIndexError as error:
        remove_cleaned(Path(job.directory))
        raise CorruptLogError(str(error)) from error
    except BaseException:
        remove_cleaned(Path(job.directory))
        raise


def remove_cleaned(directory: Path) -> None:
    """Remove the files of an interrupted cleaning."""
    for path in directory.glob("*" + CLEANED_SUFFIX):
        path.unlink(missing_ok=True)


def group_segments(segments: Sequence[SourceSegment], job: CleaningJob) -> list[list[SourceSegment]]:
    """Return groups of segments that fit into one segment, its indexes and the range of relative offsets."""
    groups: list[list[SourceSegment]] = []
    for segment, end in _with_ends(segments, job.end_offset):
        group = groups[-1] if groups else []
        fits = (
            0 < len(group) < _GROUP_AT_MOST
            and sum(each.size for each in group) + segment.size <= job.segment_bytes
            and sum(each.offset_index_bytes for each in group) + segment.offset_index_bytes <= job.segment_index_bytes
            and sum(each.time_index_bytes for each in group) + segment.time_index_bytes <= job.segment_index_bytes
            and (not segment.size or end - 1 - group[0].base_offset <= MAX_RELATIVE_OFFSET)
        )
        if fits:
            group.append(segment)
        else:
            groups.append([segment])
    return groups


def _with_ends(segments: Sequence[SourceSegment], end_offset: int) -> Iterator[tuple[SourceSegment, int]]:
    """Return each segment with the base offset of the next one."""
    ends = [each.base_offset for each in segments] + [end_offset]
    return zip(segments, ends[1:], strict=True)


class _Cleaning:
    def __init__(self, job: CleaningJob, pace: Pace) -> None:
        self.job = job
        self.pace = pace
        self.directory = Path(job.directory)
        self.files = OpenFiles()
        self.config = LogConfig(
            segment_bytes=job.segment_bytes,
            segment_index_bytes=job.segment_index_bytes,
            index_interval_bytes=job.index_interval_bytes,
        )
        self.offsets = OffsetMap(job.max_keys)
        self.started = time.monotonic()
        self.map_bytes_read = self.bytes_read = self.bytes_written = 0
        self.messages_read = self.messages_written = self.invalid_messages = 0

    def run(self) -> Iterator[CleanedGroup | CleaningStats]:
        job = self.job
        self.fill_map()
        map_seconds = time.monotonic() - self.started
        end_offset = self.offsets.latest_offset + 1
        # The last segment may reach beyond the map.
        transactions = CleanedTransactions(aborted_transactions(self.directory, 0, job.end_offset))
        for group in group_segments([each for each in job.segments if each.base_offset < end_offset], job):
            self.write_group(group, transactions)
            yield CleanedGroup(group[0].base_offset, len(group))
        yield CleaningStats(
            end_offset,
            self.map_bytes_read,
            map_seconds,
            self.offsets.utilization,
            self.bytes_read,
            self.bytes_written,
            self.messages_read,
            self.messages_written,
            self.invalid_messages,
            time.monotonic() - self.started,
        )

    # Reading

    def batches(self, segment: SourceSegment) -> Iterator[tuple[BatchHeader, bytes, int]]:
        """Return the header of each batch, a buffer that holds the batch, and the position in the buffer."""
        path = self.directory / f"{segment.base_offset:020d}{LOG_SUFFIX}"
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            wanted = least = max(self.job.buffer_bytes, _LEAST_BUFFER)
            position, lowest = 0, segment.base_offset
            while position < segment.size:
                data = os.pread(fd, min(wanted, segment.size - position), position)
                self.pace(len(data))
                view = memoryview(data)
                at = 0
                while len(data) - at >= HEADER_SIZE:
                    header = parse_header(data, at)
                    if header.size > len(data) - at:
                        break
                    if not crc_is_valid(view[at : at + header.size]) or header.base_offset < lowest:
                        raise CorruptLogError(f"the batch at position {position + at} of {path} is corrupt")
                    yield header, data, at
                    lowest = header.next_offset
                    at += header.size
                if not at and (len(data) < HEADER_SIZE or header.size > segment.size - position):
                    raise CorruptLogError(f"{path} has no whole batch at position {position}")
                wanted = least if at else header.size
                position += at
        except KafkaError as error:
            raise CorruptLogError(f"{path} is corrupt behind position {position}: {error}") from error
        finally:
            os.close(fd)

    # The map

    def fill_map(self) -> None:
        """Fill the map with the newest offset of each key of the dirty section, until the map is full."""
        job = self.job
        start = job.first_dirty_offset
        self.offsets.latest_offset = start - 1
        transactions = CleanedTransactions(aborted_transactions(self.directory, start, job.end_offset))
        for segment, end in _with_ends(job.segments, job.end_offset):
            if end <= start:
                continue
            for header, data, position in self.batches(segment):
                self.map_bytes_read += header.size
                if header.last_offset < start:
                    continue
                if not self.map_batch(header, data, position, transactions):
                    return
                self.offsets.latest_offset = header.last_offset
            # No record lies between the last batch and the next segment.
            self.offsets.latest_offset = end - 1

    def map_batch(self, header: BatchHeader, data: bytes, position: int, transactions: CleanedTransactions) -> bool:
        """Add the keys of a batch to the map; return False if not all fit."""
        if header.is_control:
            transactions.is_spent(header, memoryview(data)[position : position + header.size])
            return True
        if transactions.is_aborted(header):
            return True
        first = self.job.first_dirty_offset - header.base_offset
        offsets = self.offsets
        records, spans = batch_records(header, data, position)
        for _, _, _, delta, key_start, key_end, _ in spans:
            if key_end >= 0 and delta >= first:
                if offsets.is_full:
                    return False
                offsets.put(records[key_start:key_end], header.base_offset + delta)
        return True

    # What stays

    def remains(
        self, header: BatchHeader, data: bytes, position: int, transactions: CleanedTransactions
    ) -> memoryview | bytearray | None:
        """Return the records of a batch that stay, None if none stay. A batch that stays whole is not rebuilt."""
        batch = memoryview(data)[position : position + header.size]
        now_ms = self.job.now_ms
        is_spent = transactions.is_spent(header, batch) if header.is_control else transactions.is_aborted(header)
        horizon_ms = header.base_timestamp if header.has_delete_horizon else None
        goes = is_spent and (not header.is_control or (horizon_ms is not None and horizon_ms <= now_ms))
        # The last batch stays, because it tells a start where the log ended if all later batches are lost.
        is_last = header.next_offset == self.job.end_offset or self.is_last_of_producer(header)
        if goes and not is_last:
            return None
        records = batch_records(header, data, position)
        self.messages_read += len(records.spans)
        kept = records.spans
        if goes:
            kept = ()
        elif not header.is_control:
            kept = self.kept_records(header, records, horizon_ms is None or now_ms < horizon_ms)
        if not kept:
            return emptied_batch(header) if is_last else None
        self.messages_written += len(kept)
        sets_horizon = horizon_ms is None and (
            (header.is_control and is_spent) or not all(has_value for *_, has_value in kept)
        )
        new_horizon_ms = now_ms + self.job.delete_retention_ms if sets_horizon else _LATEST + 1
        if new_horizon_ms <= _LATEST:
            return filtered_batch(header, records.data, kept, new_horizon_ms)
        return batch if len(kept) == len(records.spans) else filtered_batch(header, records.data, kept)

    def kept_records(self, header: BatchHeader, records: BatchRecords, with_tombstones: bool) -> Sequence[Span]:
        """Return the newest record of each key, and all records behind the map."""
        base_offset = header.base_offset
        latest = self.offsets.latest_offset
        if base_offset > latest:
            return records.spans
        newest, data = self.offsets.get, records.data
        kept = []
        for span in records.spans:
            offset = base_offset + span[3]
            key_end = span[5]
            if offset > latest:
                kept.append(span)
            elif key_end < 0:
                self.invalid_messages += 1
            elif offset >= newest(data[span[4] : key_end]) and (span[6] or with_tombstones):
                kept.append(span)
        return kept

    def is_last_of_producer(self, header: BatchHeader) -> bool:
        """Whether a batch holds the last sequence number, or the only trace of the epoch, of an active producer."""
        last = self.job.producers.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        last_offset, epoch = last
        return (
            header.last_offset == last_offset
            if last_offset >= 0
            else (header.is_control and header.producer_epoch == epoch)
        )

    # Writing

    def write_group(self, group: Sequence[SourceSegment], transactions: CleanedTransactions) -> None:
        """Write and sync one cleaned segment for a group."""
        segment = Segment(
            self.files, self.directory, group[0].base_offset, self.config, self.job.now_ms, CLEANED_SUFFIX
        )
        segment.create()
        already_kept = len(transactions.kept)
        out = bytearray()
        headers: list[BatchHeader] = []
        for source in group:
            for header, data, position in self.batches(source):
                self.bytes_read += header.size
                remains = self.remains(header, data, position, transactions)
                if remains is not None:
                    out += remains
                    headers.append(parse_header(remains))
                if len(out) >= _WRITTEN_AT_ONCE:
                    self.write(segment, out, headers)
        self.write(segment, out, headers)
        segment.become_inactive()
        for transaction in transactions.kept[already_kept:]:
            segment.transactions.append(transaction)
        for file in segment.unsynced_files():
            os.fsync(file.fd)
        self.keep_time_of(group[-1], segment)
        segment.release()

    def write(self, segment: Segment, out: bytearray, headers: list[BatchHeader]) -> None:
        """Append the gathered batches, and empty both lists."""
        if not out:
            return
        segment.write((out,), len(out))
        for header in headers:
            segment.added(header.size, header.last_offset, header.max_timestamp)
        self.bytes_written += len(out)
        self.pace(len(out))
        out.clear()
        headers.clear()

    def keep_time_of(self, last: SourceSegment, segment: Segment) -> None:
        """Give the files the time of the last segment that they replace, because Kafka's retention reads it."""
        status = (self.directory / f"{last.base_offset:020d}{LOG_SUFFIX}").stat()
        for path in (segment.file.path, segment.offset_index.path, segment.time_index.path):
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
