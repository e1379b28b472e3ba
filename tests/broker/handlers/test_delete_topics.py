from pathlib import Path

import pytest

from ottla.broker.handlers import delete_topics
from ottla.broker.net.session import RequestContext
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.types import ZERO_UUID
from tests.broker.controller.cluster import LONG_MS, Broker, running, settle, topic, wait_for

LATEST = 6
UNKNOWN_ID = b"\7" * 16


def by_name(*names: str | None, version: int = LATEST, timeout_ms: int = LONG_MS) -> DeleteTopicsRequest:
    if version < 6:
        return DeleteTopicsRequest(topic_names=[name or "" for name in names], timeout_ms=timeout_ms)
    topics = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names]
    return DeleteTopicsRequest(topics=topics, timeout_ms=timeout_ms)


async def delete(
    broker: Broker, request: DeleteTopicsRequest, version: int = LATEST, *, enable: bool = True
) -> list[tuple[str | None, bytes, int]]:
    request = DeleteTopicsRequest.decode(request.encode(version), version)
    context = RequestContext(ApiKey.DELETE_TOPICS, version)
    reply = delete_topics.handle(
        request, context, controller=broker.controller, metadata=broker.metadata, delete_topic_enable=enable
    )
    response: DeleteTopicsResponse = await wait_for(reply)
    response = DeleteTopicsResponse.decode(response.encode(version), version)
    return [(result.name, result.topic_id, result.error_code) for result in response.responses]


async def create(broker: Broker, *names: str) -> None:
    request = [topic(name) for name in names]
    await wait_for(broker.controller.create_topics(request, LONG_MS, validate_only=False))


@pytest.mark.parametrize("version", range(1, LATEST + 1))
async def test_topics_are_deleted_by_name_in_every_version(tmp_path: Path, version: int) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t", "stays")
        assert await delete(broker, by_name("t", "unknown", "bad name", version=version), version) == [
            ("t", ZERO_UUID, ErrorCode.NONE),
            ("unknown", ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("bad name", ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert list(broker.metadata.topics) == ["stays"]


async def test_topics_are_deleted_by_id(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t")
        topic_id = broker.metadata.topic_id("t")
        topics = [DeleteTopicState(topic_id=topic_id), DeleteTopicState(topic_id=UNKNOWN_ID)]
        assert await delete(broker, DeleteTopicsRequest(topics=topics, timeout_ms=LONG_MS)) == [
            ("t", topic_id, ErrorCode.NONE),
            (None, UNKNOWN_ID, ErrorCode.UNKNOWN_TOPIC_ID),
        ]
        assert not broker.metadata.contains("t")


async def test_a_topic_named_twice_is_answered_twice_alike(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t")
        assert [code for _, _, code in await delete(broker, by_name("t", "t"))] == [ErrorCode.NONE, ErrorCode.NONE]


async def test_a_name_and_an_id_exclude_each_other(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t")
        both = [DeleteTopicState(name="t", topic_id=UNKNOWN_ID)]
        with pytest.raises(KafkaError) as caught:
            await delete(broker, DeleteTopicsRequest(topics=both, timeout_ms=LONG_MS))
        assert caught.value.code is ErrorCode.INVALID_REQUEST
        assert broker.metadata.contains("t")


async def test_a_topic_with_neither_name_nor_id_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        assert await delete(cluster.brokers[0], by_name(None)) == [(None, ZERO_UUID, ErrorCode.INVALID_REQUEST)]


@pytest.mark.parametrize(("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)])
async def test_where_deletion_is_disabled_nothing_is_deleted(tmp_path: Path, version: int, code: ErrorCode) -> None:
    async with running(tmp_path, 0, delete_topic_enable="false") as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t")
        assert await delete(broker, by_name("t", version=version), version, enable=False) == [("t", ZERO_UUID, code)]
        assert broker.metadata.contains("t")


async def test_without_a_timeout_the_reply_times_out_and_the_topic_is_deleted(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t")
        assert await delete(broker, by_name("t", timeout_ms=0)) == [("t", ZERO_UUID, ErrorCode.REQUEST_TIMED_OUT)]
        await settle()
        assert not broker.metadata.contains("t")


async def test_a_broker_that_is_not_the_controller_returns_not_controller(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        assert await delete(cluster.brokers[1], by_name("t")) == [("t", ZERO_UUID, ErrorCode.NOT_CONTROLLER)]
