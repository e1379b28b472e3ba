"""Files of reassignments: Ottla's, Kafka's, and undo files."""

import json
from pathlib import Path
from typing import Any

import click
import pytest

from ottla.client.admin.log_dirs import Replica
from ottla.scripts.reassignment_plans import Plan, read_plan, with_log_dirs, write_way_back
from ottla.wire.types import TopicPartition

PARTITION = TopicPartition("t", 0)


def read(document: Any) -> Plan:
    return read_plan(json.dumps(document), "plan.json")


def test_a_file_of_kafkas_tool_is_read_with_its_log_directories() -> None:
    entry = {"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "/data"]}
    assert read({"version": 1, "partitions": [entry]}) == Plan({PARTITION: [1, 2]}, {Replica("t", 0, 2): "/data"})


def test_the_output_of_plan_is_read_without_failed_partitions() -> None:
    items = [
        {"topic": "t", "partition": 0, "current": [1], "replicas": [2], "error": None},
        {"topic": "gone", "partition": None, "replicas": None, "error": "UNKNOWN_TOPIC_OR_PARTITION"},
    ]
    assert read({"schema": 1, "items": items}) == Plan({PARTITION: [2]}, {})


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ([], "holds no reassignment"),
        ({}, "lacks 'items'"),
        ({"partitions": []}, "names no partition"),
        ({"partitions": [{"topic": "t", "partition": 0}]}, "lacks 'replicas'"),
        ({"partitions": [{"topic": "t", "partition": 0, "replicas": []}]}, r"the replicas of t-0 are \[\]"),
        ({"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 1]}]}, r"the replicas of t-0 are \[1, 1\]"),
        ({"partitions": [{"topic": "t", "partition": 0, "replicas": [1]}] * 2}, "it names t-0 twice"),
    ],
)
def test_a_file_without_reassignment_is_refused(document: Any, reason: str) -> None:
    with pytest.raises(click.UsageError, match=reason):
        read(document)


def test_a_file_that_is_not_json_is_refused() -> None:
    with pytest.raises(click.UsageError, match=r"plan\.json holds no reassignment"):
        read_plan("{", "plan.json")


def test_an_undo_file_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    plan = Plan({PARTITION: [1, 2], TopicPartition("t", 1): [2]}, {Replica("t", 0, 2): "/data"})
    path = write_way_back(plan, "cluster")
    assert path.parent == tmp_path / "ottla" / "undo"
    assert read_plan(path.read_text(), path.name) == plan
    assert write_way_back(plan, "cluster") != path


def test_a_log_directory_is_for_all_replicas_on_its_broker() -> None:
    plan = with_log_dirs(Plan({PARTITION: [1, 2], TopicPartition("t", 1): [2]}, {}), ["2:/data"])
    assert plan.log_dirs == {Replica("t", 0, 2): "/data", Replica("t", 1, 2): "/data"}


@pytest.mark.parametrize("text", ["2", "2:data", "x:/data", ":/data"])
def test_a_log_directory_without_broker_or_absolute_path_is_refused(text: str) -> None:
    with pytest.raises(click.UsageError, match="use BROKER:PATH"):
        with_log_dirs(Plan({PARTITION: [1]}, {}), [text])
