"""Flushes as plain values, so that fsync can run in a worker thread while the log goes on.

Owns which files a flush syncs, and the order of flushes on their way. Must not know a log, because a job holds
descriptors of its own. Counterpart in Kafka: LocalLog.flush and the scheduler's "flush-log".
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ottla.log.segments.open_files import OpenFile
from ottla.log.state.checkpoint import sync_directory


class FlushJob:
    """A flush of one log. Any thread may call `run`; the loop then calls `flushed` or `flush_failed` of the log."""

    __slots__ = ("directories", "end_offset", "files", "paths")

    def __init__(
        self, end_offset: int, files: Sequence[OpenFile], paths: Sequence[Path], directories: Sequence[Path]
    ) -> None:
        self.end_offset = end_offset
        self.files = files
        self.paths = paths
        self.directories = directories

    def run(self) -> None:
        """Sync all files and directories, and wait. Skips a missing path, because its log is being deleted."""
        for file in self.files:
            os.fdatasync(file.fd)
        for path in self.paths:
            with suppress(FileNotFoundError), open(path, "rb") as other:
                os.fsync(other.fileno())
        for directory in self.directories:
            with suppress(FileNotFoundError):
                sync_directory(directory)


class Flushes:
    """The jobs of one log that are on their way, and the small files and names that the next job syncs."""

    __slots__ = ("_jobs", "_paths", "new_names")

    def __init__(self) -> None:
        self._jobs: list[FlushJob] = []
        self._paths: list[Path] = []
        self.new_names = True
        """Whether files were created since the directory was synced."""

    def add_path(self, path: Path) -> None:
        """Add a file that was replaced without a sync to the next job."""
        self._paths.append(path)
        self.new_names = True

    def moved_to(self, directory: Path) -> None:
        """Note that the files are in `directory` now. No job may be on its way."""
        self._paths = [directory / path.name for path in self._paths]
        self.new_names = True

    def begin(self, end_offset: int, files: Sequence[OpenFile], directory: Path) -> FlushJob:
        """Return a job for `files` and for the small files and names since the last job."""
        directories = [directory, directory.parent] if self.new_names else []
        job = FlushJob(end_offset, files, self._paths, directories)
        self._paths = []
        self.new_names = False
        self._jobs.append(job)
        return job

    def done(self, job: FlushJob) -> int | None:
        """Return the offset up to which the log is flushed; None while an earlier job runs, or for a discarded job."""
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
        """Forget the jobs on their way, because the log changed or a job failed; the next job syncs their files."""
        for job in self._jobs:
            self._paths += job.paths
            self.new_names = True
        self._jobs.clear()
