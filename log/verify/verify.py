"""The check and repair of log directories that no broker has open.

Owns the checks of files that a directory has for all its logs, and the output. A repair never cuts flushed bytes:
damaged data is reported and left alone. Must not know a broker. Counterpart in Kafka: none, because DumpLogSegments
checks one file at a time.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ottla.log.manager import parse_directory_name
from ottla.log.segments.segment import LOG_SUFFIX
from ottla.log.state.checkpoint import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    CorruptCheckpointError,
    read_offsets,
    write_offsets,
)
from ottla.log.state.meta_properties import LOCK_FILE, META_PROPERTIES_FILE, DirectoryLocks, read_meta_properties
from ottla.log.verify.partition import Finding, PartitionCheck
from ottla.wire.types import TopicPartition

_OFFSET_FILES = (RECOVERY_POINT_FILE, HIGH_WATERMARK_FILE, LOG_START_OFFSET_FILE, CLEANER_OFFSET_FILE)


class NotALogDirectoryError(Exception):
    """A path that is neither a log directory nor the directory of a partition."""


class Summary(NamedTuple):
    """The totals of a run."""

    logs: int
    batches: int
    findings: int
    repaired: int

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong, or everything is repaired."""
        return self.findings == self.repaired

    def __str__(self) -> str:
        text = f"{self.logs} logs with {self.batches} batches: {self.findings} findings"
        return f"{text}, {self.repaired} of them repaired" if self.repaired else text


def size_of(paths: Sequence[Path]) -> int:
    """Return how many bytes of batches there are to check."""
    return sum(file.stat().st_size for path in paths for file in path.rglob(f"*{LOG_SUFFIX}"))


def verify(
    paths: Sequence[Path],
    say: Callable[[str], None],
    *,
    repair: bool = False,
    progress: Callable[[int], None] = lambda size: None,
) -> Summary:
    """Check log directories and directories of partitions, and lock them meanwhile; return the totals.

    `say` is called with a line for each finding and its repair. DirectoryInUse if a broker has a directory open;
    NotALogDirectoryError.
    """
    for path in paths:
        if not path.is_dir() or not (_is_partition(path) or _is_log_directory(path)):
            raise NotALogDirectoryError(f"{path} is neither a log directory nor that of a partition")
    parents = {path.absolute().parent if _is_partition(path) else path for path in paths}
    with ExitStack() as stack:
        for parent in parents:
            # Every broker creates the lock file, so without the file no broker has the directory open.
            if (parent / LOCK_FILE).exists():
                stack.callback(DirectoryLocks([parent]).release)
        total = Summary(0, 0, 0, 0)
        for path in paths:
            directory, partitions = (path.parent, [path]) if _is_partition(path) else (path, _partitions(path))
            found = _Directory(directory, partitions, say, repair, progress).run()
            total = Summary(*map(sum, zip(total, found, strict=True)))
        return total


def _is_partition(path: Path) -> bool:
    return parse_directory_name(path.absolute().name) is not None and not _is_log_directory(path)


def _is_log_directory(path: Path) -> bool:
    names = (META_PROPERTIES_FILE, LOCK_FILE, *_OFFSET_FILES)
    return any((path / name).exists() for name in names) or any(_partitions(path))


def _partitions(directory: Path) -> list[Path]:
    """Return the logs that a start would serve: deleted, future and stray logs have other names."""
    return sorted(path for path in directory.iterdir() if path.is_dir() and parse_directory_name(path.name) is not None)


class _Directory:
    """One log directory, or some of its logs."""

    def __init__(
        self,
        directory: Path,
        partitions: Sequence[Path],
        say: Callable[[str], None],
        repair: bool,
        progress: Callable[[int], None],
    ) -> None:
        self._directory = directory
        self._partitions = partitions
        self._say = say
        self._repair = repair
        self._progress = progress
        self._findings = self._repaired = 0
        self._is_clean = (directory / CLEAN_SHUTDOWN_FILE).exists()

    def run(self) -> Summary:
        """Check all files; return the totals."""
        offsets = {name: self._read(name) for name in _OFFSET_FILES}
        self._read_meta_properties()
        ends: dict[TopicPartition, int] = {}
        batches = 0
        for path in self._partitions:
            topic_partition = parse_directory_name(path.absolute().name)
            assert topic_partition is not None
            outcome = PartitionCheck(
                path,
                recovery_point=offsets[RECOVERY_POINT_FILE].get(topic_partition),
                is_clean=self._is_clean,
                progress=self._progress,
            ).run()
            batches += outcome.batches
            ends[topic_partition] = outcome.end_offset
            for finding in outcome.findings:
                self._report(finding)
        for name, by_partition in offsets.items():
            self._compare(name, by_partition, ends)
        return Summary(len(self._partitions), batches, self._findings, self._repaired)

    def _report(self, finding: Finding) -> None:
        self._findings += 1
        line = str(finding)
        if self._repair and finding.repair is not None:
            line = f"{line}; {finding.repair()}"
            self._repaired += 1
        elif self._repair:
            line = f"{line}; left as it is"
        self._say(line)

    def _read(self, name: str) -> Mapping[TopicPartition, int]:
        path = self._directory / name
        try:
            return read_offsets(path)
        except CorruptCheckpointError as error:
            readable = _readable_offsets(path)
            self._report(Finding(path, None, " ".join(str(error).split()), partial(_rewrite, path, readable)))
            return readable

    def _read_meta_properties(self) -> None:
        path = self._directory / META_PROPERTIES_FILE
        try:
            found = read_meta_properties(self._directory)
        except UnicodeDecodeError:
            found = {}
        if found is not None and not ("cluster.id" in found and ("broker.id" in found or "node.id" in found)):
            self._report(Finding(path, None, "has no broker id or no cluster id"))

    def _compare(self, name: str, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> None:
        """Report offsets behind the end of their log. After a crash, high watermarks may lie there."""
        if name == HIGH_WATERMARK_FILE and not self._is_clean:
            return
        beyond = {key: offset for key, offset in offsets.items() if offset > ends.get(key, offset)}
        if beyond:
            path = self._directory / name
            listed = ", ".join(f"{key} {offset} (the log ends at {ends[key]})" for key, offset in beyond.items())
            right = {key: min(offset, ends.get(key, offset)) for key, offset in offsets.items()}
            self._report(Finding(path, None, f"goes beyond the end of {listed}", partial(_rewrite, path, right)))


def _readable_offsets(path: Path) -> dict[TopicPartition, int]:
    """Return the offsets of all readable lines."""
    offsets = {}
    for line in path.read_text("utf-8", "replace").splitlines()[2:]:
        fields = line.split()
        if len(fields) == 3 and fields[1].isdecimal() and fields[2].isdecimal():
            offsets[TopicPartition(fields[0], int(fields[1]))] = int(fields[2])
    return offsets


def _rewrite(path: Path, offsets: Mapping[TopicPartition, int]) -> str:
    write_offsets(path, offsets)
    return f"rewritten with {len(offsets)} offsets"
