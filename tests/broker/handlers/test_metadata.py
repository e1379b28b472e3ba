from collections.abc import Iterable

import pytest

from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.handlers import metadata
from ottla.broker.net.session import RequestContext
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.types import ZERO_UUID
from tests.broker.cluster.test_metadata_cache import ID, OTHER_ID, broker, topic, update

LATEST = 12
MIN_INT32 = -(2**31)


@pytest.fixture
def cache() -> MetadataCache:
    cache = MetadataCache()
    cache.update(update(topic("t", ID, p0=1, p1=2), topic("u", OTHER_ID, p0=2), brokers=(broker(1), broker(2, "IN"))))
    return cache


class Creator:
    """Creates topics, and keeps their names in `asked`."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, names: Iterable[str]) -> dict[str, ErrorCode]:
        self.asked += names
        return dict.fromkeys(self.asked, ErrorCode.LEADER_NOT_AVAILABLE)


def ask(
    cache: MetadataCache, request: MetadataRequest, version: int = LATEST, creator: Creator | None = None
) -> MetadataResponse:
    context = RequestContext(ApiKey.METADATA, version)
    request = MetadataRequest.decode(request.encode(version), version)
    response = metadata.handle(request, context, metadata=cache, cluster_id="c", auto_create=creator)
    return MetadataResponse.decode(response.encode(version), version)


def names(*wanted: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in wanted])


def ids(*wanted: bytes) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in wanted])


def codes(response: MetadataResponse) -> dict[str | None, int]:
    return {topic.name: topic.error_code for topic in response.topics}


@pytest.mark.parametrize("version", range(LATEST + 1))
def test_a_topic_is_described_in_every_version(cache: MetadataCache, version: int) -> None:
    response = ask(cache, names("t"), version)
    assert [node.node_id for node in response.brokers] == [1]
    assert (response.brokers[0].host, response.brokers[0].port) == ("h1", 9001)
    assert response.controller_id == (1 if version >= 1 else -1)
    assert response.cluster_id == ("c" if version >= 2 else None)
    (told,) = response.topics
    assert (told.error_code, told.name, told.is_internal) == (0, "t", False)
    assert told.topic_id == (ID if version >= 10 else ZERO_UUID)
    first, second = told.partitions
    assert (first.partition_index, first.leader_id) == (0, 1)
    assert first.leader_epoch == (4 if version >= 7 else -1)
    # The leader is alive, but has no endpoint at this listener.
    assert second.error_code == (ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE)
    assert second.leader_id == -1


def test_version_0_leaves_out_unreachable_replicas(cache: MetadataCache) -> None:
    first = ask(cache, names("t"), 0).topics[0].partitions[0]
    assert (list(first.replica_nodes), first.error_code) == ([1], ErrorCode.REPLICA_NOT_AVAILABLE)
    first = ask(cache, names("t"), 1).topics[0].partitions[0]
    assert (list(first.replica_nodes), first.error_code) == ([1, 9], ErrorCode.NONE)


def test_a_leader_that_is_gone_is_minus_one(cache: MetadataCache) -> None:
    cache.update(update(brokers=(broker(1),)))
    second = ask(cache, names("t")).topics[0].partitions[1]
    assert (second.error_code, second.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


def test_null_and_in_version_0_no_topics_mean_all_topics(cache: MetadataCache) -> None:
    assert codes(ask(cache, MetadataRequest(topics=[]), 0)) == {"t": 0, "u": 0}
    assert codes(ask(cache, MetadataRequest(topics=[]), 1)) == {}
    assert codes(ask(cache, MetadataRequest(topics=None), 1)) == {"t": 0, "u": 0}


def test_a_topic_is_found_by_its_id(cache: MetadataCache) -> None:
    unknown = b"\7" * 16
    told = {topic.topic_id: (topic.name, topic.error_code) for topic in ask(cache, ids(ID, unknown)).topics}
    assert told == {ID: ("t", ErrorCode.NONE), unknown: (None, ErrorCode.UNKNOWN_TOPIC_ID)}


@pytest.mark.parametrize("request_", [ids(ID), ids(ZERO_UUID)])
@pytest.mark.parametrize("version", [10, 11])
def test_ids_and_topics_without_a_name_are_refused_before_version_12(
    cache: MetadataCache, request_: MetadataRequest, version: int
) -> None:
    with pytest.raises(KafkaError) as caught:
        ask(cache, request_, version)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    response = metadata.error_response(request_, version, caught.value.code)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("", ErrorCode.INVALID_REQUEST)]


def test_a_topic_with_neither_name_nor_id_is_refused(cache: MetadataCache) -> None:
    with pytest.raises(KafkaError):
        ask(cache, ids(ZERO_UUID))


def test_a_missing_topic_is_created(cache: MetadataCache) -> None:
    creator = Creator()
    assert codes(ask(cache, names("t", "new", "new"), creator=creator)) == {
        "t": ErrorCode.NONE,
        "new": ErrorCode.LEADER_NOT_AVAILABLE,
    }
    assert creator.asked == ["new"]


@pytest.mark.parametrize("may", [(None, True), (Creator(), False)])
def test_a_missing_topic_is_not_created_if_client_or_broker_decline(
    cache: MetadataCache, may: tuple[Creator | None, bool]
) -> None:
    creator, request = may[0], names("new", "bad/name")
    request.allow_auto_topic_creation = may[1]
    assert codes(ask(cache, request, creator=creator)) == {
        "new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "bad/name": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    assert creator is None or creator.asked == []


def test_a_request_for_all_topics_creates_none(cache: MetadataCache) -> None:
    creator = Creator()
    ask(cache, MetadataRequest(topics=None), creator=creator)
    assert creator.asked == []


def test_authorized_operations_come_on_request_only(cache: MetadataCache) -> None:
    response = ask(cache, names("t"), 8)
    assert response.cluster_authorized_operations == MIN_INT32
    assert response.topics[0].topic_authorized_operations == MIN_INT32
    request = names("t")
    request.include_cluster_authorized_operations = request.include_topic_authorized_operations = True
    response = ask(cache, request, 8)
    # As Kafka without an authorizer.
    assert response.cluster_authorized_operations == 8096
    assert response.topics[0].topic_authorized_operations == 3576


def test_kafkas_own_topics_are_marked_as_such(cache: MetadataCache) -> None:
    cache.update(update(topic("__consumer_offsets", b"\3" * 16, p0=1), brokers=(broker(1),)))
    assert ask(cache, names("__consumer_offsets")).topics[0].is_internal
