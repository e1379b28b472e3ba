"""Reassignments among three brokers on one loop, while records are produced."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from tests.system.clusters.test_cluster import IDS, PATIENCE_S, TOPIC, Cluster, logs, others, running

pytestmark = pytest.mark.once

SECOND = b"x" * 1000


async def controller_of(cluster: Cluster, by: int) -> int:
    with trio.fail_after(PATIENCE_S):
        while (found := (await cluster.metadata(by)).controller_id) not in IDS:
            await trio.sleep(0.02)
    return found


async def create(cluster: Cluster, controller: int, *replicas: int) -> None:
    """Create the topic with its one partition on these brokers, and wait until every broker knows it."""
    assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)]
    wanted = CreatableTopic(name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=())
    with trio.fail_after(PATIENCE_S):
        # The controller may not have seen all brokers yet.
        while True:
            response = await cluster.ask(controller, CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), 7)
            assert isinstance(response, CreateTopicsResponse)
            if response.topics[0].error_code == ErrorCode.NONE:
                break
            await trio.sleep(0.02)
    for each in IDS:
        await cluster.wait_for(each, lambda it: it.leader_id == replicas[0])


async def reassign(cluster: Cluster, controller: int, replicas: Sequence[int] | None) -> None:
    one = ReassignablePartition(partition_index=0, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=TOPIC, partitions=[one])])
    response = await cluster.ask(controller, request, 0)
    assert isinstance(response, AlterPartitionReassignmentsResponse)
    assert response.error_code == ErrorCode.NONE
    assert response.responses[0].partitions[0].error_code == ErrorCode.NONE


async def is_moving(cluster: Cluster, controller: int) -> bool:
    response = await cluster.ask(controller, ListPartitionReassignmentsRequest(topics=None), 0)
    assert isinstance(response, ListPartitionReassignmentsResponse)
    assert response.error_code == ErrorCode.NONE
    return bool(response.topics)


async def wait_until_on(cluster: Cluster, by: int, folder: Path, *replicas: int) -> int:
    """Wait until a partition is on exactly these brokers; return the leader."""
    found = await cluster.wait_for(
        by, lambda it: sorted(it.replica_nodes) == sorted(it.isr_nodes) == sorted(replicas) and it.leader_id in replicas
    )
    with trio.fail_after(PATIENCE_S):
        while any((folder / f"broker-{each}" / f"{TOPIC}-0").exists() for each in others(*replicas)):
            await trio.sleep(0.02)
    return found.leader_id


@asynccontextmanager
async def writing(cluster: Cluster, by: int) -> AsyncIterator[list[bytes]]:
    """Produce to the leader with acks=all during a `with` block; yield the acknowledged records."""
    acknowledged: list[bytes] = []

    async def write() -> None:
        number = 0
        while True:
            text = b"%d" % number
            leader = (await cluster.partition(by)).leader_id
            if leader in IDS and await cluster.produce(leader, text) == ErrorCode.NONE:
                acknowledged.append(text)
                number += 1
            await trio.sleep(0.002)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        yield acknowledged
        seen = len(acknowledged)
        with trio.fail_after(PATIENCE_S):
            # Writing goes on after a move.
            while len(acknowledged) < seen + 5:
                await trio.sleep(0.02)
        nursery.cancel_scope.cancel()


def assert_none_is_lost(acknowledged: Sequence[bytes], read: Sequence[bytes]) -> None:
    """Check that each acknowledged record is there in order; others may be there too."""
    left = iter(read)
    assert all(any(each == found for found in left) for each in acknowledged)


@pytest.mark.parametrize(
    ("before", "after"),
    [((0,), (2,)), ((0, 1), (0, 2)), ((0, 1), (1, 2)), ((0, 1), (2, 1, 0)), ((0, 1, 2), (1,))],
    ids=str,
)
async def test_a_partition_moves_while_records_are_produced(
    tmp_path: Path, before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    async with running(tmp_path) as cluster:
        controller = await controller_of(cluster, 0)
        await create(cluster, controller, *before)
        for _ in range(20):
            assert await cluster.produce(before[0], *[SECOND] * 10) == ErrorCode.NONE
        async with writing(cluster, controller) as acknowledged:
            await reassign(cluster, controller, after)
            leader = await wait_until_on(cluster, controller, tmp_path, *after)
        assert not await is_moving(cluster, controller)
        read = await cluster.read(leader)
        assert read[:200] == [SECOND] * 200
        assert_none_is_lost(acknowledged, read[200:])
    first, *rest = [each for broker_id, each in enumerate(logs(tmp_path)) if broker_id in after]
    assert first
    assert rest == [first] * len(rest)


async def test_the_next_controller_completes_a_reassignment(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        controller = await controller_of(cluster, 0)
        one, other = others(controller)
        await create(cluster, controller, one)
        async with writing(cluster, one) as acknowledged:
            await reassign(cluster, controller, [other])
            await cluster.brokers.kill_broker(controller)
            leader = await wait_until_on(cluster, one, tmp_path, other)
        assert_none_is_lost(acknowledged, await cluster.read(leader))


async def test_a_cancelled_reassignment_leaves_nothing_behind(tmp_path: Path) -> None:
    """A stopped broker holds the reassignment up, so that the test can cancel it after the new replica has joined."""
    async with running(tmp_path) as cluster:
        controller = await controller_of(cluster, 0)
        away, new = others(controller)
        await create(cluster, controller, controller, away)
        await cluster.brokers.kill_broker(away)
        await cluster.wait_for(controller, lambda it: list(it.isr_nodes) == [controller])
        async with writing(cluster, controller) as acknowledged:
            await reassign(cluster, controller, [away, new])
            await cluster.wait_for(controller, lambda it: sorted(it.isr_nodes) == sorted([controller, new]))
            assert await is_moving(cluster, controller)
            await reassign(cluster, controller, None)
            await cluster.wait_for(controller, lambda it: list(it.isr_nodes) == [controller])
            assert not await is_moving(cluster, controller)
            await cluster.brokers.start_broker(away)
            assert await wait_until_on(cluster, controller, tmp_path, controller, away) == controller
        assert_none_is_lost(acknowledged, await cluster.read(controller))
    found = logs(tmp_path)
    assert found[controller] == found[away] != b""
