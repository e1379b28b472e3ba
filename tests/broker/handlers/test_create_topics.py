from pathlib import Path

import pytest

from ottla.broker.handlers import create_topics
from ottla.broker.net.session import RequestContext
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.types import ZERO_UUID
from tests.broker.controller.cluster import LONG_MS, Broker, running, settle, topic, wait_for

LATEST = 7


async def create(
    broker: Broker,
    *topics: CreatableTopic,
    version: int = LATEST,
    timeout_ms: int = LONG_MS,
    validate_only: bool = False,
) -> CreateTopicsResponse:
    request = CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)
    request = CreateTopicsRequest.decode(request.encode(version), version)
    context = RequestContext(ApiKey.CREATE_TOPICS, version)
    reply = create_topics.handle(request, context, controller=broker.controller, dynamic=broker.dynamic)
    response: CreateTopicsResponse = await wait_for(reply)
    return CreateTopicsResponse.decode(response.encode(version), version)


@pytest.mark.parametrize("version", range(2, LATEST + 1))
async def test_a_topic_is_created_in_every_version(tmp_path: Path, version: int) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        response = await create(broker, topic("t", 2), version=version)
        (result,) = response.topics
        assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
        assert (result.num_partitions, result.replication_factor) == ((2, 1) if version >= 5 else (-1, -1))
        assert result.topic_id == (broker.metadata.topic_id("t") if version >= 7 else ZERO_UUID)
        assert len(broker.metadata.partitions("t")) == 2


async def test_the_response_has_the_configs_of_a_new_topic_with_their_sources(tmp_path: Path) -> None:
    async with running(tmp_path, 0, log_retention_ms="77", log_roll_hours="3") as cluster:
        response = await create(cluster.brokers[0], topic("t", cleanup_policy="compact"))
        configs = {config.name: config for config in response.topics[0].configs or ()}
        assert len(configs) == 36
        told = {name: (configs[name].value, configs[name].config_source) for name in configs}
        assert told["cleanup.policy"] == ("compact", 1)
        assert told["retention.ms"] == ("77", 4)
        # Kafka counts a synonym only behind a value of the key itself.
        assert told["segment.ms"] == ("10800000", 5)
        assert told["segment.bytes"] == ("1073741824", 5)
        assert told["preallocate"] == ("false", 5)
        assert not any(config.is_sensitive or config.read_only for config in configs.values())


async def test_each_invalid_topic_has_its_error_without_configs(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await create(broker, topic("taken"))
        response = await create(
            broker,
            topic("taken"),
            topic("bad name"),
            topic("none", 0),
            topic("many", 1, 2),
            topic("config", retention_ms="x"),
            topic("unknown", nonsense="1"),
            topic("good"),
        )
        assert {result.name: ErrorCode(result.error_code).name for result in response.topics} == {
            "taken": "TOPIC_ALREADY_EXISTS",
            "bad name": "INVALID_TOPIC_EXCEPTION",
            "none": "INVALID_PARTITIONS",
            "many": "INVALID_REPLICATION_FACTOR",
            "config": "INVALID_CONFIG",
            "unknown": "INVALID_CONFIG",
            "good": "NONE",
        }
        messages = {result.name: result.error_message for result in response.topics}
        assert messages["config"] == "Invalid value x for configuration retention.ms: Not a number of type LONG"
        assert messages["unknown"] == "Unknown topic config name: nonsense"
        failed = [result for result in response.topics if result.error_code]
        assert {(result.num_partitions, result.replication_factor) for result in failed} == {(-1, -1)}
        assert not any(result.configs for result in failed)


async def test_a_topic_named_twice_is_refused_twice_and_the_others_are_created(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        response = await create(cluster.brokers[0], topic("t"), topic("u"), topic("t"))
        assert [(result.name, result.error_code, result.error_message) for result in response.topics] == [
            ("t", ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic."),
            ("u", ErrorCode.NONE, None),
            ("t", ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic."),
        ]
        assert not cluster.brokers[0].metadata.contains("t")


@pytest.mark.parametrize("validate_only", [False, True])
async def test_only_a_topic_that_was_created_can_be_collided_with(tmp_path: Path, validate_only: bool) -> None:
    async with running(tmp_path, 0) as cluster:
        wanted = [topic("a.b", 0), topic("a_b"), topic("c.d"), topic("c_d")]
        response = await create(cluster.brokers[0], *wanted, validate_only=validate_only)
        collides = ErrorCode.NONE if validate_only else ErrorCode.INVALID_TOPIC_EXCEPTION
        assert [result.error_code for result in response.topics] == [ErrorCode.INVALID_PARTITIONS, 0, 0, collides]


async def test_the_topic_of_kafkas_own_metadata_is_not_created(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        (result,) = (await create(cluster.brokers[0], topic("__cluster_metadata"))).topics
        assert result.error_code == ErrorCode.INVALID_REQUEST
        assert result.error_message == "Creation of internal topic __cluster_metadata is prohibited."


async def test_a_request_without_topics_gets_a_response_without_topics(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        assert len((await create(cluster.brokers[0])).topics) == 0


async def test_a_topic_that_is_only_validated_has_configs_but_no_id(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        (result,) = (await create(cluster.brokers[0], topic("t", -1, -1), validate_only=True)).topics
        assert (result.error_code, result.topic_id, result.num_partitions) == (0, ZERO_UUID, 1)
        assert result.configs
        assert not cluster.brokers[0].metadata.contains("t")


async def test_without_a_timeout_the_response_has_the_id_of_the_topic(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        (result,) = (await create(cluster.brokers[0], topic("t"), timeout_ms=0)).topics
        await settle()
        assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert result.topic_id == cluster.brokers[0].metadata.topic_id("t") != ZERO_UUID


async def test_a_broker_that_is_not_the_controller_returns_not_controller(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        (result,) = (await create(cluster.brokers[1], topic("t"))).topics
        assert result.error_code == ErrorCode.NOT_CONTROLLER
