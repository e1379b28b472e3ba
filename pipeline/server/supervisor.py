"""Has the jobs run that are this server's, and says how they are.

Owns the processes of the jobs. One thread compares what is wanted, what is this server's and what runs, and does the
next step of each job; whoever changes one of the three wakes it. Must not know where wishes and shares come from.
Counterparts in Kafka: Worker, and the part of DistributedHerder that starts and stops what is assigned.
"""

import logging
import shutil
import tempfile
import threading
import time
import urllib.parse
import zlib
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final

import javaproperties

from ottla.pipeline.server.children import Child, Ending
from ottla.pipeline.server.plugins import CLASS_KEY
from ottla.pipeline.server.state import (
    FAILED,
    PAUSED,
    RESTARTING,
    RUNNING,
    STARTED,
    STOPPED,
    UNASSIGNED,
    Job,
    State,
    Status,
)

logger = logging.getLogger(__name__)

BEAT_EVERY_S: Final = 1.0
SAY_AGAIN_S: Final = 5.0

# What to run, given the file that describes the job, which only the process that runs can read, and the directory for
# its checkpoint.
CommandOf = Callable[[Path, Path], Sequence[str]]
Say = Callable[[str, Status | None], None]


def slot_of(name: str, slots: int) -> int:
    """The slot that a job is in; who has the slot has the job."""
    return zlib.crc32(name.encode()) % slots


def file_name(name: str) -> str:
    """The name of a job as that of a file."""
    quoted = urllib.parse.quote(name, safe=" ")
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted


class Supervisor:
    """The jobs of one server."""

    def __init__(
        self,
        state: State,
        directory: Path,
        command: CommandOf,
        say: Say,
        worker_id: str,
        slots: int,
        *,
        grace_s: float,
        silence_s: float,
    ) -> None:
        self.state = state
        self.checkpoints = directory / "checkpoints"
        self.locks = directory / "locks"
        self.worker_id = worker_id
        self._command = command
        self._say = say
        self._slots = slots
        self._grace_s = grace_s
        self._silence_s = silence_s
        self._owned: frozenset[int] = frozenset()
        self._children: dict[str, tuple[Job, Child]] = {}
        self._endings: dict[str, tuple[int, Ending]] = {}
        self._said: dict[str, tuple[tuple[Status | None, Status | None], float]] = {}
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="supervisor")

    def start(self) -> None:
        """Begin; nothing is this server's yet."""
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        self.locks.mkdir(exist_ok=True)
        self._files = Path(tempfile.mkdtemp(prefix="ottla-pipeline-"))
        self._thread.start()

    def stop(self) -> None:
        """End all jobs, then return."""
        with self.state.changed:
            self._is_stopping = True
            self._owned = frozenset()
            self.state.changed.notify_all()
        self._thread.join()
        shutil.rmtree(self._files, ignore_errors=True)

    @property
    def is_alive(self) -> bool:
        """Whether jobs are looked after."""
        return self._thread.is_alive()

    def own(self, slots: Collection[int]) -> None:
        """From now on the jobs in these slots are this server's, and no others."""
        with self.state.changed:
            if self._owned != frozenset(slots) and not self._is_stopping:
                self._owned = frozenset(slots)
                self.state.changed.notify_all()

    def wait_until_given_up(self, timeout_s: float) -> bool:
        """Wait until no job runs here that is not this server's any more; False when that takes too long."""

        def given_up() -> bool:
            return all(self._is_mine(name) for name in self._children)

        with self.state.changed:
            return self.state.changed.wait_for(given_up, timeout_s)

    def in_slots(self) -> list[int]:
        """How many jobs are to run in each slot, whoever has them."""
        counts = [0] * self._slots
        for name in self.state.names():
            job = self.state.job(name)
            counts[slot_of(name, self._slots)] += job is not None and job.target == STARTED
        return counts

    def _run(self) -> None:
        while True:
            with self.state.changed:
                self._look()
                if self._is_stopping and not self._children:
                    return
                for _, child in self._children.values():
                    child.beat()
                self.state.changed.wait(BEAT_EVERY_S)

    def _news(self) -> None:
        with self.state.changed:
            self.state.changed.notify_all()

    def _is_mine(self, name: str) -> bool:
        return slot_of(name, self._slots) in self._owned

    def _look(self) -> None:
        names = {*self._children, *self.state.names(), *self.state.statuses()}
        self._said = {name: said for name, said in self._said.items() if name in names}
        for name in names:
            job = self.state.job(name)
            self._step(name, job)
            status = self._status(name, job)
            if status is not None and status != self.state.status(name):
                self._tell(name, status)
            elif job is None and name not in self._children and self._is_mine(name) and self.state.status(name):
                self._tell(name, None)

    def _step(self, name: str, job: Job | None) -> None:
        """Stop what should not run, note what has ended, start what should run."""
        wanted = job if job is not None and self._is_mine(name) and job.target == STARTED else None
        if name in self._children:
            runs, child = self._children[name]
            if child.has_ended:
                del self._children[name]
                if not child.is_stopping:
                    self._endings[name] = runs.version, child.ending
                    logger.info("job %s ended with %d", name, child.ending.code)
                self.state.changed.notify_all()
            elif not child.is_stopping and (wanted is None or wanted.version != runs.version):
                logger.info("job %s is stopped", name)
                child.stop()
        if not (job and self._is_mine(name)) or job.target != STARTED:
            self._endings.pop(name, None)
        if wanted and name not in self._children and self._ending(wanted) is None:
            self._start(wanted)

    def _ending(self, job: Job) -> Ending | None:
        """How this version of a job has ended, here or, if it is done, anywhere."""
        version, ending = self._endings.get(job.name, (-1, None))
        if version == job.version:
            return ending
        status = self.state.status(job.name)
        return Ending(0, "") if status and status.done and status.generation == job.version else None

    def _start(self, job: Job) -> None:
        name = file_name(job.name)
        file = self._files / f"{name}.properties"
        logger.info("job %s is started", job.name)
        try:
            config = {key: value for key, value in job.config.items() if key != CLASS_KEY}
            text = javaproperties.dumps(config, timestamp=False).encode("iso-8859-1")
            # The text is the job's standard input, because a file would stay after a kill, with passwords.
            if not file.is_symlink():
                file.symlink_to("/dev/stdin")
            command = self._command(file, self.checkpoints / name)
            child = Child(self.locks / name, command, text, self._grace_s, self._silence_s, self._news)
        except OSError as error:
            self._endings[job.name] = job.version, Ending(1, str(error))
        else:
            self._children[job.name] = job, child

    def _status(self, name: str, job: Job | None) -> Status | None:
        """How a job is; None where it is not for this server to say, or between two states."""
        before = self.state.status(name)
        if name in self._children:
            runs, child = self._children[name]
            if job is None or not self._is_mine(name) or job.target != STARTED:
                return None
            if child.is_stopping:
                return Status(RESTARTING, self.worker_id, runs.version)
            if child.is_running:
                return Status(RUNNING, self.worker_id, runs.version)
            return Status(UNASSIGNED, self.worker_id, runs.version) if child.is_waiting else None
        if job is None:
            return None
        if not self._is_mine(name):
            # Only what was this server's: the others say how theirs are.
            is_stale = before is not None and before.worker_id == self.worker_id and before.state != UNASSIGNED
            if not is_stale or before is None or before.done:
                return None
            return Status(UNASSIGNED, self.worker_id, job.version)
        if job.target != STARTED:
            return Status(PAUSED if job.target == PAUSED else STOPPED, self.worker_id, job.version)
        ending = self._ending(job)
        if ending is None:
            return None
        if ending.code == 0:
            if before and before.done and before.generation == job.version:
                return before
            return Status(STOPPED, self.worker_id, job.version, done=True)
        return Status(FAILED, self.worker_id, job.version, ending.trace or f"the job ended with {ending.code}")

    def _tell(self, name: str, status: Status | None) -> None:
        """Say how a job is, unless it was said just now and nothing else since: then it is on its way."""
        news = status, self.state.status(name)
        said, at = self._said.get(name, (None, 0.0))
        if said != news or time.monotonic() - at > SAY_AGAIN_S:
            self._said[name] = news, time.monotonic()
            self._say(name, status)
