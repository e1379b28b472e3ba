"""Kafka's own tools against a cluster: they list leaders, in-sync and missing replicas, and elect leaders."""

import json
import re
import time
from collections.abc import Callable, Iterator

import pytest

from compat_tests.support.brokers import run_tool
from ottla import Cluster

pytestmark = pytest.mark.slow
TOPIC = "t"
PATIENCE_S = 120.0

# By partition: leader, replicas, in-sync replicas.
Described = dict[int, tuple[int, list[int], list[int]]]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    # Otherwise the controller may elect the preferred leaders by itself.
    with Cluster(3, auto_leader_rebalance_enable=False) as cluster:
        yield cluster


def topics(cluster: Cluster, *arguments: str) -> str:
    return run_tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", cluster.bootstrap, *arguments)


def described(cluster: Cluster, *arguments: str) -> Described:
    printed = topics(cluster, "--describe", *arguments)
    lines = re.findall(r"Partition: (\d+)\tLeader: (\S+)\tReplicas: (\S+)\tIsr: (\S+)", printed)
    return {int(index): (int(leader), numbers(replicas), numbers(isr)) for index, leader, replicas, isr in lines}


def numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline


def test_tools_see_a_broker_leave_and_return_and_elect_preferred_leaders(cluster: Cluster) -> None:
    topics(cluster, "--create", "--topic", TOPIC, "--partitions", "3", "--replication-factor", "3")
    before = described(cluster, "--topic", TOPIC)
    assert sorted(leader for leader, _, _ in before.values()) == [0, 1, 2]
    assert all(leader == replicas[0] and isr == replicas for leader, replicas, isr in before.values())
    cluster.kill(1)
    without = described(cluster, "--under-replicated-partitions")
    assert without.keys() == before.keys()
    assert all(1 not in isr and leader in isr and len(isr) == 2 for leader, _, isr in without.values())
    assert described(cluster, "--unavailable-partitions") == {}
    cluster.start(1)
    wait_for(lambda: described(cluster, "--under-replicated-partitions") == {})
    printed = run_tool(
        "org.apache.kafka.tools.LeaderElectionCommand",
        *("--bootstrap-server", cluster.bootstrap, "--election-type", "preferred", "--all-topic-partitions"),
    )
    moved = [index for index, (leader, _, _) in before.items() if leader == 1]
    assert f"Successfully completed leader election (PREFERRED) for partitions {TOPIC}-{moved[0]}" in printed
    after = described(cluster, "--topic", TOPIC)
    assert {index: leader for index, (leader, _, _) in after.items()} == {
        index: leader for index, (leader, _, _) in before.items()
    }
    printed = run_tool(
        "org.apache.kafka.tools.LogDirsCommand",
        *("--bootstrap-server", cluster.bootstrap, "--describe", "--topic-list", TOPIC),
    )
    (found,) = (json.loads(line) for line in printed.splitlines() if line.startswith("{"))
    assert {each["broker"]: len(each["logDirs"][0]["partitions"]) for each in found["brokers"]} == {0: 3, 1: 3, 2: 3}
    topics(cluster, "--delete", "--topic", TOPIC)
    wait_for(lambda: TOPIC not in topics(cluster, "--list").split())


def test_kafkas_consumer_gets_the_records_of_kafkas_producer(cluster: Cluster) -> None:
    topics(cluster, "--create", "--topic", TOPIC, "--partitions", "3", "--replication-factor", "3")
    printed = run_tool(
        "org.apache.kafka.tools.VerifiableProducer",
        *("--bootstrap-server", cluster.bootstrap, "--topic", TOPIC, "--max-messages", "3000", "--acks", "-1"),
    )
    told = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert sum(each["name"] == "producer_send_success" for each in told) == 3000
    printed = run_tool(
        "org.apache.kafka.tools.VerifiableConsumer",
        *("--bootstrap-server", cluster.bootstrap, "--topic", TOPIC, "--group-id", "g", "--max-messages", "3000"),
    )
    told = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert sum(each["count"] for each in told if each["name"] == "records_consumed") >= 3000
