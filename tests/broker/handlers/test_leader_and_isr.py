from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.broker.handlers import leader_and_isr, stop_replica, update_metadata
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from ottla.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from ottla.wire.messages.update_metadata import UpdateMetadataRequest
from tests.broker.controller.cluster import LONG_MS, Broker, running, topic, wait_for


async def with_topic(broker: Broker, name: str = "t") -> None:
    request = [topic(name, 1, retention_ms="1234")]
    await wait_for(broker.controller.create_topics(request, LONG_MS, validate_only=False))


def context(key: int, version: int) -> RequestContext:
    return RequestContext(key, version)


def last(broker: Broker, kind: type[Any]) -> Any:
    return broker.told_of_kind(kind)[-1]


def lead(broker: Broker, request: LeaderAndIsrRequest, version: int = 7) -> Any:
    return leader_and_isr.handle(
        request,
        context(request.api_key, version),
        replicas=broker.replicas,
        topic_configs=broker.topic_configs,
        fence=broker.parts.fence,
    )


async def test_configs_are_read_before_a_log_is_made_with_them(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await with_topic(broker)
        request = last(broker, LeaderAndIsrRequest)
        broker.topic_configs.forget(["t"])
        assert broker.topic_configs.get("t") == {}
        reply = lead(broker, request)
        assert isinstance(reply, Deferred)
        assert (await wait_for(reply)).error_code == ErrorCode.NONE
        assert broker.topic_configs.get("t") == {"retention.ms": "1234"}
        assert (await wait_for(lead(broker, request))).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", list(LeaderAndIsrRequest.versions))
async def test_roles_are_taken_in_every_version_with_the_configs_of_their_topics(version: int, tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await with_topic(broker)
        grouped = last(broker, LeaderAndIsrRequest)
        (of_topic,) = grouped.topic_states
        (state,) = of_topic.partition_states
        state.leader_epoch += 1
        state.topic_name = "t"
        broker.topic_configs.forget(["t"])
        if version < 2:
            grouped.topic_states, grouped.ungrouped_partition_states = (), [state]
        request = LeaderAndIsrRequest.decode(grouped.encode(version), version)
        reply = await wait_for(lead(broker, request, version))
        response = LeaderAndIsrResponse.decode(reply.encode(version), version)
        if version < 5:
            (error,) = response.partition_errors
            assert (error.topic_name, error.partition_index) == ("t", 0)
        else:
            assert [each.topic_id for each in response.topics] == [of_topic.topic_id]
            (error,) = response.topics[0].partition_errors
        assert (response.error_code, error.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
        assert broker.replicas.partitions["t", 0].leader_epoch == 1
        assert broker.topic_configs.get("t") == {"retention.ms": "1234"}
        # The same request again: its leader epoch is not newer.
        again = await wait_for(lead(broker, request, version))
        assert again.partition_errors[0].error_code == ErrorCode.STALE_CONTROLLER_EPOCH


@pytest.mark.parametrize("version", list(LeaderAndIsrRequest.versions))
async def test_a_former_controller_gives_no_role_and_gets_an_error_for_each_partition(
    version: int, tmp_path: Path
) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await with_topic(broker)
        request = last(broker, LeaderAndIsrRequest)
        (state,) = request.topic_states[0].partition_states
        state.leader_epoch += 1
        broker.parts.fence.controller_epoch = request.controller_epoch + 1
        if version < 2:
            state.topic_name = "t"
            request.topic_states, request.ungrouped_partition_states = (), [state]
        reply = lead(broker, request, version)
        assert isinstance(reply, LeaderAndIsrResponse)
        response = LeaderAndIsrResponse.decode(reply.encode(version), version)
        errors = [*response.partition_errors, *(each for topic in response.topics for each in topic.partition_errors)]
        assert {response.error_code, *(each.error_code for each in errors)} == {ErrorCode.STALE_CONTROLLER_EPOCH}
        assert [each.partition_index for each in errors] == [0]
        assert broker.replicas.partitions["t", 0].leader_epoch == 0


async def test_names_that_no_topic_may_have_are_refused_and_the_others_served(tmp_path: Path) -> None:
    (tmp_path / "brokers").mkdir()
    async with running(tmp_path / "brokers", 0) as cluster:
        broker = cluster.brokers[0]
        state = LeaderAndIsrPartitionState(
            partition_index=0, controller_epoch=1, leader=0, leader_epoch=0, isr=[0], partition_epoch=0, replicas=[0]
        )
        names = ("fine", str(tmp_path / "evil"), "../../evil", "a/b", "nul\0", "")
        request = LeaderAndIsrRequest(
            controller_id=0,
            controller_epoch=1,
            topic_states=[
                LeaderAndIsrTopicState(topic_name=name, topic_id=bytes([number]) * 16, partition_states=[state])
                for number, name in enumerate(names, 1)
            ],
            live_leaders=(),
        )
        response = await wait_for(lead(broker, request))
        assert [each.partition_errors[0].error_code for each in response.topics] == [
            ErrorCode.NONE,
            *[ErrorCode.INVALID_TOPIC_EXCEPTION] * 5,
        ]
        assert list(broker.replicas.partitions) == [("fine", 0)]
        assert broker.topic_configs.missing(names) == list(names[1:])
        assert [each.name for each in tmp_path.iterdir()] == ["brokers"]


@pytest.mark.parametrize("version", list(StopReplicaRequest.versions))
async def test_replicas_are_stopped_and_deleted_in_every_version(version: int, tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await with_topic(broker)
        request = StopReplicaRequest(
            controller_id=0,
            controller_epoch=1,
            broker_epoch=broker.epoch,
            delete_partitions=version < 3,
            ungrouped_partitions=[StopReplicaPartitionV0(topic_name="t", partition_index=0)] if version < 1 else (),
            topics=[StopReplicaTopicV1(name="t", partition_indexes=[0])] if 1 <= version < 3 else (),
            topic_states=[
                StopReplicaTopicState(
                    topic_name="t",
                    partition_states=[
                        StopReplicaPartitionState(partition_index=0, leader_epoch=-2, delete_partition=True)
                    ],
                )
            ]
            if version >= 3
            else (),
        )
        request = StopReplicaRequest.decode(request.encode(version), version)
        denied = stop_replica.error_response(request, version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        assert [(each.topic_name, each.partition_index) for each in denied.partition_errors] == [("t", 0)]
        assert denied.partition_errors[0].error_code == denied.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        reply = stop_replica.handle(
            request, context(request.api_key, version), replicas=broker.replicas, fence=broker.parts.fence
        )
        response = await wait_for(reply)
        assert [each.error_code for each in response.partition_errors] == [ErrorCode.NONE]
        assert not broker.replicas.partitions


@pytest.mark.parametrize("version", list(UpdateMetadataRequest.versions))
async def test_metadata_is_updated_and_returned_in_every_version(version: int, tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await with_topic(broker)
        request = last(broker, UpdateMetadataRequest)
        (of_topic,) = request.topic_states
        (state,) = of_topic.partition_states
        state.leader_epoch = 77
        state.topic_name = "t"
        (live,) = request.live_brokers
        if version < 5:
            request.topic_states, request.ungrouped_partition_states = (), [state]
        if version == 0:
            live.v0_host, live.v0_port = "host0", 9092
        changed: list[Any] = []
        decoded = UpdateMetadataRequest.decode(request.encode(version), version)
        assert update(broker, decoded, changed.append) == ErrorCode.NONE
        assert changed == [{"t"}]
        found = broker.metadata.partition("t", 0)
        assert found is not None
        assert found.leader_epoch == 77
        assert broker.metadata.node(0, "PLAINTEXT") == (0, "host0", 9092, "" if version < 2 else None)


async def test_a_request_for_an_earlier_life_of_the_broker_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await with_topic(broker)
        for kind in (LeaderAndIsrRequest, UpdateMetadataRequest):
            last(broker, kind).broker_epoch = broker.epoch - 1
        response = lead(broker, last(broker, LeaderAndIsrRequest))
        assert response.error_code == ErrorCode.STALE_BROKER_EPOCH
        assert [each.error_code for each in response.topics[0].partition_errors] == [ErrorCode.STALE_BROKER_EPOCH]
        assert len(response.encode(4)) > len(LeaderAndIsrResponse(error_code=0).encode(4))
        assert update(broker, last(broker, UpdateMetadataRequest)) == ErrorCode.STALE_BROKER_EPOCH
        stop = StopReplicaRequest(controller_id=0, controller_epoch=1, broker_epoch=broker.epoch - 1)
        refused = stop_replica.handle(
            stop, context(stop.api_key, 4), replicas=broker.replicas, fence=broker.parts.fence
        )
        assert isinstance(refused, StopReplicaResponse)
        assert (refused.error_code, refused.partition_errors) == (ErrorCode.STALE_BROKER_EPOCH, ())


def update(broker: Broker, request: UpdateMetadataRequest, changed: Any = lambda topics: None) -> int:
    response = update_metadata.handle(
        request,
        context(request.api_key, 8),
        metadata=broker.metadata,
        topic_configs=broker.topic_configs,
        fence=broker.parts.fence,
        changed=changed,
    )
    return response.error_code


async def test_metadata_of_a_former_controller_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await with_topic(broker)
        request = last(broker, UpdateMetadataRequest)
        broker.parts.fence.controller_epoch = request.controller_epoch + 1
        request.controller_id = 77
        assert update(broker, request) == ErrorCode.STALE_CONTROLLER_EPOCH
        assert broker.metadata.controller_id == 0


async def test_changed_is_called_with_the_topics_of_the_request(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await with_topic(broker)
        changed: list[Any] = []
        assert update(broker, last(broker, UpdateMetadataRequest), changed.append) == ErrorCode.NONE
        assert changed == [{"t"}]


async def test_configs_of_a_topic_that_is_gone_are_forgotten(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await with_topic(broker)
        assert broker.topic_configs.missing(["t"]) == []
        with trio.fail_after(120):
            await wait_for(broker.controller.delete_topics(["t"], LONG_MS))
        assert broker.topic_configs.missing(["t"]) == ["t"]
