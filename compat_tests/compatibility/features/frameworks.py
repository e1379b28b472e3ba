"""Rows about other programs of Apache Kafka; the columns are the releases of these programs."""

import json
import shutil
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial, wraps
from pathlib import Path
from typing import Any

from compat_tests.compatibility.features.declaring import Feature
from compat_tests.compatibility.features.producing import NOON
from compat_tests.compatibility.observing import Observer
from compat_tests.compatibility.processes import connect_command, properties, streams_command
from compat_tests.compatibility.processes import running as running_program
from compat_tests.compatibility.trials import Trial, expect
from compat_tests.support.brokers import ApacheKafka, running
from compat_tests.support.zookeeper import free_port

# These programs start several times in a scenario, and wait for groups and for another cluster.
PATIENCE_S = 90
# Longer than the age of records with the times of scenarios.
RETENTION = "1234567890123"
FILE = "org.apache.kafka.connect.file.FileStream"
LINES = ("one", "two", "three")
MORE = ("four", "five")
TEXT = "org.apache.kafka.connect.storage.StringConverter"


def in_folder(scenario: Callable[..., None]) -> Callable[..., None]:
    """Return a scenario with a folder of its own."""

    @wraps(scenario)
    def run(trial: Trial, **more: str) -> None:
        trial.patience_s = PATIENCE_S
        with tempfile.TemporaryDirectory(prefix="compat-", ignore_cleanup_errors=True) as folder:
            scenario(trial, Path(folder), **more)

    return run


# Connect


def worker(trial: Trial, **more: object) -> dict[str, object]:
    """Return the settings of a worker."""
    given = {key.replace("_", "."): value for key, value in more.items()}
    converters = {"key.converter": TEXT, "value.converter": TEXT}
    return {"bootstrap.servers": trial.bootstrap, **converters, "offset.flush.interval.ms": 300, **given}


def source(trial: Trial, folder: Path) -> dict[str, object]:
    return {
        "connector.class": f"{FILE}SourceConnector",
        "file": str(folder / "in"),
        "topic": trial.topic,
        "tasks.max": 1,
    }


def sink(trial: Trial, folder: Path) -> dict[str, object]:
    return {
        "connector.class": f"{FILE}SinkConnector",
        "file": str(folder / "out"),
        "topics": trial.topic,
        "tasks.max": 1,
    }


def written(folder: Path) -> list[str]:
    """Return the lines of the sink's file."""
    path = folder / "out"
    return path.read_text().splitlines() if path.exists() else []


def append(folder: Path, lines: tuple[str, ...]) -> None:
    with (folder / "in").open("a") as file:
        file.writelines(f"{each}\n" for each in lines)


@in_folder
def connect_standalone(trial: Trial, folder: Path) -> None:
    offsets = {"offset.storage.file.filename": str(folder / "offsets"), "listeners": f"http://127.0.0.1:{free_port()}"}
    files = [
        properties(folder / "worker.properties", {**worker(trial), **offsets}),
        properties(folder / "source.properties", {"name": f"{trial.name}-source", **source(trial, folder)}),
        properties(folder / "sink.properties", {"name": f"{trial.name}-sink", **sink(trial, folder)}),
    ]
    command = connect_command(trial.version, "cli.ConnectStandalone", *files)
    append(folder, LINES)
    with trial.checking(running_program(command, folder)):
        trial.wait_until(partial(written, folder), list(LINES))
    append(folder, MORE)
    with trial.checking(running_program(command, folder)):
        trial.wait_until(partial(written, folder), [*LINES, *MORE])


class Worker:
    """A Connect worker in a group of workers, with its REST interface at a port."""

    def __init__(self, trial: Trial, folder: Path, name: str, **more: object) -> None:
        self.port = free_port()
        storage = {
            f"{what}.storage.{key}": value
            for what in ("config", "offset", "status")
            for key, value in (("topic", f"{trial.name}-{what}"), ("replication.factor", 1))
        }
        group = {"group.id": trial.group, "scheduled.rebalance.max.delay.ms": 0}
        listeners = {"listeners": f"http://127.0.0.1:{self.port}", "rest.advertised.host.name": "127.0.0.1"}
        file = properties(folder / f"{name}.properties", {**worker(trial, **more), **group, **storage, **listeners})
        self._command = connect_command(trial.version, "cli.ConnectDistributed", file)
        self._folder, self._trial = folder, trial

    def running(self) -> AbstractContextManager[None]:
        """Run the worker during the block."""
        return self._trial.checking(running_program(self._command, self._folder))

    def ask(self, path: str, body: Any = None, method: str = "GET") -> Any:
        """Return the answer of its REST interface, or None if there is none."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, None if body is None else json.dumps(body).encode(), 30) as answer:
                return json.loads(answer.read() or "null")
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None

    def is_answering(self, path: str, body: Any, method: str) -> bool:
        """Whether its REST interface accepts a request."""
        return self.ask(path, body, method) is not None

    def tasks(self, connector: str) -> list[str]:
        """Return the states of a connector's tasks."""
        found = self.ask(f"/connectors/{connector}/status") or {"tasks": []}
        return [each["state"] for each in found["tasks"]]


def copy_in_turns(trial: Trial, folder: Path, required: dict[str, object], **more: object) -> None:
    """Copy a file to a topic to a file: by one worker, then by another one, which takes over."""
    one, two = (Worker(trial, folder, name, **more) for name in ("one", "two"))
    connectors = {"source": {**source(trial, folder), **required}, "sink": sink(trial, folder)}
    append(folder, LINES)
    with two.running():
        with one.running():
            for name, configs in connectors.items():
                wanted = {key: str(value) for key, value in configs.items()}
                trial.wait_until(partial(one.is_answering, f"/connectors/{name}/config", wanted, "PUT"), True)
                trial.wait_until(partial(one.tasks, name), ["RUNNING"])
            trial.wait_until(partial(written, folder), list(LINES))
        append(folder, MORE)
        trial.wait_until(partial(written, folder), [*LINES, *MORE])


@in_folder
def connect_distributed(trial: Trial, folder: Path) -> None:
    copy_in_turns(trial, folder, {})


@in_folder
def connect_exactly_once(trial: Trial, folder: Path) -> None:
    settings = {"exactly_once_source_support": "enabled", "consumer_isolation_level": "read_committed"}
    copy_in_turns(trial, folder, {"exactly.once.support": "required"}, **settings)
    # The markers of transactions have offsets.
    expect(trial.latest() > len(LINES) + len(MORE), True)


# Streams


@in_folder
def streams(trial: Trial, folder: Path, guarantee: str = "at_least_once") -> None:
    trial.create_topic()
    # The current minute, because the changelog does not keep windows of long ago.
    minute = int(time.time()) // 60 * 60_000
    counts = f"{trial.topic}-counts"
    trial.observer.create_topic(counts, 1, {})
    settings = {
        "bootstrap.servers": trial.bootstrap,
        "application.id": trial.group,
        "state.dir": folder / "state",
        "processing.guarantee": guarantee,
        "replication.factor": 1,
        "commit.interval.ms": 100,
        # Streams does not leave its group at its end, so its next start waits for the session timeout.
        "session.timeout.ms": 6000,
        "statestore.cache.max.bytes": 0,
        "default.key.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
        "default.value.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
    }
    pairs = [f"{key}={value}" for key, value in settings.items()]
    command = streams_command(trial.version, trial.topic, counts, *pairs)
    with trial.checking(running_program(command, folder)):
        trial.write_at({minute: "v", minute + 1: "v", minute + 60_000: "v"}, key="k")
        wanted = [(f"k {minute}", "1"), (f"k {minute}", "2"), (f"k {minute + 60_000}", "1")]
        trial.wait_until(lambda: trial.observer.read(counts), wanted)
    # Its counts are only in the changelog.
    shutil.rmtree(folder / "state")
    with trial.checking(running_program(command, folder)):
        trial.write_at({minute + 60_001: "v"}, key="k")
        trial.wait_until(lambda: trial.observer.read(counts), [*wanted, (f"k {minute + 60_000}", "2")])


# MirrorMaker


def source_alias(trial: Trial) -> str:
    """Return MirrorMaker's name for the source cluster."""
    return f"{trial.name}-source"


def mirror(trial: Trial, folder: Path, source: str, target: str) -> AbstractContextManager[None]:
    """Run MirrorMaker from one cluster to another."""
    one = dict.fromkeys(
        [
            "replication.factor",
            *(f"{each}.storage.replication.factor" for each in ("config", "offset", "status")),
            *(f"{each}.topic.replication.factor" for each in ("checkpoints", "heartbeats", "offset-syncs")),
            *(f"{each}.interval.seconds" for each in ("emit.checkpoints", "sync.group.offsets", "refresh.topics")),
            "refresh.groups.interval.seconds",
        ],
        1,
    )
    # MirrorMaker's names of topics and groups contain these aliases.
    here, there = source_alias(trial), f"{trial.name}-target"
    settings = {
        **one,
        "clusters": f"{here}, {there}",
        f"{here}.bootstrap.servers": source,
        f"{there}.bootstrap.servers": target,
        f"{here}->{there}.enabled": "true",
        f"{here}->{there}.topics": trial.topic,
        f"{here}->{there}.groups": trial.group,
        f"{there}->{here}.enabled": "false",
        f"{there}->{here}.emit.heartbeats.enabled": "false",
        "sync.group.offsets.enabled": "true",
        "offset.flush.interval.ms": 300,
    }
    file = properties(folder / "mirror.properties", settings)
    return trial.checking(running_program(connect_command(trial.version, "mirror.MirrorMaker", file), folder))


def mirrored(trial: Trial, folder: Path, source: Observer, target: Observer) -> None:
    source.create_topic(trial.topic, 1, {"retention.ms": RETENTION})
    source.write_at(trial.topic, {NOON: "a", NOON + 1: "b"}, "k")
    source.commit(trial.group, trial.topic, 2)
    copy = f"{source_alias(trial)}.{trial.topic}"
    with mirror(trial, folder, source.bootstrap, target.bootstrap):
        trial.wait_until(lambda: target.partitions(copy), 1)
        trial.wait_until(lambda: target.read(copy), [("k", "a"), ("k", "b")])
        source.write_at(trial.topic, {NOON + 2: "c"}, "k")
        trial.wait_until(lambda: target.read(copy), [("k", "a"), ("k", "b"), ("k", "c")])
        trial.wait_until(lambda: target.configs(copy, "retention.ms"), {"retention.ms": RETENTION})
        trial.wait_until(lambda: target.committed(trial.group, copy), 2)


@in_folder
def mirror_from(trial: Trial, folder: Path) -> None:
    with running(ApacheKafka) as kafka:
        mirrored(trial, folder, trial.observer, Observer(kafka.bootstrap))


@in_folder
def mirror_to(trial: Trial, folder: Path) -> None:
    with running(ApacheKafka) as kafka:
        mirrored(trial, folder, Observer(kafka.bootstrap), trial.observer)


ROWS = [
    Feature("Connect, standalone: a file to a topic to a file, continued after a restart", connect_standalone),
    Feature("Connect, distributed: the same, and one worker takes over from another", connect_distributed),
    Feature("Connect, distributed: the same, exactly once", connect_exactly_once),
    Feature("Streams: windows are counted, and restored from the changelog", streams),
    Feature("Streams, exactly once", partial(streams, guarantee="exactly_once_v2")),
    Feature("MirrorMaker 2: to Kafka 4.3.1, with configs and offsets of groups", mirror_from),
    Feature("MirrorMaker 2: from Kafka 4.3.1, with configs and offsets of groups", mirror_to),
]
