"""Reassignments keep to their throttle, and Kafka's own tool sets and clears it."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka.admin
import pytest
import trio
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from compat_tests.support.brokers import run_tool
from ottla import Cluster
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.system.clusters import test_cluster
from tests.system.clusters.test_cluster import PATIENCE_S, TOPIC, others, running
from tests.system.clusters.test_reassignment import controller_of, create, is_moving, reassign, wait_until_on

# The package has no explicit exports.
librdkafka: Any = confluent_kafka.admin
TOPIC_KEYS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
BROKER_KEYS = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_TOPIC, _BROKER = 2, 4


async def set_configs(cluster: test_cluster.Cluster, by: int, kind: int, name: str, wanted: dict[str, str]) -> None:
    changes = [AlterableConfig(name=key, config_operation=0, value=value) for key, value in wanted.items()]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    response = await cluster.ask(by, IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
    assert isinstance(response, IncrementalAlterConfigsResponse)
    assert [each.error_code for each in response.responses] == [ErrorCode.NONE]


@pytest.mark.parametrize("side", ["leader", "follower"])
async def test_a_reassignment_waits_until_its_throttle_allows_it(tmp_path: Path, side: str) -> None:
    async with running(tmp_path, replica_fetch_max_bytes="10000", replica_fetch_backoff_ms="100") as cluster:
        controller = await controller_of(cluster, 0)
        newcomer = others(0, controller)[0]
        await create(cluster, controller, 0)
        for _ in range(20):
            assert await cluster.produce(0, *[bytes(1000)] * 50) == ErrorCode.NONE
        throttled = 0 if side == "leader" else newcomer
        replicas, rate = (
            {f"{side}.replication.throttled.replicas": f"0:{throttled}"},
            f"{side}.replication.throttled.rate",
        )
        await set_configs(cluster, controller, _TOPIC, TOPIC, replicas)
        await set_configs(cluster, throttled, _BROKER, str(throttled), {rate: "20000"})
        if side == "follower":
            # The throttle holds from the start on.
            await cluster.brokers.stop_broker(newcomer)
            await cluster.brokers.start_broker(newcomer)
        await reassign(cluster, controller, [0, newcomer])
        with trio.fail_after(PATIENCE_S):
            while (copied := size_of(tmp_path / f"broker-{newcomer}" / f"{TOPIC}-0")) <= 20_000:
                await trio.sleep(0.02)
        # The copy stopped once, and most of a million bytes is left.
        assert copied < 500_000
        assert await is_moving(cluster, controller)
        await set_configs(cluster, throttled, _BROKER, str(throttled), {rate: "100000000"})
        await wait_until_on(cluster, controller, tmp_path, 0, newcomer)


def size_of(folder: Path) -> int:
    found = 0
    for file in folder.glob("*.log"):
        with contextlib.suppress(FileNotFoundError):
            found += file.stat().st_size
    return found


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3, auto_leader_rebalance_enable=False, replica_fetch_max_bytes=50_000) as cluster:
        yield cluster


@pytest.fixture
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})


def configs(admin: AdminClient, kind: Any, name: str, *keys: str) -> dict[str, str]:
    """Return the set values of these keys."""
    (found,) = admin.describe_configs([librdkafka.ConfigResource(kind, name)]).values()
    entries = found.result(PATIENCE_S)
    return {key: entries[key].value for key in keys if key in entries and not entries[key].is_default}


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
def test_kafkas_tool_sets_raises_and_clears_the_throttle_of_a_reassignment(
    cluster: Cluster, admin: AdminClient, tmp_path: Path
) -> None:
    for each in admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=[[0]])], operation_timeout=10).values():
        each.result(PATIENCE_S)
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for _ in range(1000):
        producer.produce(TOPIC, bytes(1000), partition=0)
    assert producer.flush(PATIENCE_S) == 0
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"partitions": [{"topic": TOPIC, "partition": 0, "replicas": [1, 2]}], "version": 1}))

    def tool(*arguments: str) -> str:
        given = ("--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(plan), *arguments)
        return run_tool("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", *given)

    def of_topic() -> dict[str, str]:
        return configs(admin, librdkafka.ConfigResource.Type.TOPIC, TOPIC, *TOPIC_KEYS)

    def of_brokers() -> list[dict[str, str]]:
        return [configs(admin, librdkafka.ConfigResource.Type.BROKER, str(each), *BROKER_KEYS) for each in range(3)]

    printed = tool("--execute", "--throttle", "1000")
    assert "The inter-broker throttle limit was set to 1000 B/s" in printed
    assert f"Successfully started partition reassignment for {TOPIC}-0" in printed
    assert of_topic() == dict(zip(TOPIC_KEYS, ("0:0", "0:1,0:2"), strict=True))
    assert of_brokers() == [dict.fromkeys(BROKER_KEYS, "1000")] * 3
    assert f"Reassignment of partition {TOPIC}-0 is still in progress" in tool("--verify")
    tool("--execute", "--additional", "--throttle", "100000000")
    assert of_brokers() == [dict.fromkeys(BROKER_KEYS, "100000000")] * 3

    def is_done() -> bool:
        (partition,) = admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions.values()
        return sorted(partition.replicas) == sorted(partition.isrs) == [1, 2]

    wait_for(is_done)
    assert of_topic() != {}
    printed = tool("--verify")
    assert f"Reassignment of partition {TOPIC}-0 is completed" in printed
    assert "Clearing broker-level throttles on brokers 0,1,2" in printed
    assert f"Clearing topic-level throttles on topic {TOPIC}" in printed
    assert of_topic() == {}
    assert of_brokers() == [{}] * 3
