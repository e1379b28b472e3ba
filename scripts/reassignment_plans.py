"""Files of reassignments: the output of `ottla reassign plan`, the files of Kafka's tool, and undo files.

Owns the documents. Must not know a cluster.
"""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from ottla.client.admin.log_dirs import Replica
from ottla.scripts.terminal.profiles import state_folder
from ottla.wire.types import TopicPartition

_ANY: Final = "any"


class Plan(NamedTuple):
    """The replicas of partitions, and the log directories of some replicas."""

    replicas: Mapping[TopicPartition, list[int]]
    log_dirs: Mapping[Replica, str]

    def dirs_by_partition(self) -> dict[TopicPartition, dict[int, str]]:
        """Return the directories by partition and broker."""
        found: dict[TopicPartition, dict[int, str]] = {}
        for (topic, partition, broker), path in self.log_dirs.items():
            found.setdefault(TopicPartition(topic, partition), {})[broker] = path
        return found


def read_plan(text: str, name: str) -> Plan:
    """Return the plan in a document of `ottla reassign plan` or of Kafka's tool. UsageError if there is none."""
    replicas: dict[TopicPartition, list[int]] = {}
    log_dirs: dict[Replica, str] = {}
    try:
        document = json.loads(text)
        for each in document["partitions"] if "partitions" in document else document["items"]:
            if each.get("error") is not None:
                continue
            partition = TopicPartition(str(each["topic"]), int(each["partition"]))
            if partition in replicas:
                raise ValueError(f"it names {partition} twice")
            replicas[partition] = _brokers(partition, each["replicas"])
            for broker, path in zip(replicas[partition], each.get("log_dirs") or (), strict=False):
                if path != _ANY:
                    log_dirs[Replica(*partition, broker)] = str(path)
    except (KeyError, TypeError) as error:
        raise click.UsageError(f"{name} holds no reassignment: it lacks {error}") from None
    except ValueError as error:
        raise click.UsageError(f"{name} holds no reassignment: {error}") from None
    if not replicas:
        raise click.UsageError(f"{name} names no partition")
    return Plan(replicas, log_dirs)


def _brokers(partition: TopicPartition, brokers: Any) -> list[int]:
    found = [int(each) for each in brokers]
    if not found or len(set(found)) != len(found):
        raise ValueError(f"the replicas of {partition} are {found}")
    return found


def write_way_back(plan: Plan, cluster_id: str | None) -> Path:
    """Write an undo file, which Kafka's tool can read, too; return its path."""
    folder = state_folder(os.environ) / "undo"
    folder.mkdir(parents=True, exist_ok=True)
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    path = folder / f"reassign-{moment}-{cluster_id or 'cluster'}.json"
    path.write_text(json.dumps(_document(plan), indent=2) + "\n")
    return path


def _document(plan: Plan) -> dict[str, Any]:
    partitions: list[dict[str, Any]] = []
    for partition, brokers in plan.replicas.items():
        entry = {"topic": partition.topic, "partition": partition.partition, "replicas": brokers}
        dirs = [plan.log_dirs.get(Replica(*partition, broker), _ANY) for broker in brokers]
        partitions.append({**entry, "log_dirs": dirs} if set(dirs) != {_ANY} else entry)
    return {"version": 1, "partitions": partitions}


def with_log_dirs(plan: Plan, texts: Sequence[str]) -> Plan:
    """Return a plan with directories for all replicas on the brokers of `--log-dir BROKER:PATH`."""
    paths = {}
    for text in texts:
        broker, colon, path = text.partition(":")
        if not colon or not broker.isdigit() or not path.startswith("/"):
            raise click.UsageError(f"--log-dir {text}: use BROKER:PATH, such as 1:/data/kafka")
        paths[int(broker)] = path
    wanted = {
        Replica(*partition, broker): paths[broker]
        for partition, brokers in plan.replicas.items()
        for broker in brokers
        if broker in paths
    }
    return plan._replace(log_dirs={**plan.log_dirs, **wanted})
