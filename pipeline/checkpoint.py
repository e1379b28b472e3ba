"""The directory in which a job keeps where it is: Spark's own checkpoint, and what was said about where to begin.

Owns the layout of that directory, the lock that keeps a job from running twice, and how it is moved. Must not know
Spark: its checkpoint is read as the files that they are. Counterpart in Kafka: the offset storage topic of Connect.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

Offsets: TypeAlias = dict[str, dict[str, int]]
"""By topic and partition, which is a text as in all of Spark's offsets."""

_LOCK: Final = "lock"
_START: Final = "start.json"
_SPARK: Final = "spark"
_VERSION_LINE: Final = "v1"
_NOTHING: Final = "-"


class CheckpointError(Exception):
    """A checkpoint that cannot be used; the text is one line that says why."""


class Checkpoint:
    """Where one job is."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def spark(self) -> Path:
        """Spark's own."""
        return self.directory / _SPARK

    @contextmanager
    def locked(self) -> Iterator[None]:
        """For as long as the block lasts nobody else runs the job, on this machine or on shared storage."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            fd = os.open(self.directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise CheckpointError(f"{self.directory}: {error.strerror}") from None
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CheckpointError(f"{self.directory}: the job runs already") from None
            yield
        finally:
            os.close(fd)

    def start(self) -> Offsets | None:
        """Where the job begins that was moved and has not run since; None where its file says it."""
        path = self.directory / _START
        return json.loads(path.read_text()) if path.exists() else None

    def move(self, offsets: Mapping[str, Mapping[str, int]]) -> None:
        """Have the job begin anew at some offsets. What Spark noted is put aside, not thrown away."""
        replaced = self.directory / (_START + ".tmp")
        replaced.write_text(json.dumps(offsets))
        # In this order: a crash between the two leaves the job where it was.
        replaced.replace(self.directory / _START)
        self._put_aside()

    def forget(self) -> None:
        """Have the job begin anew as its file says. What Spark noted is put aside, not thrown away."""
        (self.directory / _START).unlink(missing_ok=True)
        self._put_aside()

    def _put_aside(self) -> None:
        if self.spark.exists():
            self.spark.rename(self.directory / f"{_SPARK}-until-{time.time_ns() // 1_000_000}")

    def query_id(self) -> str:
        """What Spark calls the query; another one after the job was moved."""
        return str(json.loads((self.spark / "metadata").read_text())["id"])

    def batch(self) -> int | None:
        """The last batch that is done; None before the first one."""
        return _last(self.spark / "commits")

    def offsets(self) -> list[Offsets]:
        """Up to where each topic source is done, in Spark's order; where a job that was moved is to begin."""
        return [end for _, end in self.ends() if are_of_topics(end)]

    def ends(self) -> list[tuple[int, Any]]:
        """The same of any source, by its number; of one that had nothing to read nothing is known."""
        batch = self.batch()
        if batch is None:
            start = self.start()
            return [] if start is None else [(0, start)]
        path = self.spark / "offsets" / str(batch)
        try:
            version, _, *sources = path.read_text().splitlines()
            if version != _VERSION_LINE:
                raise CheckpointError(f"{path} is of the unknown version {version}")
            return [(number, json.loads(end)) for number, end in enumerate(sources) if end != _NOTHING]
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path} cannot be read: {error}") from None


def are_of_topics(end: Any) -> bool:
    """Whether a source's end is that of Spark's Kafka source."""
    return isinstance(end, dict) and bool(end) and all(map(_are_of_partitions, end.values()))


def _are_of_partitions(of: Any) -> bool:
    return isinstance(of, dict) and all(key.isdecimal() and isinstance(each, int) for key, each in of.items())


def _last(directory: Path) -> int | None:
    names = (path.name for path in directory.iterdir()) if directory.is_dir() else ()
    return max((int(name) for name in names if name.isdecimal()), default=None)
