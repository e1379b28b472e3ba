"""What can be done with jobs: what is wanted is written down, and whoever has the job does it.

Owns what is refused, and with which words. Must not know HTTP, nor which server has a job. Counterparts in Kafka:
DistributedHerder, AbstractHerder. There is no leader: the records of all jobs are in one partition, so all servers read
the same, and the one whose record comes last is right.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from ottla.pipeline.checkpoint import CheckpointError
from ottla.pipeline.positions import Partition, UnreachableError
from ottla.pipeline.server import checkpoint, plugins
from ottla.pipeline.server.answers import RestError
from ottla.pipeline.server.state import (
    FAILED,
    PAUSED,
    RESTARTING,
    STARTED,
    STOPPED,
    Job,
    Record,
    State,
    config_record,
    removal_records,
    restart_record,
    target_record,
)
from ottla.pipeline.server.topics import WRITE_TIMEOUT_S, TopicError
from ottla.pipeline.settings import JobError

INITIAL_STATES: Final = {"RUNNING": STARTED, "PAUSED": PAUSED, "STOPPED": STOPPED}

Changes: TypeAlias = Mapping[Partition, int | None]
"""Offsets to begin at; None is where the job's config says."""

# Given the config of a job and its checkpoint.
Move = Callable[[dict[str, str], Path, Changes | None], object]

# Writes what is wanted; returns when it has been read back.
Write = Callable[[Sequence[Record]], None]


class Herder:
    """All jobs of all servers of a group."""

    def __init__(
        self,
        state: State,
        write: Write,
        validate: plugins.Validate,
        move: Move,
        checkpoint_of: Callable[[str], Path],
        is_rebalancing: Callable[[], bool],
    ) -> None:
        self._state = state
        self._write = write
        self._validate = validate
        self._move = move
        self._checkpoint_of = checkpoint_of
        self._is_rebalancing = is_rebalancing
        # See _alone.
        self._writing = threading.RLock()

    def names(self) -> list[str]:
        """The names of all jobs."""
        return self._state.names()

    def job(self, name: str) -> Job:
        """One job."""
        if (job := self._state.job(name)) is None:
            raise RestError(404, f"Connector {name} not found")
        return job

    def info(self, name: str) -> dict[str, Any]:
        """A job, as ConnectorInfo."""
        job = self.job(name)
        return _info(job.name, dict(job.config), job.target)

    def status(self, name: str) -> dict[str, Any]:
        """How a job is, as ConnectorStateInfo."""
        job, status = self._state.job(name), self._state.status(name)
        if job is None or status is None:
            raise RestError(404, f"No status found for connector {name}")
        connector = {"state": status.state, "worker_id": status.worker_id}
        if status.trace:
            connector["trace"] = status.trace
        tasks = [] if status.state == STOPPED else [{"id": 0, **connector}]
        return {"name": name, "connector": connector, "tasks": tasks, "type": plugins.kind(job.config)}

    def task_status(self, name: str, task: str) -> dict[str, Any]:
        """How the one task of a job is."""
        for status in self.status(name)["tasks"] if name in self.names() else []:
            if str(status["id"]) == task:
                return dict(status)
        raise RestError(404, f"No status found for task {name}-{task}")

    def create(self, name: str, config: dict[str, str], initial_state: str | None) -> dict[str, Any]:
        """Make a job."""
        config = _named(name, config)
        if initial_state is not None and initial_state.upper() not in INITIAL_STATES:
            raise RestError(400, f"initial_state is to be one of {', '.join(INITIAL_STATES)}")
        self._refuse_invalid(name, config)
        target = INITIAL_STATES[initial_state.upper()] if initial_state else None
        with self._alone():
            if self._state.job(name) is not None:
                raise RestError(409, f"Connector {name} already exists")
            # The target first: nobody is to start what is to begin paused.
            self._record([*([target_record(name, target)] if target else []), config_record(name, config)])
        return _info(name, config, target or STARTED)

    def configure(self, name: str, config: dict[str, str]) -> tuple[bool, dict[str, Any]]:
        """Give a job a config; make it if it is not there, which the answer tells first."""
        config = _named(name, config)
        self._refuse_invalid(name, config)
        with self._alone():
            job = self._state.job(name)
            # What is the same already is left alone: the job would be stopped and started for nothing.
            if job is None or job.config != config:
                self._record([config_record(name, config)])
        return job is None, _info(name, config, job.target if job else STARTED)

    def patch(self, name: str, changes: dict[str, str | None]) -> dict[str, Any]:
        """Change keys of a job's config; None takes one away."""
        with self._alone():
            config: dict[str, str | None] = {**self.job(name).config, **changes}
            return self.configure(name, {key: value for key, value in config.items() if value is not None})[1]

    def delete(self, name: str) -> None:
        """Remove a job."""
        with self._alone():
            self.job(name)
            self._record(removal_records(name))

    def set_target(self, name: str, target: str) -> None:
        """Have a job run, or not."""
        with self._alone():
            self._known(name)
            self._record([target_record(name, target)])

    def restart(self, name: str, *, only_failed: bool = False) -> dict[str, Any] | None:
        """Have a job begin anew; return how it is then, None if nothing is known yet."""
        if self._is_rebalancing():
            raise RestError(
                409,
                "Cannot complete request momentarily due to stale configuration "
                "(typically caused by a concurrent config change)",
            )
        with self._alone():
            self._known(name)
            status = self._state.status(name)
            is_due = not only_failed or (status is not None and status.state == FAILED)
            if is_due:
                self._record([restart_record(name)])
        if status is None:
            return None
        told = self.status(name)
        for part in [told["connector"], *told["tasks"]] if is_due else []:
            part["state"] = RESTARTING
            part.pop("trace", None)
        return told

    def restart_task(self, name: str, task: str) -> None:
        """Have the one task of a job begin anew, which is the whole job."""
        self._known(name)
        if task != "0":
            raise RestError(404, f"Unknown task: {name}-{task}")
        self.restart(name)

    def offsets(self, name: str) -> dict[str, Any]:
        """How far a job has come, as ConnectorOffsets."""
        self.job(name)
        try:
            return {"offsets": checkpoint.offsets(self._checkpoint_of(name))}
        except CheckpointError as error:
            raise RestError(500, str(error)) from error

    def move(self, name: str, changes: Changes | None) -> None:
        """Have a job begin elsewhere in some partitions, or where it began once."""
        with self._alone():
            job = self.job(name)
            if job.target != STOPPED:
                raise RestError(
                    400,
                    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done "
                    f"for the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint",
                )
            try:
                self._move(dict(job.config), self._checkpoint_of(name), changes)
            except JobError as error:
                raise RestError(400, str(error)) from error
            except (CheckpointError, UnreachableError) as error:
                raise RestError(500, str(error)) from error

    def validate(self, config: dict[str, str]) -> dict[str, Any]:
        """What is wrong with a config, as ConfigInfos."""
        return plugins.validated(config, plugins.errors(config, config.get("name", ""), self._validate))

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Between a look and a write nobody else of this server writes; when brokers are gone that may take long."""
        if not self._writing.acquire(timeout=WRITE_TIMEOUT_S):
            raise RestError(500, "Request timed out")
        try:
            yield
        finally:
            self._writing.release()

    def _record(self, records: Sequence[Record]) -> None:
        try:
            self._write(records)
        except TopicError as error:
            raise RestError(500, str(error)) from error

    def _known(self, name: str) -> None:
        if self._state.job(name) is None:
            raise RestError(404, f"Unknown connector {name}")

    def _refuse_invalid(self, name: str, config: dict[str, str]) -> None:
        if found := plugins.errors(config, name, self._validate):
            raise RestError(400, plugins.refusal(found))


def _named(name: str, config: dict[str, str]) -> dict[str, str]:
    """A config that has the job's name in it."""
    if config.get("name", name) != name:
        raise RestError(
            400,
            f"Connector name configuration ({config['name']}) doesn't match connector name in the URL ({name})",
        )
    return {**config, "name": name}


def _info(name: str, config: dict[str, str], target: str) -> dict[str, Any]:
    tasks = [] if target == STOPPED else [{"connector": name, "task": 0}]
    return {"name": name, "config": config, "tasks": tasks, "type": plugins.kind(config)}
