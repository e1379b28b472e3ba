"""Consumers of all kinds as processes of their own, with their events."""

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from compat_tests.support import jars
from compat_tests.support.brokers import Broker
from compat_tests.support.java import program_command

PATIENCE_S = 120.0
# The shortest session timeout that a broker allows by default.
SESSION_TIMEOUT_MS = 6_000
JAVA = "java"
CLIENTS = ("kafka-python", "confluent-kafka", "aiokafka", JAVA)

Partition = tuple[str, int]

_HERE = Path(__file__).parent
_ASSIGNORS = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


def _in_java(given: dict[str, Any]) -> list[str]:
    settings = {
        "bootstrap.servers": given["bootstrap"],
        "group.id": given["group"],
        "client.id": given["client_id"],
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer." + _ASSIGNORS[given["strategy"]],
        "session.timeout.ms": given["session_timeout_ms"],
        "heartbeat.interval.ms": given["heartbeat_interval_ms"],
        "enable.auto.commit": str(given["auto_commit"]).lower(),
        "auto.commit.interval.ms": given["auto_commit_interval_ms"],
        "auto.offset.reset": given["reset"],
    }
    if given["instance"] is not None:
        settings["group.instance.id"] = given["instance"]
    (topic,) = given["topics"]
    pairs = [f"{name}={value}" for name, value in settings.items()]
    return [*program_command(_HERE / "GroupMember.java", jars.TOOLS, heap="128M"), topic, *pairs]


class Member:
    """A consumer process, and its events."""

    def __init__(self, broker: Broker, client: str, group: str, topic: str, **settings: Any) -> None:
        given = {
            "client": client,
            "bootstrap": broker.bootstrap,
            "group": group,
            "topics": [topic],
            "client_id": client,
            "instance": None,
            "strategy": "range",
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            "heartbeat_interval_ms": 300,
            "auto_commit": False,
            "auto_commit_interval_ms": 200,
            "reset": "earliest",
            **settings,
        }
        self.events: list[list[Any]] = []
        in_python = [sys.executable, "-m", "compat_tests.groups.group_member", json.dumps(given)]
        command = _in_java(given) if client == JAVA else in_python
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=_HERE.parent)
        self._threads = [threading.Thread(target=read) for read in (self._listen, self._collect)]
        self._complaints = ""
        for each in self._threads:
            each.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.events.append(json.loads(line))

    def _collect(self) -> None:
        assert self._process.stderr is not None
        self._complaints = self._process.stderr.read()

    @property
    def assignment(self) -> set[Partition]:
        """Return its current partitions."""
        held: set[Partition] = set()
        for what, *rest in list(self.events):
            if what == "assigned":
                held |= {(topic, partition) for topic, partition in rest[0]}
            elif what in ("revoked", "lost"):
                held -= {(topic, partition) for topic, partition in rest[0]}
        return held

    @property
    def read(self) -> list[tuple[int, int]]:
        """Return partition and offset of its records, in the order of reading."""
        return [(event[2], event[3]) for event in list(self.events) if event[0] == "record"]

    def changes(self) -> int:
        """Return how often its assignment changed."""
        return sum(event[0] in ("assigned", "revoked", "lost") for event in list(self.events))

    def ask(self, command: str) -> None:
        """Send it a command, and wait until it is done."""
        count = self._done()
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        wait_until(lambda: self._done() > count, self)

    def _done(self) -> int:
        return sum(event[0] == "done" for event in list(self.events))

    def close(self) -> None:
        """Close its consumer, which leaves the group."""
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(PATIENCE_S)
        self._join()

    def failure(self) -> str:
        """Wait until it fails; return its error."""
        assert self._process.wait(PATIENCE_S) != 0
        self._join()
        return self._complaints

    def freeze(self) -> None:
        """Pause its process by SIGSTOP; its connections stay open."""
        self._process.send_signal(signal.SIGSTOP)

    def crash(self) -> None:
        """Kill its process, without leaving the group."""
        self._process.kill()
        self._process.wait(PATIENCE_S)
        self._join()

    def _join(self) -> None:
        for each in self._threads:
            each.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.crash()

    def __repr__(self) -> str:
        return f"{self.events[-20:]} {self._complaints[-2000:]}"


def wait_until(condition: Callable[[], bool], *members: Member, patience_s: float = PATIENCE_S) -> float:
    """Wait until the condition is True; return the seconds."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < patience_s, members
        time.sleep(0.02)
    return time.monotonic() - began


def shared(topic: str, partitions: int, *members: Member) -> Callable[[], bool]:
    """Return a condition: the members have all partitions, evenly assigned."""
    everything = {(topic, index) for index in range(partitions)}

    def shared() -> bool:
        parts = [each.assignment for each in members]
        sizes = [len(part) for part in parts]
        return set().union(*parts) == everything and sum(sizes) == partitions and max(sizes) - min(sizes) <= 1

    return shared
