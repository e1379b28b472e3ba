"""Reassignments in a cluster without a network: znodes, requests, and directories."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from ottla.broker.handlers import alter_partition_reassignments
from ottla.broker.net.session import RequestContext
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.create_partitions import CreatePartitionsTopic
from ottla.wire.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.types import TopicPartition
from ottla.zk.znodes import (
    REASSIGN_PARTITIONS,
    PartitionState,
    ReplicaAssignment,
    TopicAssignment,
    decode_reassignments,
    delete_topic_path,
    encode_reassignments,
    partition_state_path,
    topic_path,
)
from tests.broker.controller.cluster import LONG_MS, Cluster, assigned_topic, running, settle, wait_for

P = TopicPartition("t", 0)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """The controller is broker 0; partition 0 is on 1 and 0, the other one on 0 alone."""
    async with running(tmp_path, 0, 1, 2) as cluster:
        new = assigned_topic("t", (1, 0), (0,))
        new.assignments[1].broker_ids = (0, 1)
        await wait_for(cluster.brokers[0].controller.create_topics([new], LONG_MS, validate_only=False))
        await settle()
        yield cluster


async def send(
    cluster: Cluster, *asked: tuple[str, int, Sequence[int] | None], controller: int = 0
) -> AlterPartitionReassignmentsResponse:
    """Send a request through the handler, as on the wire."""
    topics = [
        ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)])
        for name, index, replicas in asked
    ]
    request = AlterPartitionReassignmentsRequest(topics=topics)
    request = AlterPartitionReassignmentsRequest.decode(request.encode(0), 0)
    reply = alter_partition_reassignments.handle(
        request, RequestContext(request.api_key, 0), controller=cluster.brokers[controller].controller
    )
    response = await wait_for(reply)
    await settle()
    return AlterPartitionReassignmentsResponse.decode(response.encode(0), 0)


async def reassign(cluster: Cluster, *replicas: int, index: int = 0) -> None:
    response = await send(cluster, ("t", index, replicas))
    assert codes(response) == {("t", index): ErrorCode.NONE}


def codes(response: AlterPartitionReassignmentsResponse) -> dict[tuple[str, int], ErrorCode]:
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, "")
    return {
        (topic.name, each.partition_index): ErrorCode(each.error_code)
        for topic in response.responses
        for each in topic.partitions
    }


async def assignment(cluster: Cluster, partition: TopicPartition = P) -> ReplicaAssignment:
    data = await cluster.data(topic_path(partition.topic))
    assert data is not None
    return TopicAssignment.decode(data).partitions[partition.partition]


async def state_of(cluster: Cluster, partition: TopicPartition = P) -> PartitionState:
    data = await cluster.data(partition_state_path(partition))
    assert data is not None
    return PartitionState.decode(data, 0)


async def version_of_state(cluster: Cluster) -> int:
    session = cluster.store.session(lambda event: None)
    _, stat = await session.get(partition_state_path(P))
    await session.close()
    return stat.version


async def in_sync(cluster: Cluster, *isr: int, controller: int = 0) -> None:
    """Change the ISR, as the leader does."""
    on_controller = cluster.brokers[controller]
    known = on_controller.metadata.partition(*P)
    assert known is not None
    asked = PartitionData(
        partition_index=0,
        leader_epoch=known.leader_epoch,
        partition_epoch=known.partition_epoch,
        leader_recovery_state=0,
        new_isr=isr,
        new_isr_with_epochs=[BrokerState(broker_id=each) for each in isr],
    )
    request = AlterPartitionRequest(
        broker_id=known.leader,
        broker_epoch=cluster.brokers[known.leader].epoch,
        topics=[TopicData(topic_name="t", topic_id=on_controller.metadata.topic_id("t"), partitions=[asked])],
    )
    response = await wait_for(on_controller.controller.ask(request, 3))
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE
    await settle()


def directories(cluster: Cluster, partition: TopicPartition = P) -> list[int]:
    """The brokers that have a directory of a partition."""
    name = f"{partition.topic}-{partition.partition}"
    return [each for each in sorted(cluster.brokers) if (cluster.directory / f"broker-{each}" / name).exists()]


def moving(cluster: Cluster, controller: int = 0) -> dict[TopicPartition, ReplicaAssignment]:
    return cluster.brokers[controller].controller.reassignments()


async def test_new_replicas_start_and_the_leader_gets_the_new_assignment(cluster: Cluster) -> None:
    before = await state_of(cluster)
    await reassign(cluster, 1, 2)
    expected = ReplicaAssignment((1, 2, 0), (2,), (0,))
    assert await assignment(cluster) == expected
    assert moving(cluster) == {P: expected}
    assert await state_of(cluster) == before._replace(leader_epoch=before.leader_epoch + 1)
    assert directories(cluster) == [0, 1, 2]
    for broker_id in (0, 1, 2):
        told = cluster.brokers[broker_id].told_of_kind(LeaderAndIsrRequest)[-1].topic_states[0].partition_states[0]
        assert told.leader_epoch == before.leader_epoch + 1
        assert (told.replicas, told.adding_replicas, told.removing_replicas) == ((1, 2, 0), (2,), (0,))
        assert told.is_new is (broker_id == 2)


async def test_the_removed_replica_is_deleted_when_all_target_replicas_are_in_sync(cluster: Cluster) -> None:
    await reassign(cluster, 1, 2)
    await in_sync(cluster, 1, 0, 2)
    assert await assignment(cluster) == ReplicaAssignment((1, 2))
    assert moving(cluster) == {}
    state = await state_of(cluster)
    assert (state.leader, set(state.isr)) == (1, {1, 2})
    assert directories(cluster) == [1, 2]
    for broker in cluster.brokers.values():
        known = broker.metadata.partition(*P)
        assert known is not None
        assert (known.leader, set(known.isr), tuple(known.replicas)) == (1, {1, 2}, (1, 2))
    # The other partition has not changed.
    assert await assignment(cluster, TopicPartition("t", 1)) == ReplicaAssignment((0, 1))


async def test_a_reassignment_is_not_complete_without_one_target_replica_in_sync(cluster: Cluster) -> None:
    await reassign(cluster, 2, 1)
    await in_sync(cluster, 1)
    assert moving(cluster) != {}
    await in_sync(cluster, 1, 2)
    assert await assignment(cluster) == ReplicaAssignment((2, 1))


async def test_a_leader_that_is_removed_is_replaced_first(cluster: Cluster) -> None:
    await reassign(cluster, 2)
    assert (await state_of(cluster)).leader == 1
    await in_sync(cluster, 1, 0, 2)
    state = await state_of(cluster)
    assert (state.leader, state.isr) == (2, (2,))
    assert directories(cluster) == [2]


async def test_all_brokers_get_the_final_assignment_with_an_added_replica(cluster: Cluster) -> None:
    await reassign(cluster, 1, 0, 2)
    await in_sync(cluster, 1, 0, 2)
    assert await assignment(cluster) == ReplicaAssignment((1, 0, 2))
    for broker in cluster.brokers.values():
        told = broker.told_of_kind(LeaderAndIsrRequest)[-1].topic_states[0].partition_states[0]
        assert (told.replicas, told.adding_replicas, told.removing_replicas) == ((1, 0, 2), (), ())
        assert told.leader_epoch == (await state_of(cluster)).leader_epoch


async def test_a_reassignment_to_fewer_replicas_is_complete_at_once(cluster: Cluster) -> None:
    await reassign(cluster, 0, 1)
    await in_sync(cluster, 1, 0)
    await reassign(cluster, 0)
    assert await assignment(cluster) == ReplicaAssignment((0,))
    state = await state_of(cluster)
    assert (state.leader, state.isr) == (0, (0,))
    assert directories(cluster) == [0]


async def test_a_cancelled_reassignment_restores_the_old_replicas(cluster: Cluster) -> None:
    await reassign(cluster, 2, 0)
    assert directories(cluster) == [0, 1, 2]
    assert codes(await send(cluster, ("t", 0, None))) == {("t", 0): ErrorCode.NONE}
    assert set((await assignment(cluster)).replicas) == {0, 1}
    assert not (await assignment(cluster)).is_changing
    assert moving(cluster) == {}
    assert (await state_of(cluster)).leader == 1
    assert directories(cluster) == [0, 1]
    assert codes(await send(cluster, ("t", 0, None))) == {("t", 0): ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}


async def test_a_replica_that_joined_the_isr_leaves_it_when_the_reassignment_is_cancelled(cluster: Cluster) -> None:
    await cluster.start_broker(3)
    await settle()
    await reassign(cluster, 2, 3)
    await in_sync(cluster, 1, 0, 2)
    await send(cluster, ("t", 0, None))
    state = await state_of(cluster)
    assert (state.leader, set(state.isr)) == (1, {0, 1})
    assert directories(cluster) == [0, 1]


async def test_a_second_reassignment_replaces_the_first(cluster: Cluster) -> None:
    await cluster.start_broker(3)
    await settle()
    await reassign(cluster, 1, 2)
    await reassign(cluster, 1, 3)
    assert await assignment(cluster) == ReplicaAssignment((1, 3, 0), (3,), (0,))
    assert directories(cluster) == [0, 1, 3]
    await in_sync(cluster, 1, 0, 3)
    assert await assignment(cluster) == ReplicaAssignment((1, 3))
    assert directories(cluster) == [1, 3]


async def test_a_replica_may_return_to_its_old_broker(cluster: Cluster) -> None:
    await reassign(cluster, 1, 2)
    await in_sync(cluster, 1, 0, 2)
    await reassign(cluster, 1, 0)
    await in_sync(cluster, 1, 2, 0)
    assert await assignment(cluster) == ReplicaAssignment((1, 0))
    assert directories(cluster) == [0, 1]


async def test_a_new_controller_continues_a_reassignment(cluster: Cluster) -> None:
    await reassign(cluster, 1, 2)
    await cluster.kill_broker(0)
    (after,) = [each for each in cluster.brokers if cluster.brokers[each].controller.is_active]
    assert moving(cluster, after) == {P: ReplicaAssignment((1, 2, 0), (2,), (0,))}
    await in_sync(cluster, 1, 2, controller=after)
    assert await assignment(cluster) == ReplicaAssignment((1, 2))
    assert directories(cluster) == [1, 2]


async def test_a_new_controller_finishes_a_reassignment_whose_replicas_are_in_sync(tmp_path: Path) -> None:
    """All replicas are in sync in the znode when the controller fails."""
    async with running(tmp_path, 0, 1, 2) as cluster:
        new = assigned_topic("t", (1, 0))
        await wait_for(cluster.brokers[0].controller.create_topics([new], LONG_MS, validate_only=False))
        await reassign(cluster, 1, 2)
        session = cluster.store.session(lambda event: None)
        state = (await state_of(cluster))._replace(isr=(1, 0, 2))
        await session.set(partition_state_path(P), state.encode())
        await session.close()
        await cluster.kill_broker(0)
        assert await assignment(cluster) == ReplicaAssignment((1, 2))
        # Broker 0 is offline; its directory does not count.
        assert directories(cluster) == [1, 2]


async def test_a_restarted_broker_gets_its_new_replica_again(cluster: Cluster) -> None:
    await reassign(cluster, 1, 2)
    await cluster.kill_broker(2)
    assert moving(cluster) != {}
    back = await cluster.start_broker(2)
    await settle()
    assert any(
        each.is_new
        for request in back.told_of_kind(LeaderAndIsrRequest)
        for each in request.topic_states[0].partition_states
    )
    await in_sync(cluster, 1, 0, 2)
    assert await assignment(cluster) == ReplicaAssignment((1, 2))


async def test_a_reassignment_waits_for_a_target_replica_that_can_lead(cluster: Cluster) -> None:
    await reassign(cluster, 2)
    await in_sync(cluster, 1)
    await cluster.kill_broker(1)
    assert (await state_of(cluster)).leader == -1
    # Broker 1 is the only one in sync, so it stays until the target replica has all records.
    assert codes(await send(cluster, ("t", 0, (0,)))) == {("t", 0): ErrorCode.NONE}
    assert (await assignment(cluster)).removing == (1,)
    await cluster.start_broker(1)
    await settle()
    assert (await state_of(cluster)).leader == 1
    await in_sync(cluster, 1, 0)
    assert await assignment(cluster) == ReplicaAssignment((0,))


async def test_a_deletion_waits_for_a_reassignment(cluster: Cluster) -> None:
    await reassign(cluster, 1, 2)
    reply = cluster.brokers[0].controller.delete_topics(["t"], LONG_MS)
    await settle()
    assert not reply.done
    await cluster.kill_broker(2)
    await cluster.start_broker(2)
    await settle()
    assert not reply.done
    assert await cluster.data(topic_path("t")) is not None
    assert codes(await send(cluster, ("t", 0, (1, 0)), ("t", 1, None))) == {
        ("t", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("t", 1): ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    }
    on_controller = cluster.brokers[0].controller
    request = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=cluster.brokers[1].epoch,
        topics=[
            TopicData(
                topic_name="t",
                partitions=[
                    PartitionData(
                        partition_index=0,
                        leader_epoch=(await state_of(cluster)).leader_epoch,
                        partition_epoch=await version_of_state(cluster),
                        new_isr=(1, 0, 2),
                    )
                ],
            )
        ],
    )
    await wait_for(on_controller.ask(request, 1))
    await settle()
    assert await wait_for(reply) == {"t": ErrorCode.NONE}
    assert await cluster.data(topic_path("t")) is None
    assert await cluster.data(delete_topic_path("t")) is None
    assert directories(cluster) == []


async def write_wanted(cluster: Cluster, data: bytes) -> None:
    session = cluster.store.session(lambda event: None)
    if await session.exists(REASSIGN_PARTITIONS) is None:
        await session.create(REASSIGN_PARTITIONS, data)
    else:
        await session.set(REASSIGN_PARTITIONS, data)
    await session.close()
    await settle()


async def wanted(cluster: Cluster) -> dict[TopicPartition, tuple[int, ...]] | None:
    data = await cluster.data(REASSIGN_PARTITIONS)
    return None if data is None else decode_reassignments(data)


OTHER = TopicPartition("t", 1)


async def test_reassignments_of_old_tools_are_done_and_removed_from_the_znode(cluster: Cluster) -> None:
    for _ in range(2):
        await write_wanted(
            cluster,
            b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]},'
            b'{"topic":"t","partition":1,"replicas":[1,0]},{"topic":"no","partition":0,"replicas":[1]},'
            b'{"topic":"t","partition":0,"replicas":[1,2]}]}',
        )
        assert await wanted(cluster) == {P: (1, 2)}
        assert moving(cluster) == {P: ReplicaAssignment((1, 2, 0), (2,), (0,))}
        assert await assignment(cluster, OTHER) == ReplicaAssignment((1, 0))
        await in_sync(cluster, 1, 0, 2)
        assert await assignment(cluster) == ReplicaAssignment((1, 2))
        assert await wanted(cluster) is None
        # Again, now that the znode was deleted.
        await write_wanted(cluster, encode_reassignments({P: (1, 0)}))
        await in_sync(cluster, 1, 2, 0)
        assert await assignment(cluster) == ReplicaAssignment((1, 0))


async def test_old_tools_may_write_more_while_a_reassignment_is_under_way(cluster: Cluster) -> None:
    await write_wanted(cluster, encode_reassignments({P: (1, 2)}))
    epoch = (await state_of(cluster)).leader_epoch
    await write_wanted(cluster, encode_reassignments({P: (1, 2), OTHER: (0, 9)}))
    # The first reassignment is not disturbed; the second waits for its offline broker.
    assert (await state_of(cluster)).leader_epoch == epoch
    assert moving(cluster)[OTHER] == ReplicaAssignment((0, 9, 1), (9,), (1,))
    await write_wanted(cluster, encode_reassignments({OTHER: (0, 2)}))
    assert moving(cluster)[OTHER] == ReplicaAssignment((0, 2, 1), (2,), (1,))


async def test_a_request_replaces_the_reassignment_of_an_old_tool(cluster: Cluster) -> None:
    await write_wanted(cluster, encode_reassignments({P: (1, 2), OTHER: (0, 2)}))
    await send(cluster, ("t", 0, None))
    assert await wanted(cluster) == {OTHER: (0, 2)}
    assert moving(cluster).keys() == {OTHER}
    assert directories(cluster) == [0, 1]


async def test_a_new_controller_continues_the_reassignments_of_old_tools(cluster: Cluster) -> None:
    await write_wanted(cluster, encode_reassignments({P: (1, 2)}))
    before = (await state_of(cluster)).leader_epoch
    await cluster.kill_broker(0)
    (after,) = [each for each in cluster.brokers if cluster.brokers[each].controller.is_active]
    assert moving(cluster, after).keys() == {P}
    # One epoch because broker 0 left the ISR, one because the reassignment was continued.
    assert (await state_of(cluster)).leader_epoch <= before + 2
    await in_sync(cluster, 1, 2, controller=after)
    assert await wanted(cluster) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"partitions":[1]}',
        b'{"partitions":[{"topic":"t","partition":0,"replicas":["1"]}]}',
        b'{"partitions":[{"topic":"t","partition":0,"replicas":[true]}]}',
        b'{"partitions":[{"topic":"t","partition":"0","replicas":[1]}]}',
        b'{"partitions":[{"partition":0,"replicas":[1]}]}',
    ],
)
async def test_an_unreadable_reassignment_of_an_old_tool_changes_nothing(cluster: Cluster, data: bytes) -> None:
    await write_wanted(cluster, data)
    assert moving(cluster) == {}
    assert await cluster.data(REASSIGN_PARTITIONS) == data
    # Other reassignments are not disturbed.
    await reassign(cluster, 1, 2)
    await in_sync(cluster, 1, 0, 2)
    assert await assignment(cluster) == ReplicaAssignment((1, 2))
    await write_wanted(cluster, encode_reassignments({P: (1, 0)}))
    assert moving(cluster).keys() == {P}


async def test_a_topic_gets_no_partitions_during_a_reassignment(cluster: Cluster) -> None:
    await reassign(cluster, 1, 2)
    controller = cluster.brokers[0].controller
    more = CreatePartitionsTopic(name="t", count=3, assignments=None)
    outcome = (await wait_for(controller.create_partitions([more], LONG_MS, validate_only=False)))["t"]
    assert outcome.error.code is ErrorCode.REASSIGNMENT_IN_PROGRESS


async def test_a_partition_that_a_tool_adds_meanwhile_is_kept(cluster: Cluster) -> None:
    """Reassign two partitions of one topic at once, after a tool added a third one."""
    session = cluster.store.session(lambda event: None)
    data, _ = await session.get(topic_path("t"))
    found = TopicAssignment.decode(data)
    more = found._replace(partitions={**found.partitions, 2: ReplicaAssignment((2,))})
    await session.set(topic_path("t"), more.encode())
    await session.close()
    await send(cluster, ("t", 0, (1, 2)), ("t", 1, (1, 0)))
    assert await assignment(cluster, TopicPartition("t", 2)) == ReplicaAssignment((2,))
    assert await assignment(cluster, TopicPartition("t", 1)) == ReplicaAssignment((1, 0))
    assert (await state_of(cluster, TopicPartition("t", 2))).leader == 2


async def test_each_partition_has_its_own_error(cluster: Cluster) -> None:
    told = [each.told[:] for each in cluster.brokers.values()]
    response = await send(cluster, ("t", 0, (1, 9)), ("no", 0, (1,)), ("t", 1, None))
    assert codes(response) == {
        ("t", 0): ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ("no", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("t", 1): ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    }
    messages = [each.error_message for topic in response.responses for each in topic.partitions]
    assert "Replica list: 9, live broker list: 0, 1, 2" in (messages[0] or "")
    assert [each.told for each in cluster.brokers.values()] == told


async def test_only_the_controller_reassigns(cluster: Cluster) -> None:
    response = await send(cluster, ("t", 0, (1, 2)), controller=1)
    assert (response.error_code, response.responses) == (ErrorCode.NOT_CONTROLLER, ())
    assert response.error_message == "This is not the correct controller for this cluster."
    assert await assignment(cluster) == ReplicaAssignment((1, 0))


def test_an_error_of_the_whole_request_is_that_of_every_partition() -> None:
    one = ReassignablePartition(partition_index=3, replicas=None)
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=[one])])
    failed = alter_partition_reassignments.error_response(request, 0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert failed.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert failed.responses[0].partitions[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
