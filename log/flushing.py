"""Flushes as plain values, so that their fsync can run in a worker thread while the log goes on.

Owns what is synced together, and the order of flushes on their way. Must not know a log: a job holds descriptors of
its own. Counterpart in Kafka: LocalLog.flush and the scheduler's "flush-log".
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ottla.log.segments.open_files import OpenFile
from ottla.log.state.checkpoint import sync_directory


class FlushJob:
    """Made by a log; `run` anywhere; then the log's `flushed` or `flush_failed` where the log lives."""

    __slots__ = ("directories", "end_offset", "files", "paths")

    def __init__(
        self, end_offset: int, files: Sequence[OpenFile], paths: Sequence[Path], directories: Sequence[Path]
    ) -> None:
        self.end_offset = end_offset
        self.files = files
        self.paths = paths
        self.directories = directories

    def run(self) -> None:
        """Wait until all is on the disk. A file or directory that was renamed meanwhile is being deleted: no matter."""
        for file in self.files:
            os.fdatasync(file.fd)
        for path in self.paths:
            with suppress(FileNotFoundError), open(path, "rb") as other:
                os.fsync(other.fileno())
        for directory in self.directories:
            with suppress(FileNotFoundError):
                sync_directory(directory)


class Flushes:
    """The jobs of one log that are on their way, and small files and names that the next one takes along."""

    __slots__ = ("_jobs", "_paths", "new_names")

    def __init__(self) -> None:
        self._jobs: list[FlushJob] = []
        self._paths: list[Path] = []
        self.new_names = True
        """Whether files were created since the directory was synced."""

    def add_path(self, path: Path) -> None:
        """A file that was replaced without syncing it."""
        self._paths.append(path)
        self.new_names = True

    def moved_to(self, directory: Path) -> None:
        """All is elsewhere now. No job may be on its way."""
        self._paths = [directory / path.name for path in self._paths]
        self.new_names = True

    def begin(self, end_offset: int, files: Sequence[OpenFile], directory: Path) -> FlushJob:
        """A job for `files` and all that is noted here."""
        directories = [directory, directory.parent] if self.new_names else []
        job = FlushJob(end_offset, files, self._paths, directories)
        self._paths = []
        self.new_names = False
        self._jobs.append(job)
        return job

    def done(self, job: FlushJob) -> int | None:
        """Up to which offset all is safe now; None while jobs before this one still run, or if it counts no more."""
        if job not in self._jobs:
            return None
        slot = self._jobs.index(job)
        del self._jobs[slot]
        if slot:
            before = self._jobs[slot - 1]
            before.end_offset = max(before.end_offset, job.end_offset)
            return None
        return job.end_offset

    def discard(self) -> None:
        """Jobs on their way vouch for nothing any more: the log changed under them, or one failed."""
        for job in self._jobs:
            self._paths += job.paths
            self.new_names = True
        self._jobs.clear()
