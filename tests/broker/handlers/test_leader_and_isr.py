from pathlib import Path
from typing import Any

import trio

from ottla.broker.handlers import leader_and_isr, stop_replica, update_metadata
from ottla.broker.request_context import Deferred, RequestContext
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from ottla.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
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
        broker_epoch=lambda: broker.epoch,
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


async def test_what_was_meant_for_an_earlier_life_of_the_broker_is_refused(tmp_path: Path) -> None:
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
            stop, context(stop.api_key, 4), replicas=broker.replicas, broker_epoch=lambda: broker.epoch
        )
        assert isinstance(refused, StopReplicaResponse)
        assert refused.error_code == ErrorCode.STALE_BROKER_EPOCH


def update(broker: Broker, request: UpdateMetadataRequest, changed: Any = lambda topics: None) -> int:
    response = update_metadata.handle(
        request,
        context(request.api_key, 8),
        metadata=broker.metadata,
        replicas=broker.replicas,
        topic_configs=broker.topic_configs,
        broker_epoch=lambda: broker.epoch,
        changed=changed,
    )
    return response.error_code


async def test_what_a_former_controller_says_is_not_taken_in(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await with_topic(broker)
        request = last(broker, UpdateMetadataRequest)
        broker.replicas.controller_epoch = request.controller_epoch + 1
        request.controller_id = 77
        assert update(broker, request) == ErrorCode.STALE_CONTROLLER_EPOCH
        assert broker.metadata.controller_id == 0


async def test_who_waits_for_topics_is_told_which_changed(tmp_path: Path) -> None:
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
        with trio.fail_after(10):
            await wait_for(broker.controller.delete_topics(["t"], LONG_MS))
        assert broker.topic_configs.missing(["t"]) == ["t"]
