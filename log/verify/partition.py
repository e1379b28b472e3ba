"""The check of all files of one partition's log.

Owns the checks: every batch with its checksum and its records, offsets, leader epochs, sequences of producers, indexes,
snapshots, names. Changes nothing; a finding carries its repair, if the batches allow one. Must not know the files that
a log directory has for all its partitions. Counterpart in Kafka: DumpLogSegments, which checks one file.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from ottla.log.segments.crc import crc_of_range
from ottla.log.segments.index import MAX_RELATIVE_OFFSET, NO_TIMESTAMP, OFFSET_ENTRY, TIME_ENTRY
from ottla.log.segments.index_check import IndexEntries, PositionCheck, TimeCheck
from ottla.log.segments.open_files import OpenFile
from ottla.log.segments.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, iter_headers
from ottla.log.segments.transaction_index import TRANSACTION_ENTRY, TRANSACTION_INDEX_SUFFIX
from ottla.log.state.checkpoint import (
    LEADER_EPOCH_FILE,
    PARTITION_METADATA_FILE,
    CorruptCheckpointError,
    read_epochs,
    read_partition_metadata,
    replace_file,
    write_epochs,
)
from ottla.log.state.leader_epochs import UNDEFINED_EPOCH, LeaderEpochs
from ottla.log.state.producer_snapshot import (
    SNAPSHOT_SUFFIX,
    CorruptSnapshotError,
    SnapshotEntry,
    decode_snapshot,
    encode_snapshot,
)
from ottla.log.state.producer_state import ProducerState
from ottla.wire.records.batch import BatchHeader, CorruptBatch, check_records
from ottla.wire.records.batch_header import ATTRIBUTES_POSITION

_OF_SEGMENTS = re.compile(r"[0-9]{20}\.(log|index|timeindex|txnindex|snapshot)")
# Files that a broker completes or removes at its next start.
_ON_THEIR_WAY = re.compile(r".*\.(deleted|cleaned|swap|tmp)")
_OTHERS = frozenset({LEADER_EPOCH_FILE, PARTITION_METADATA_FILE})
_INTERVAL_BYTES = 4096
_ANY_TIMESTAMP = 2**63 - 1


class Finding(NamedTuple):
    """A fault in a file."""

    path: Path
    position: int | None
    what: str
    repair: Callable[[], str] | None = None
    """Repairs the file and returns how; None if no repair is possible."""

    def __str__(self) -> str:
        place = self.path if self.position is None else f"{self.path}:{self.position}"
        return f"{place}: {self.what}"


class PartitionOutcome(NamedTuple):
    """The findings in a log, its end offset and its number of batches."""

    findings: list[Finding]
    end_offset: int
    batches: int


class _Segment(NamedTuple):
    base_offset: int
    path: Path
    size: int
    end_offset: int | None
    """The base offset of the next segment, None for the last segment."""


class PartitionCheck:
    """The check of one log."""

    def __init__(
        self, directory: Path, *, recovery_point: int | None, is_clean: bool, progress: Callable[[int], None]
    ) -> None:
        """`recovery_point`: of the checkpoint, if it has one. `progress` is called with the number of bytes read."""
        self._directory = directory
        self._recovery_point = recovery_point
        self._is_clean = is_clean
        self._progress = progress
        self._findings: list[Finding] = []
        self._names = sorted(path.name for path in directory.iterdir())
        self._snapshots = [directory / name for name in self._names if _is_file_of(name, SNAPSHOT_SUFFIX)]
        self._producers = ProducerState(directory, snapshots=())
        self._epochs_in_batches = LeaderEpochs(directory, ())
        self._epochs_in_file: LeaderEpochs | None = None
        self._epochs_differ = False
        self._following = 0
        self._has_gaps = False
        self._batches = 0

    def run(self) -> PartitionOutcome:
        """Check all files; return the outcome."""
        self._check_names()
        self._check_metadata()
        self._check_epochs()
        segments = self._segments()
        if segments:
            self._following = self._producers.end_offset = segments[0].base_offset
        for segment in segments:
            self._check_segment(segment)
        self._compare_snapshots(None)
        self._compare_epochs()
        return PartitionOutcome(self._findings, self._following, self._batches)

    def _find(self, path: Path, position: int | None, what: str, repair: Callable[[], str] | None = None) -> None:
        self._findings.append(Finding(path, position, what, repair))

    # Small files

    def _check_names(self) -> None:
        for name in self._names:
            path = self._directory / name
            if _is_file_of(name, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX):
                if name.rpartition(".")[0] + LOG_SUFFIX not in self._names:
                    self._find(path, None, "is an index without a segment", partial(_remove, path))
            elif not (_OF_SEGMENTS.fullmatch(name) or _ON_THEIR_WAY.fullmatch(name) or name in _OTHERS):
                self._find(path, None, "is no file of a log")
            if _is_file_of(name, TRANSACTION_INDEX_SUFFIX):
                self._check_transaction_index(path)

    def _check_transaction_index(self, path: Path) -> None:
        data = path.read_bytes()
        whole = len(data) // TRANSACTION_ENTRY.size * TRANSACTION_ENTRY.size
        if whole != len(data):
            self._find(path, whole, "ends within an entry")
        last = -1
        for slot, (version, _, first_offset, last_offset, _) in enumerate(TRANSACTION_ENTRY.iter_unpack(data[:whole])):
            if version != 0 or not 0 <= first_offset <= last_offset or last_offset <= last:
                self._find(path, slot * TRANSACTION_ENTRY.size, "is no valid entry of an aborted transaction")
                return
            last = last_offset

    def _check_metadata(self) -> None:
        try:
            read_partition_metadata(self._directory / PARTITION_METADATA_FILE)
        except CorruptCheckpointError as error:
            self._find(self._directory / PARTITION_METADATA_FILE, None, _reason(error))

    def _check_epochs(self) -> None:
        path = self._directory / LEADER_EPOCH_FILE
        try:
            entries = read_epochs(path)
        except CorruptCheckpointError as error:
            self._find(path, None, _reason(error), self._write_epochs)
            self._epochs_differ = True
            return
        for before, entry in pairwise(entries):
            if entry.epoch <= before.epoch or entry.start_offset <= before.start_offset:
                self._find(path, None, f"{entry} follows {before}", self._write_epochs)
                self._epochs_differ = True
                return
        self._epochs_in_file = LeaderEpochs(self._directory, entries)

    def _compare_epochs(self) -> None:
        if self._epochs_in_file is None or self._epochs_differ:
            return
        path = self._directory / LEADER_EPOCH_FILE
        if not self._epochs_in_file.entries:
            if self._epochs_in_batches.entries:
                self._find(path, None, "has no leader epochs, the batches have some", self._write_epochs)
        elif self._epochs_in_file.entries[-1].start_offset > self._following:
            last = self._epochs_in_file.entries[-1]
            self._find(path, None, f"{last} is behind the end of the log, {self._following}", self._write_epochs)

    def _write_epochs(self) -> str:
        write_epochs(self._directory / LEADER_EPOCH_FILE, self._epochs_in_batches.entries)
        return "rebuilt from the batches"

    # Segments

    def _segments(self) -> list[_Segment]:
        paths = [self._directory / name for name in self._names if _is_file_of(name, LOG_SUFFIX)]
        offsets = [int(path.name.removesuffix(LOG_SUFFIX)) for path in paths]
        ends: Sequence[int | None] = [*offsets[1:], None]
        return [
            _Segment(offset, path, path.stat().st_size, end)
            for offset, path, end in zip(offsets, paths, ends, strict=False)
        ]

    def _check_segment(self, segment: _Segment) -> None:
        positions = PositionCheck(self._entries(segment, INDEX_SUFFIX, OFFSET_ENTRY), segment.base_offset)
        times = TimeCheck(self._entries(segment, TIME_INDEX_SUFFIX, TIME_ENTRY), segment.base_offset)
        entries = IndexEntries(segment.base_offset, _INTERVAL_BYTES)
        is_sound = True
        end = 0
        if segment.base_offset > self._following:
            self._has_gaps = True
            self._following = segment.base_offset
        for position, header, fault in self._checked_batches(segment):
            end = position + header.size
            if fault:
                self._damage(segment, position, fault, is_first=is_sound)
                is_sound = False
            elif is_sound:
                positions.take(position, header)
                times.take(header)
                entries.take(position, header)
        if end < segment.size:
            what = f"no batch in {segment.size - end} bytes up to the end"
            self._damage(segment, end, what, is_first=is_sound)
            is_sound = False
        is_being_written = segment.end_offset is None and not self._is_clean
        positions.end(self._following, is_sound)
        times.end(self._following, is_sound, _ANY_TIMESTAMP if is_being_written else NO_TIMESTAMP)
        entries.end()
        for suffix, check, found in (
            (INDEX_SUFFIX, positions, entries.offset_entries),
            (TIME_INDEX_SUFFIX, times, entries.time_entries),
        ):
            path = segment.path.with_suffix(suffix)
            repair = partial(_write_index, path, found)
            size = (OFFSET_ENTRY if suffix == INDEX_SUFFIX else TIME_ENTRY).size
            if not path.exists():
                # Kafka creates the indexes with the first append.
                if segment.size:
                    self._find(path, None, "is missing", repair)
            elif check.wrong is not None:
                self._find(path, check.wrong * size, "contradicts its segment", repair)
            elif segment.end_offset is not None and path.stat().st_size % size:
                self._find(path, path.stat().st_size // size * size, "ends within an entry", repair)

    def _damage(self, segment: _Segment, position: int, what: str, *, is_first: bool) -> None:
        """Add a finding for a damaged segment. Its repair cuts off bytes that were never flushed."""
        is_flushed = self._recovery_point is None or self._following < self._recovery_point
        may_go = is_first and segment.end_offset is None and not is_flushed
        self._find(segment.path, position, what, partial(_cut, segment.path, position) if may_go else None)
        self._has_gaps = True

    def _entries(self, segment: _Segment, suffix: str, entry: Struct) -> bytes:
        """Return the whole entries of an index. The index of the last segment may have zeros behind them."""
        try:
            data = segment.path.with_suffix(suffix).read_bytes()
        except FileNotFoundError:
            return b""
        end = len(data) // entry.size * entry.size
        if segment.end_offset is None:
            used = len(data.rstrip(b"\0"))
            end = min(end, -(-used // entry.size) * entry.size)
        return data[:end]

    def _checked_batches(self, segment: _Segment) -> Iterator[tuple[int, BatchHeader, str]]:
        """Return position, header and fault of each batch; the fault is empty for a sound batch."""
        file = OpenFile(os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC))
        highest = segment.base_offset + MAX_RELATIVE_OFFSET
        if segment.end_offset is not None:
            highest = min(highest, segment.end_offset - 1)
        try:
            for position, header in iter_headers(file, 0, segment.size):
                data, fault = _checked_bytes(file.fd, position, header)
                fault = fault or self._fault_of_offsets(header, highest)
                if not fault:
                    self._take(segment, position, header, data)
                self._progress(header.size)
                yield position, header, fault
                if self._following <= header.base_offset <= header.last_offset <= highest:
                    self._following = header.next_offset  # even of a faulty batch
        except CorruptBatch:
            return

    def _fault_of_offsets(self, header: BatchHeader, highest: int) -> str:
        first, last = header.base_offset, header.last_offset
        if first < self._following:
            return f"begins with offset {first}, which is less than {self._following}"
        if last > highest:
            return f"ends with offset {last}, which is more than {highest}"
        return ""

    def _take(self, segment: _Segment, position: int, header: BatchHeader, data: bytes) -> None:
        """Update epochs, producers and the next offset from a sound batch."""
        self._batches += 1
        self._has_gaps |= header.base_offset > self._following
        self._compare_snapshots(header.base_offset)
        self._take_epoch(segment, position, header)
        if header.has_producer_id:
            self._take_producer(segment, position, header, data)
        self._following = self._producers.end_offset = header.next_offset

    def _take_epoch(self, segment: _Segment, position: int, header: BatchHeader) -> None:
        epoch = header.partition_leader_epoch
        known = self._epochs_in_batches
        saved = self._epochs_in_file.epoch_for_offset(header.base_offset) if self._epochs_in_file else UNDEFINED_EPOCH
        if epoch != saved and UNDEFINED_EPOCH not in (saved, epoch) and not self._epochs_differ:
            self._epochs_differ = True
            self._find(segment.path, position, f"has leader epoch {epoch}, {LEADER_EPOCH_FILE} has {saved}")
        if UNDEFINED_EPOCH < epoch < known.latest:
            self._find(segment.path, position, f"has leader epoch {epoch} behind a batch with {known.latest}")
        elif epoch > known.latest:
            known.assign_unsaved(epoch, header.base_offset)

    def _take_producer(self, segment: _Segment, position: int, header: BatchHeader, data: bytes) -> None:
        entry = self._producers.entries.get(header.producer_id)
        if header.is_control:
            self._producers.end_transaction(header, memoryview(data), header.base_offset)
            return
        if entry is not None and entry.producer_epoch == header.producer_epoch and entry.batches:
            expected = entry.batches[-1].following_sequence
            # Compaction removes batches, and their sequence numbers.
            if header.base_sequence != expected and not self._has_gaps:
                what = f"producer {header.producer_id} has sequence {header.base_sequence} where {expected} is expected"
                self._find(segment.path, position, what)
        self._producers.update(header, header.base_offset, header.max_timestamp)

    # Snapshots of producers

    def _compare_snapshots(self, offset: int | None) -> None:
        """Compare the snapshots at or before `offset` (None: all that are left) with the producers of the batches."""
        while self._snapshots:
            path = self._snapshots[0]
            at = int(path.name.removesuffix(SNAPSHOT_SUFFIX))
            if offset is not None and at > offset:
                return
            del self._snapshots[0]
            data = encode_snapshot(each.to_snapshot() for each in self._producers.entries.values())
            repair = partial(_write_snapshot, path, data)
            try:
                found = decode_snapshot(path.read_bytes())
            except CorruptSnapshotError as error:
                self._find(path, None, str(error), repair)
                continue
            fault = next(filter(None, (self._fault_of_entry(entry, at) for entry in found)), None)
            if fault is not None:
                self._find(path, None, fault, repair)

    def _fault_of_entry(self, found: SnapshotEntry, at: int) -> str:
        if found.last_offset >= at:
            return f"has offset {found.last_offset} of producer {found.producer_id}, which is behind the snapshot"
        known = self._producers.entries.get(found.producer_id)
        if known is None or not known.batches or known.producer_epoch != found.producer_epoch:
            return ""
        last = known.batches[-1]
        if found.last_offset < last.last_offset and last.last_offset < at:
            return f"ends producer {found.producer_id} at offset {found.last_offset}, the batches at {last.last_offset}"
        if found.last_offset == last.last_offset and found.last_sequence != last.last_sequence:
            return f"ends producer {found.producer_id} with sequence {found.last_sequence}, not {last.last_sequence}"
        return ""


def _checked_bytes(fd: int, position: int, header: BatchHeader) -> tuple[bytes, str]:
    # A damaged length may claim gigabytes, so the checksum is computed piece by piece before the batch is read.
    if crc_of_range(fd, position + ATTRIBUTES_POSITION, position + header.size) != header.crc:
        return b"", "its checksum is not that of the batch"
    data = os.pread(fd, header.size, position)
    try:
        check_records(data)
    except CorruptBatch as error:
        return data, str(error)
    return data, ""


def _is_file_of(name: str, *suffixes: str) -> bool:
    return bool(_OF_SEGMENTS.fullmatch(name)) and name.endswith(suffixes)


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())


def _remove(path: Path) -> str:
    path.unlink()
    return "removed"


def _write_index(path: Path, entries: bytes | bytearray) -> str:
    replace_file(path, bytes(entries))
    return "rebuilt from the segment"


def _write_snapshot(path: Path, data: bytes) -> str:
    replace_file(path, data)
    return "rebuilt from the batches"


def _cut(path: Path, position: int) -> str:
    with open(path, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.truncate(position)
        os.fsync(file.fileno())
    return f"cut {size - position} bytes that were never flushed"
