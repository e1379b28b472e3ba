from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.broker.handlers import create_partitions
from ottla.broker.net.session import RequestContext
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.zk.znodes import TopicAssignment, topic_path
from tests.broker.controller.cluster import LONG_MS, Broker, assigned_topic, running, settle, topic, wait_for

LATEST = 3


def more(name: str, count: int, assignments: Sequence[Sequence[int]] | None = None) -> CreatePartitionsTopic:
    manual = None
    if assignments is not None:
        manual = [CreatePartitionsAssignment(broker_ids=each) for each in assignments]
    return CreatePartitionsTopic(name=name, count=count, assignments=manual)


async def add(
    broker: Broker,
    *topics: CreatePartitionsTopic,
    version: int = LATEST,
    timeout_ms: int = LONG_MS,
    validate_only: bool = False,
) -> dict[str, tuple[ErrorCode, str | None]]:
    request = CreatePartitionsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)
    request = CreatePartitionsRequest.decode(request.encode(version), version)
    context = RequestContext(ApiKey.CREATE_PARTITIONS, version)
    response: CreatePartitionsResponse = await wait_for(
        create_partitions.handle(request, context, controller=broker.controller)
    )
    response = CreatePartitionsResponse.decode(response.encode(version), version)
    found = {result.name: (ErrorCode(result.error_code), result.error_message) for result in response.results}
    assert len(found) == len(response.results)
    return found


async def create(broker: Broker, name: str, partitions: int = 1) -> None:
    await wait_for(broker.controller.create_topics([topic(name, partitions)], LONG_MS, validate_only=False))


@pytest.mark.parametrize("version", range(LATEST + 1))
async def test_added_partitions_have_leaders_when_the_reply_comes_in_every_version(
    tmp_path: Path, version: int
) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t")
        topic_id = broker.metadata.topic_id("t")
        assert await add(broker, more("t", 3), version=version) == {"t": (ErrorCode.NONE, None)}
        assert {index: each.leader for index, each in broker.metadata.partitions("t").items()} == {0: 0, 1: 0, 2: 0}
        assert all(broker.replicas.partition("t", index).is_leader for index in range(3))
        assert broker.metadata.topic_id("t") == topic_id
        data = await cluster.data(topic_path("t"))
        assert data is not None
        assert TopicAssignment.decode(data).topic_id == topic_id
        assert sorted(TopicAssignment.decode(data).partitions) == [0, 1, 2]


async def test_each_invalid_topic_has_its_error_and_the_others_grow(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        for name in ("fewer", "same", "many", "twice", "good"):
            await create(broker, name, 2)
        wanted = [more("fewer", 1), more("same", 2), more("many", 99_999), more("gone", 2), more("good", 3)]
        assert await add(broker, *wanted, more("twice", 3), more("twice", 4)) == {
            "fewer": (
                ErrorCode.INVALID_PARTITIONS,
                "The topic fewer currently has 2 partition(s); 1 would not be an increase.",
            ),
            "same": (ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
            "many": (ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."),
            "gone": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
            "good": (ErrorCode.NONE, None),
            "twice": (ErrorCode.INVALID_REQUEST, "Duplicate topic in request."),
        }
        assert len(broker.metadata.partitions("good")) == 3
        assert len(broker.metadata.partitions("twice")) == 2


async def test_a_manual_assignment_is_taken_or_refused_as_kafka_does(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        broker = cluster.brokers[0]
        for name in "abcdef":
            request = [assigned_topic(name, (0, 1))]
            await wait_for(broker.controller.create_topics(request, LONG_MS, validate_only=False))
        answers = await add(
            broker,
            more("a", 3, [(1, 0), (0, 1)]),
            more("b", 2, [(7, 0)]),
            more("c", 3, [(1, 0)]),
            more("d", 2, [()]),
            more("e", 2, [(1, 1)]),
            more("f", 2, [(1,)]),
        )
        assert answers.pop("a") == (ErrorCode.NONE, None)
        assert {code for code, _ in answers.values()} == {ErrorCode.INVALID_REPLICA_ASSIGNMENT}
        assert [message for _, message in answers.values()] == [
            "The manual partition assignment includes broker 7, but no such broker is registered.",
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
            "The manual partition assignment includes an empty replica list.",
            "The manual partition assignment includes the broker 1 more than once.",
            "The manual partition assignment includes a partition with 1 replica(s), but this is not consistent with "
            "previous partitions, which have 2 replica(s).",
        ]
        assert [each.replicas for each in broker.metadata.partitions("a").values()] == [(0, 1), (1, 0), (0, 1)]


async def test_partitions_that_are_only_validated_are_not_added(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t")
        assert await add(broker, more("t", 2), validate_only=True) == {"t": (ErrorCode.NONE, None)}
        assert len(broker.metadata.partitions("t")) == 1


async def test_without_a_timeout_the_partitions_come_later(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t")
        assert await add(broker, more("t", 2), timeout_ms=0) == {"t": (ErrorCode.REQUEST_TIMED_OUT, None)}
        await settle()
        assert len(broker.metadata.partitions("t")) == 2


async def test_a_broker_that_is_not_the_controller_returns_not_controller(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        assert await add(cluster.brokers[1], more("t", 2)) == {"t": (ErrorCode.NOT_CONTROLLER, None)}
