"""Replicas move between log directories of Ottla as in Kafka 3.9.2, and Kafka's tools show the moves.

Both brokers have two directories, and get the same requests.
"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.differential.both import PATIENCE_S, Both, PerSide, Side
from compat_tests.support.brokers import LAST_WITH_ZOOKEEPER, Ottla, ZooKeeperKafka, running
from compat_tests.support.tools import Printed, Tools, normalized

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TWO = ["broker.id=1", "log.dirs=one,two"]
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
THROTTLE = ("--replica-alter-log-dirs-throttle", "100000000", "--timeout", "20000")


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    with running(Ottla, TWO) as ottla, running(ZooKeeperKafka, TWO) as kafka:
        both = Both(ottla, kafka)
        yield both
        both.close()


def path(both: Both, name: str) -> PerSide:
    return PerSide(*(str(side.broker.data / name) for side in (both.ottla, both.kafka)))


def move(both: Both, name: Any, *topics: str, partitions: tuple[int, ...] = (0,)) -> None:
    wanted = [{"name": each, "partitions": partitions} for each in topics]
    both.ask("AlterReplicaLogDirs", dirs=[{"path": name, "topics": wanted}])


def described(side: Side, topic: str) -> list[tuple[str, int, bool]]:
    answer = side.ask("DescribeLogDirs", 4, {"topics": [{"topic": topic, "partitions": [0, 1]}]})
    return sorted(
        (Path(result["log_dir"]).name, each["partition_index"], each["is_future_key"])
        for result in answer["results"]
        for found in result["topics"]
        for each in found["partitions"]
    )


def wait_until(both: Both, topic: str, is_so: Callable[[list[tuple[str, int, bool]]], bool]) -> None:
    for side in (both.ottla, both.kafka):
        wait_until_on(side, topic, is_so)


def wait_until_on(side: Side, topic: str, is_so: Callable[[list[tuple[str, int, bool]]], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so(described(side, topic)):
        assert time.monotonic() < deadline, described(side, topic)
        time.sleep(0.05)


@pytest.mark.parametrize("version", [1, 2])
def test_replicas_move_alike_on_the_wire(both: Both, version: int) -> None:
    both.differences.clear()
    both.begin("AlterReplicaLogDirs", version)
    early = both.new_name()
    # The directory of a topic that does not exist yet.
    move(both, path(both, "two"), early)
    both.ask_without_comparing(
        "CreateTopics",
        7,
        topics=[{"name": early, "num_partitions": 1, "replication_factor": 1}],
        timeout_ms=30000,
    )
    both.wait_for(early)
    wait_until(both, early, lambda found: found == [("two", 0, False)])
    both.fill(early)
    move(both, path(both, "nowhere"), early)
    move(both, path(both, "two"), early)
    move(both, path(both, "one"), early, "nobody-made-this")
    wait_until(both, early, lambda found: found == [("one", 0, False)])
    both.fill(early)
    ends = [{"name": early, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    for answer in both.ask_without_comparing("ListOffsets", 7, topics=ends):
        assert answer["topics"][0]["partitions"][0]["offset"] == 6
    move(both, path(both, "two"), early)
    wait_until(both, early, lambda found: found == [("two", 0, False)])
    move(both, path(both, "one"), early, partitions=(-1, 5))
    assert not both.differences, "\n".join(map(str, both.differences))


def printed_by(tools: Tools, side: Side, topic: str, plan: Path) -> list[Printed]:
    """Return the tools' output while a topic of two partitions moves to the second directory."""
    there = [str(side.broker.data / "two")]
    moves = [{"topic": topic, "partition": index, "replicas": [1], "log_dirs": there} for index in (0, 1)]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    bootstrap = ("--bootstrap-server", side.broker.bootstrap)
    reassign = (REASSIGN, *bootstrap, "--reassignment-json-file", str(plan))
    lines = [tools.run(*reassign, "--execute", *THROTTLE)]
    wait_until_on(side, topic, lambda found: found == [("two", 0, False), ("two", 1, False)])
    lines.append(tools.run(*reassign, "--verify"))
    lines.append(tools.run(LOG_DIRS, *bootstrap, "--describe", "--topic-list", topic))
    return [normalized(each, {str(side.broker.data): "its data"}) for each in lines]


def test_kafkas_tools_move_a_replica_tell_where_it_is_and_that_it_is_there(both: Both, tmp_path: Path) -> None:
    topic = both.topic(partitions=2)
    both.fill(topic)
    with Tools(tmp_path, LAST_WITH_ZOOKEEPER) as tools:
        ottla, kafka = (printed_by(tools, side, topic, tmp_path / "plan.json") for side in (both.ottla, both.kafka))
    assert ottla == kafka
    assert "is complete" in ottla[1].stdout
