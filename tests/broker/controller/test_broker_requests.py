"""Requests of brokers to the controller, through their handlers, in a cluster without a network."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.handlers import allocate_producer_ids, alter_partition, controlled_shutdown
from ottla.broker.net.session import RequestContext
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)
from ottla.wire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from ottla.wire.messages.stop_replica import StopReplicaRequest
from ottla.wire.messages.update_metadata import UpdateMetadataRequest
from ottla.wire.types import TopicPartition
from ottla.zk.znodes import PartitionState, partition_state_path
from tests.broker.controller.cluster import LONG_MS, Broker, Cluster, assigned_topic, running, settle, wait_for

LATEST = 3
P = TopicPartition("t", 0)
HANDLERS: dict[type, Any] = {
    AlterPartitionRequest: alter_partition,
    ControlledShutdownRequest: controlled_shutdown,
    AllocateProducerIdsRequest: allocate_producer_ids,
}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running(tmp_path, 0, 1, 2) as cluster:
        await create(cluster, "t", (1, 0, 2), (2, 1, 0))
        yield cluster


async def create(cluster: Cluster, name: str, *replicas: tuple[int, ...]) -> None:
    controller = cluster.brokers[0].controller
    await wait_for(controller.create_topics([assigned_topic(name, *replicas)], LONG_MS, validate_only=False))
    await settle()


async def state_of(cluster: Cluster, partition: TopicPartition = P) -> PartitionState:
    data = await cluster.data(partition_state_path(partition))
    assert data is not None
    return PartitionState.decode(data, 0)._replace(version=0)


async def ask(broker: Broker, request: Any, version: int) -> Any:
    """Send a request through the handler. As on the wire, only the fields of the version arrive."""
    asked = type(request).decode(request.encode(version), version)
    handler = HANDLERS[type(request)]
    response = await wait_for(
        handler.handle(asked, RequestContext(request.api_key, version), controller=broker.controller)
    )
    await settle()
    return type(response).decode(response.encode(version), version)


async def alter(
    cluster: Cluster, *isr: int, version: int = LATEST, broker_id: int = 1, controller: int = 0, **others: Any
) -> AlterPartitionResponse:
    """Request in-sync replicas of the first partition."""
    given: dict[str, Any] = {"epoch": cluster.brokers[broker_id].epoch, "topic_id": None, "index": 0, **others}
    topic_id = cluster.brokers[0].metadata.topic_id("t") if given["topic_id"] is None else given["topic_id"]
    asked = PartitionData(
        partition_index=given["index"],
        leader_epoch=given.get("leader_epoch", 0),
        partition_epoch=given.get("partition_epoch", 0),
        leader_recovery_state=given.get("recovery", 0),
        new_isr=isr,
        new_isr_with_epochs=[BrokerState(broker_id=each) for each in isr],
    )
    request = AlterPartitionRequest(
        broker_id=broker_id,
        broker_epoch=given["epoch"],
        topics=[TopicData(topic_name=given.get("name", "t"), topic_id=topic_id, partitions=[asked])],
    )
    response = await ask(cluster.brokers[controller], request, version)
    assert isinstance(response, AlterPartitionResponse)
    return response


def code(response: AlterPartitionResponse) -> ErrorCode:
    assert response.error_code == ErrorCode.NONE
    return ErrorCode(response.topics[0].partitions[0].error_code)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_in_sync_replicas_are_written_and_sent_to_all_brokers(cluster: Cluster, version: int) -> None:
    before = {each.broker_id: len(each.told_of_kind(UpdateMetadataRequest)) for each in cluster.brokers.values()}
    response = await alter(cluster, 1, 0, version=version)
    (topic,) = response.topics
    assert (topic.topic_name == "t") is (version < 2)
    (result,) = topic.partitions
    assert result.error_code == ErrorCode.NONE
    assert (result.leader_id, result.leader_epoch, list(result.isr), result.partition_epoch) == (1, 0, [1, 0], 1)
    assert await state_of(cluster) == PartitionState(1, 0, (1, 0), 1)
    for broker in cluster.brokers.values():
        known = broker.metadata.partition("t", 0)
        assert known is not None
        assert (known.isr, known.partition_epoch) == ((1, 0), 1)
        assert len(broker.told_of_kind(UpdateMetadataRequest)) == before[broker.broker_id] + 1


async def test_a_repeated_request_gets_the_same_response(cluster: Cluster) -> None:
    await alter(cluster, 1, 0)
    response = await alter(cluster, 1, 0)
    assert code(response) is ErrorCode.NONE
    assert response.topics[0].partitions[0].partition_epoch == 1


@pytest.mark.parametrize(
    ("isr", "others", "expected"),
    [
        ((1, 0), {"partition_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ((1, 0), {"leader_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ((1, 0), {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ((1, 0), {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        ((1, 0), {"recovery": 1}, ErrorCode.INVALID_REQUEST),
        ((1,), {"recovery": 1}, ErrorCode.INVALID_REQUEST),
        ((1,), {"recovery": 9}, ErrorCode.INVALID_REQUEST),
        ((0, 2), {}, ErrorCode.INVALID_REQUEST),
        ((), {}, ErrorCode.INVALID_REQUEST),
        ((1, 1), {}, ErrorCode.INVALID_REQUEST),
        ((1, 7), {}, ErrorCode.INVALID_REQUEST),
        ((1, 0), {"broker_id": 0}, ErrorCode.INVALID_REQUEST),
        ((1, 0), {"index": 9}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((1, 0), {"topic_id": bytes(15) + b"x"}, ErrorCode.UNKNOWN_TOPIC_ID),
        ((1, 0), {"name": "../t", "version": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_an_invalid_isr_is_refused_and_changes_nothing(
    cluster: Cluster, isr: Sequence[int], others: dict[str, Any], expected: ErrorCode
) -> None:
    before = await state_of(cluster)
    assert code(await alter(cluster, *isr, **others)) is expected
    assert await state_of(cluster) == before


@pytest.mark.parametrize("epoch", [-1, 0, 1 << 40])
async def test_a_request_with_another_broker_epoch_is_refused(cluster: Cluster, epoch: int) -> None:
    assert (await alter(cluster, 1, 0, epoch=epoch)).error_code == ErrorCode.STALE_BROKER_EPOCH
    producers = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
    assert (await ask(cluster.brokers[0], producers, 0)).error_code == ErrorCode.STALE_BROKER_EPOCH


async def test_only_the_active_controller_serves_brokers(cluster: Cluster) -> None:
    assert (await alter(cluster, 1, 0, controller=1)).error_code == ErrorCode.NOT_CONTROLLER
    other = cluster.brokers[1]
    shutdown = await ask(other, ControlledShutdownRequest(broker_id=2), LATEST)
    assert shutdown.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    producers = await ask(other, AllocateProducerIdsRequest(broker_id=2), 0)
    assert producers.error_code == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize(
    ("version", "expected"), [(1, ErrorCode.OPERATION_NOT_ATTEMPTED), (2, ErrorCode.INELIGIBLE_REPLICA)]
)
async def test_a_broker_that_shuts_down_joins_no_isr(cluster: Cluster, version: int, expected: ErrorCode) -> None:
    await alter(cluster, 1, 0)
    await ask(cluster.brokers[0], ControlledShutdownRequest(broker_id=2), LATEST)
    state = await state_of(cluster)
    response = await alter(cluster, 1, 0, 2, version=version, leader_epoch=state.leader_epoch, partition_epoch=1)
    assert code(response) is expected


async def test_a_state_that_another_controller_wrote_is_not_overwritten(cluster: Cluster) -> None:
    tool = cluster.store.session(lambda event: None)
    path = partition_state_path(P)
    await tool.set(path, (await tool.get(path))[0])
    assert code(await alter(cluster, 1, 0)) is ErrorCode.INVALID_UPDATE_VERSION
    assert (await state_of(cluster)).isr == (1, 0, 2)


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_a_broker_that_shuts_down_leads_and_follows_nothing_any_more(cluster: Cluster, version: int) -> None:
    goer = cluster.brokers[1]
    await create(cluster, "alone", (1,))
    epoch = goer.epoch if version >= 2 else -1
    response = await ask(cluster.brokers[0], ControlledShutdownRequest(broker_id=1, broker_epoch=epoch), version)
    assert isinstance(response, ControlledShutdownResponse)
    assert (response.error_code, list(response.remaining_partitions)) == (ErrorCode.NONE, [])
    first, second = await state_of(cluster), await state_of(cluster, TopicPartition("t", 1))
    assert (first.leader, first.isr, first.leader_epoch) == (0, (0, 2), 1)
    assert (second.leader, second.isr, second.leader_epoch) == (2, (2, 0), 1)
    assert (await state_of(cluster, TopicPartition("alone", 0))).leader == 1
    stopped = [
        (topic.topic_name, each.partition_index, each.delete_partition)
        for request in goer.told_of_kind(StopReplicaRequest)
        for topic in request.topic_states
        for each in topic.partition_states
    ]
    assert set(stopped) == {("t", 1, False)}
    assert cluster.brokers[0].replicas.partition("t", 0).is_leader


async def test_a_controlled_shutdown_returns_the_partitions_that_have_no_other_leader(cluster: Cluster) -> None:
    await alter(cluster, 1)
    response = await ask(cluster.brokers[0], ControlledShutdownRequest(broker_id=1), LATEST)
    (remaining,) = response.remaining_partitions
    assert (remaining.topic_name, remaining.partition_index) == ("t", 0)
    assert (await state_of(cluster)).leader == 1
    await cluster.kill_broker(1)
    assert (await state_of(cluster)).leader == -1


async def test_a_controlled_shutdown_of_an_unknown_or_stale_broker_is_refused(cluster: Cluster) -> None:
    controller = cluster.brokers[0]
    unknown = await ask(controller, ControlledShutdownRequest(broker_id=9), LATEST)
    assert unknown.error_code == ErrorCode.BROKER_NOT_AVAILABLE
    old = await ask(controller, ControlledShutdownRequest(broker_id=1, broker_epoch=0), LATEST)
    assert old.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert (await state_of(cluster)).leader == 1


async def test_a_broker_that_restarted_after_a_controlled_shutdown_joins_the_isr(cluster: Cluster) -> None:
    await ask(cluster.brokers[0], ControlledShutdownRequest(broker_id=1), LATEST)
    await cluster.kill_broker(1)
    await cluster.start_broker(1)
    await settle()
    response = await alter(cluster, 0, 2, 1, broker_id=0, leader_epoch=1, partition_epoch=1)
    assert code(response) is ErrorCode.NONE


async def test_each_block_of_producer_ids_goes_to_one_broker(cluster: Cluster) -> None:
    blocks = []
    for broker_id in (1, 2, 1):
        request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=cluster.brokers[broker_id].epoch)
        response = await ask(cluster.brokers[0], request, 0)
        assert isinstance(response, AllocateProducerIdsResponse)
        blocks.append((response.error_code, response.producer_id_start, response.producer_id_len))
    assert blocks == [(ErrorCode.NONE, 0, 1000), (ErrorCode.NONE, 1000, 1000), (ErrorCode.NONE, 2000, 1000)]
    unknown = await ask(cluster.brokers[0], AllocateProducerIdsRequest(broker_id=9), 0)
    assert unknown.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
