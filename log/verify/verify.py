"""Going through log directories that no broker has open, saying what is wrong, and mending what can be made anew.

Owns the files that a directory has for all its logs, which directories are looked at, and what is said. Nothing that
was flushed is cut: data that is damaged is told of and left. Must not know a broker. Counterpart in Kafka: none;
DumpLogSegments looks at one file at a time.
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
_NOT_SERVED = ("-delete", "-future", "-stray")


class NotALogDirectoryError(Exception):
    """A path that is neither a log directory nor the directory of a partition."""


class Summary(NamedTuple):
    """What all of it came to."""

    logs: int
    batches: int
    findings: int
    mended: int

    @property
    def is_sound(self) -> bool:
        """Nothing is wrong, or not any more."""
        return self.findings == self.mended

    def __str__(self) -> str:
        text = f"{self.logs} logs with {self.batches} batches: {self.findings} findings"
        return f"{text}, {self.mended} of them mended" if self.mended else text


def size_of(paths: Sequence[Path]) -> int:
    """How many bytes of batches there are to go through."""
    return sum(file.stat().st_size for path in paths for file in path.rglob(f"*{LOG_SUFFIX}"))


def verify(
    paths: Sequence[Path],
    say: Callable[[str], None],
    *,
    repair: bool = False,
    progress: Callable[[int], None] = lambda size: None,
) -> Summary:
    """Go through log directories and directories of partitions, which are locked meanwhile.

    `say` gets a line for each finding, and for what is done about it. DirectoryInUse where a broker has one;
    NotALogDirectoryError.
    """
    for path in paths:
        if not path.is_dir() or not (_is_partition(path) or _is_log_directory(path)):
            raise NotALogDirectoryError(f"{path} is neither a log directory nor that of a partition")
    parents = {path.absolute().parent if _is_partition(path) else path for path in paths}
    with ExitStack() as stack:
        for parent in parents:
            # A broker makes the file of its lock: without one there is nobody to be locked out.
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
    return sorted(
        path
        for path in directory.iterdir()
        if path.is_dir() and parse_directory_name(path.name) is not None and not path.name.endswith(_NOT_SERVED)
    )


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
        self._findings = self._mended = 0
        self._is_clean = (directory / CLEAN_SHUTDOWN_FILE).exists()

    def run(self) -> Summary:
        """Go through it."""
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
                self._tell(finding)
        for name, by_partition in offsets.items():
            self._compare(name, by_partition, ends)
        return Summary(len(self._partitions), batches, self._findings, self._mended)

    def _tell(self, finding: Finding) -> None:
        self._findings += 1
        line = str(finding)
        if self._repair and finding.mend is not None:
            line = f"{line}; {finding.mend()}"
            self._mended += 1
        elif self._repair:
            line = f"{line}; left as it is"
        self._say(line)

    def _read(self, name: str) -> Mapping[TopicPartition, int]:
        path = self._directory / name
        try:
            return read_offsets(path)
        except CorruptCheckpointError as error:
            readable = _readable_offsets(path)
            self._tell(Finding(path, None, " ".join(str(error).split()), partial(_rewrite, path, readable)))
            return readable

    def _read_meta_properties(self) -> None:
        path = self._directory / META_PROPERTIES_FILE
        try:
            found = read_meta_properties(self._directory)
        except UnicodeDecodeError:
            found = {}
        if found is not None and not ("cluster.id" in found and ("broker.id" in found or "node.id" in found)):
            self._tell(Finding(path, None, "does not say whose directory this is"))

    def _compare(self, name: str, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> None:
        """No offset lies behind the end of its log, but after a crash that took what was not flushed."""
        if name == HIGH_WATERMARK_FILE and not self._is_clean:
            return
        beyond = {key: offset for key, offset in offsets.items() if offset > ends.get(key, offset)}
        if beyond:
            path = self._directory / name
            listed = ", ".join(f"{key} {offset} (the log ends at {ends[key]})" for key, offset in beyond.items())
            right = {key: min(offset, ends.get(key, offset)) for key, offset in offsets.items()}
            self._tell(Finding(path, None, f"goes beyond the end of {listed}", partial(_rewrite, path, right)))


def _readable_offsets(path: Path) -> dict[TopicPartition, int]:
    """What the lines say that can be read."""
    offsets = {}
    for line in path.read_text("utf-8", "replace").splitlines()[2:]:
        fields = line.split()
        if len(fields) == 3 and fields[1].isdecimal() and fields[2].isdecimal():
            offsets[TopicPartition(fields[0], int(fields[1]))] = int(fields[2])
    return offsets


def _rewrite(path: Path, offsets: Mapping[TopicPartition, int]) -> str:
    write_offsets(path, offsets)
    return f"written anew with the {len(offsets)} offsets that can be told"
