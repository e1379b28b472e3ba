"""What the two compacted topics say: which jobs there are, what is wanted of each, and how each is.

Owns keys and values of the records, and what replaying them comes to. Must not know how records are read or written.
Counterparts in Kafka: KafkaConfigBackingStore, KafkaStatusBackingStore, ClusterConfigState.
"""

import json
import logging
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

logger = logging.getLogger(__name__)

STARTED: Final = "STARTED"
PAUSED: Final = "PAUSED"
STOPPED: Final = "STOPPED"
TARGETS: Final = (STARTED, PAUSED, STOPPED)

RUNNING: Final = "RUNNING"
FAILED: Final = "FAILED"
UNASSIGNED: Final = "UNASSIGNED"
RESTARTING: Final = "RESTARTING"

_CONNECTOR: Final = "connector-"
_TARGET: Final = "target-state-"
_RESTART: Final = "restart-connector-"
_STATUS: Final = "status-connector-"

# A record's key and its value; None takes away what the key said before.
Record = tuple[str, dict[str, Any] | None]


@dataclass(frozen=True)
class Job:
    """A job as it is wanted."""

    name: str
    config: Mapping[str, str]
    target: str
    version: int
    """The offset of the record that asked for a fresh start last: its config, or a restart."""


@dataclass(frozen=True)
class Status:
    """How a job is, as the server says that has it."""

    state: str
    worker_id: str
    generation: int
    """The version of the job that this is about."""
    trace: str = ""
    done: bool = False
    """The job ended by itself, and well: it does not begin again unless it is restarted."""


def config_record(name: str, config: Mapping[str, str]) -> Record:
    """The record that makes a job, or gives it another config."""
    return _CONNECTOR + name, {"properties": dict(config)}


def target_record(name: str, target: str) -> Record:
    """The record that says what is wanted of a job."""
    return _TARGET + name, {"state": target}


def restart_record(name: str) -> Record:
    """The record that asks for a fresh start."""
    return _RESTART + name, {"include-tasks": True, "only-failed": False}


def removal_records(name: str) -> list[Record]:
    """The records that leave nothing of a job."""
    return [(_CONNECTOR + name, None), (_TARGET + name, None), (_RESTART + name, None)]


def status_record(name: str, status: Status | None) -> Record:
    """The record, in the other topic, that says how a job is."""
    return _STATUS + name, None if status is None else asdict(status)


class State:
    """All records so far, replayed. `changed` guards it, and wakes who waits for a record."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._configs: dict[str, tuple[dict[str, str], int]] = {}
        self._targets: dict[str, str] = {}
        self._restarts: dict[str, int] = {}
        self._statuses: dict[str, Status] = {}

    def job(self, name: str) -> Job | None:
        """One job, if there is one."""
        with self.changed:
            if name not in self._configs:
                return None
            config, offset = self._configs[name]
            version = max(offset, self._restarts.get(name, -1))
            return Job(name, config, self._targets.get(name, STARTED), version)

    def names(self) -> list[str]:
        """The names of all jobs."""
        with self.changed:
            return sorted(self._configs)

    def status(self, name: str) -> Status | None:
        """How a job is, if anybody has said so."""
        with self.changed:
            return self._statuses.get(name)

    def statuses(self) -> dict[str, Status]:
        """How all jobs are; those that were deleted, too, until who had them has taken notice."""
        with self.changed:
            return dict(self._statuses)

    def apply(self, key: str, value: bytes | None, offset: int) -> None:
        """Take in a record of either topic. What cannot be understood is passed over with a line."""
        try:
            content = None if value is None else json.loads(value)
            with self.changed:
                self._apply(key, content, offset)
                self.changed.notify_all()
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            logger.error("passed over the record %.200r at offset %d: %.200r", key, offset, error)

    def _apply(self, key: str, value: Any, offset: int) -> None:
        for prefix, take in (
            (_CONNECTOR, self._take_config),
            (_TARGET, self._take_target),
            (_RESTART, self._take_restart),
            (_STATUS, self._take_status),
        ):
            if key.startswith(prefix):
                take(key.removeprefix(prefix), value, offset)
                return
        raise ValueError("no key of ours")

    def _take_config(self, name: str, value: Any, offset: int) -> None:
        if value is None:
            self._configs.pop(name, None)
        else:
            self._configs[name] = {str(key): str(text) for key, text in value["properties"].items()}, offset

    def _take_target(self, name: str, value: Any, offset: int) -> None:
        if value is None:
            self._targets.pop(name, None)
        elif value["state"] in TARGETS:
            self._targets[name] = value["state"]
        else:
            raise ValueError(f"no target state: {value['state']!r}")

    def _take_restart(self, name: str, value: Any, offset: int) -> None:
        if value is None:
            self._restarts.pop(name, None)
        else:
            self._restarts[name] = offset

    def _take_status(self, name: str, value: Any, offset: int) -> None:
        if value is None:
            self._statuses.pop(name, None)
        else:
            self._statuses[name] = Status(**value)
