"""kafka-dump-log for indexes, and the errors that it finds in indexes and segments.

Counterparts: DumpLogSegments.dumpIndex and dumpTimeIndex, TimeIndexDumpErrors.
"""

import os
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ottla.scripts.dump_log import base_offset, batches, content, offset_entries, time_entries
from ottla.scripts.kafka.face import Face, JavaError, as_java, illegal_argument
from ottla.scripts.kafka.java.hashes import by_string_hash
from ottla.wire.errors import KafkaError

Pairs = dict[str, list[tuple[int, int]]]
"""Errors: by the path of a file, pairs of numbers."""
_CORRUPT: Final = "org.apache.kafka.storage.internals.log.CorruptIndexException"
_OFFSET_ENTRY_BYTES: Final = 8
_TIME_ENTRY_BYTES: Final = 12
_NO_TIMESTAMP: Final = -1


def absolute(path: Path) -> str:
    """Return an absolute path without resolving links or dots, like Java."""
    return os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118


def opened(path: Path) -> memoryview:
    """Return the bytes of a file. JavaError if it does not exist."""
    try:
        return content(path)
    except FileNotFoundError:
        raise JavaError("java.nio.file.NoSuchFileException", str(path)) from None
    except OSError as error:
        raise JavaError("java.nio.file.FileSystemException", f"{path}: {error.strerror}") from None


def offset_in_name(path: Path) -> int:
    """Return the offset at the begin of a file's name. JavaError if there is none."""
    try:
        return base_offset(path)
    except ValueError:
        text = path.name.partition(".")[0]
        raise JavaError("java.lang.NumberFormatException", f'For input string: "{text}"') from None


class Findings:
    """The errors of all dumped files."""

    def __init__(self) -> None:
        self.mismatches: Pairs = {}
        self.gaps: Pairs = {}
        self.timestamps: Pairs = {}
        self.disorder: Pairs = {}
        self.missing: Pairs = {}

    @staticmethod
    def add(pairs: Pairs, path: Path, first: int, second: int) -> None:
        """Add a pair of numbers of a file."""
        pairs.setdefault(absolute(path), []).append((first, second))

    def print(self, face: Face) -> None:
        """Print all errors on stderr. Kafka 4.3 sorts them; 3.9 prints the last one first."""
        for file in by_string_hash(self.mismatches):
            face.complain(f"Mismatches in :{file}")
            found = self.mismatches[file]
            for index, log in reversed(found) if face.is_3_9 else sorted(dict(found).items(), reverse=True):
                face.complain(f"  Index offset: {index}, log offset: {log}")
        self._print_times(face)
        for file in by_string_hash(self.gaps):
            face.complain(f"Non-consecutive offsets in {file}")
            found = self.gaps[file]
            for first, second in reversed(found) if face.is_3_9 else sorted(dict(found).items()):
                face.complain(f"  {first} is followed by {second}")

    def _print_times(self, face: Face) -> None:
        for file in by_string_hash(self.timestamps):
            face.complain(f"Found timestamp mismatch in :{file}")
            for index, log in self.timestamps[file]:
                face.complain(f"  Index timestamp: {index}, log timestamp: {log}")
        for file in by_string_hash(self.disorder):
            face.complain(f"Found out of order timestamp in :{file}")
            for index, before in self.disorder[file]:
                face.complain(f"  Index timestamp: {index}, Previously indexed timestamp: {before}")
        for file in by_string_hash(self.missing):
            where = "the log." if face.is_3_9 else f":{file}"
            face.complain(f"The following indexed offsets are not found in {where}")
            for index, log in self.missing[file]:
                face.complain(f"Indexed offset: {index}, found log offset: {log}")


class IndexDump:
    """Prints indexes, or only checks them."""

    def __init__(self, face: Face, findings: Findings, *, is_sanity_check: bool, is_quiet: bool) -> None:
        self._face = face
        self._findings = findings
        self._is_sanity_check = is_sanity_check
        self._is_quiet = is_quiet

    def offsets(self, path: Path, most_bytes: int) -> None:
        """Print an offset index. `most_bytes` is the largest size of a batch."""
        base = offset_in_name(path)
        segment = _beside(path, ".log")
        log = opened(segment)
        entries = _entries(path, offset_entries)
        if not entries:
            self._face.print(f"{path} is empty.")
            return
        if self._is_sanity_check:
            _check_offsets(path, entries[-1][0], base)
            self._face.print(f"{path} passed sanity check.")
            return
        for at, (offset, position) in enumerate(entries):
            if at and offset == base:
                return  # zeros behind the last entry
            last_offset = _last_offset(segment, log, position, most_bytes)
            if last_offset != offset:
                self._findings.add(self._findings.mismatches, path, offset, last_offset)
            if not self._is_quiet:
                self._face.print(f"offset: {offset} position: {position}")

    def times(self, path: Path) -> None:
        """Print a time index."""
        base = offset_in_name(path)
        segment, index = _beside(path, ".log"), _beside(path, ".index")
        log = opened(segment)
        positions = [each for each in _entries(index, offset_entries) if each[0] > base]
        entries = _entries(path, time_entries)
        if self._is_sanity_check:
            _check_times(path, entries, base)
            self._face.print(f"{path} passed sanity check.")
            return
        before = _NO_TIMESTAMP
        for at, (timestamp, offset) in enumerate(entries):
            if at and offset == base:
                return  # zeros behind the last entry
            slot = bisect_right(positions, offset, key=lambda it: it[0])
            self._check_time(path, segment, log, positions[slot - 1][1] if slot else 0, timestamp, offset, before)
            if not self._is_quiet:
                self._face.print(f"timestamp: {timestamp} offset: {offset}")
            before = timestamp

    def _check_time(
        self, path: Path, segment: Path, log: memoryview, position: int, timestamp: int, offset: int, before: int
    ) -> None:
        try:
            found = next((each for each in batches(segment, log, position) if each.header.last_offset >= offset), None)
            largest = (
                max((each.timestamp for each in found.records()), default=_NO_TIMESTAMP) if found else _NO_TIMESTAMP
            )
        except KafkaError as error:
            raise as_java(error) from None
        if found is None or found.header.last_offset != offset:
            last_offset = -1 if found is None else found.header.last_offset
            self._findings.add(self._findings.missing, path, offset, last_offset)
            return
        if largest != timestamp:
            self._findings.add(self._findings.timestamps, path, timestamp, largest)
        if before >= timestamp:
            self._findings.add(self._findings.disorder, path, timestamp, before)


def _last_offset(segment: Path, log: memoryview, position: int, most_bytes: int) -> int:
    """Return the last offset of the batch at a position. JavaError if there is none."""
    if not 0 <= position <= len(log):
        records = f"FileRecords(size={len(log)}, file={segment}, start=0, end={0x7FFFFFFF})"
        raise illegal_argument(f"Slice from position {position} exceeds end position of {records}")
    try:
        batch = next(batches(segment, log[: position + most_bytes], position), None)
    except KafkaError as error:
        raise as_java(error) from None
    if batch is None:
        raise JavaError("java.util.NoSuchElementException", None)
    return batch.header.last_offset


def _beside(path: Path, suffix: str) -> Path:
    return Path(absolute(path)).with_name(path.name.partition(".")[0] + suffix)


def _entries(path: Path, read: Callable[[Path], list[tuple[int, int]]]) -> list[tuple[int, int]]:
    """Return the entries of an index. JavaError if the file does not exist, because Kafka would create an empty one."""
    try:
        return read(path)
    except FileNotFoundError:
        raise illegal_argument("Invalid max index size: -1") from None


def _check_offsets(path: Path, last_offset: int, base: int) -> None:
    name, size = absolute(path), path.stat().st_size
    if last_offset < base:
        text = (
            f"Corrupt index found, index file {name} has non-zero size but the last offset is {last_offset} which is "
            f"less than the base offset {base}"
        )
        raise JavaError(_CORRUPT, text)
    if size % _OFFSET_ENTRY_BYTES:
        text = f"Index file {name} is corrupt, found {size} bytes which is neither positive nor a multiple of 8"
        raise JavaError(_CORRUPT, text)


def _check_times(path: Path, entries: list[tuple[int, int]], base: int) -> None:
    name, size = absolute(path), path.stat().st_size
    start = f"Corrupt time index found, time index file ({name}) has non-zero size but the last"
    if entries and entries[-1][0] < entries[0][0]:
        text = f"{start} timestamp is {entries[-1][0]} which is less than the first timestamp {entries[0][0]}"
        raise JavaError(_CORRUPT, text)
    if entries and entries[-1][1] < base:
        raise JavaError(_CORRUPT, f"{start} offset is {entries[-1][1]} which is less than the first offset {base}")
    if size % _TIME_ENTRY_BYTES:
        text = f"Time index file {name} is corrupt, found {size} bytes which is neither positive nor a multiple of 12"
        raise JavaError(_CORRUPT, text)
