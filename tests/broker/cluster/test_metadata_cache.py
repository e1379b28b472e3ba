import pytest

from ottla.broker.cluster.metadata_cache import MetadataCache, Node
from ottla.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from ottla.wire.types import ZERO_UUID, TopicPartition

ID, OTHER_ID = b"\1" * 16, b"\2" * 16


def broker(broker_id: int, *listeners: str) -> UpdateMetadataBroker:
    endpoints = [
        UpdateMetadataEndpoint(port=9000 + broker_id, host=f"h{broker_id}", listener=each, security_protocol=0)
        for each in listeners or ("PLAINTEXT",)
    ]
    return UpdateMetadataBroker(id=broker_id, endpoints=endpoints, rack=None)


def topic(name: str, topic_id: bytes, **leaders: int) -> UpdateMetadataTopicState:
    """Partitions p0, p1, ... with their leaders."""
    states = [
        UpdateMetadataPartitionState(
            partition_index=int(index[1:]),
            controller_epoch=1,
            leader=leader,
            leader_epoch=4,
            isr=(leader,),
            zk_version=2,
            replicas=(leader, 9),
            offline_replicas=(9,),
        )
        for index, leader in leaders.items()
    ]
    return UpdateMetadataTopicState(topic_name=name, topic_id=topic_id, partition_states=states)


def update(
    *topics: UpdateMetadataTopicState, brokers: tuple[UpdateMetadataBroker, ...] = (), controller_id: int = 1
) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        controller_id=controller_id, controller_epoch=3, topic_states=topics, live_brokers=brokers
    )


@pytest.fixture
def cache() -> MetadataCache:
    cache = MetadataCache()
    cache.update(update(topic("t", ID, p0=1, p1=2), brokers=(broker(1), broker(2, "PLAINTEXT", "INSIDE"))))
    return cache


def test_an_update_is_in_the_metadata(cache: MetadataCache) -> None:
    assert (cache.controller_id, cache.controller_epoch) == (1, 3)
    assert list(cache.topics) == ["t"]
    known = cache.partition("t", 1)
    assert known is not None
    assert known == (2, 4, (2,), (2, 9), (9,), 2)
    assert (cache.topic_id("t"), cache.topic_name(ID)) == (ID, "t")
    assert cache.node(1, "PLAINTEXT") == Node(1, "h1", 9001, None)
    assert [node.broker_id for node in cache.nodes("INSIDE")] == [2]


def test_the_metadata_has_only_what_the_update_names(cache: MetadataCache) -> None:
    assert not cache.contains("u")
    assert not cache.contains("t", 2)
    assert cache.contains("t", 1)
    assert cache.partition("t", 2) is None
    assert cache.partition("u", 0) is None
    assert cache.partitions("u") == {}
    assert (cache.topic_id("u"), cache.topic_name(OTHER_ID)) == (ZERO_UUID, None)
    assert cache.node(1, "INSIDE") is None
    assert cache.node(7, "PLAINTEXT") is None


def test_an_update_changes_the_partitions_it_names_and_no_others(cache: MetadataCache) -> None:
    assert cache.update(update(topic("t", ID, p0=2))) == []
    assert [cache.partitions("t")[index].leader for index in (0, 1)] == [2, 2]


def test_brokers_are_those_of_the_last_update(cache: MetadataCache) -> None:
    cache.update(update(brokers=(broker(2),)))
    assert sorted(cache.brokers) == [2]
    assert cache.contains("t")


def test_a_topic_is_gone_when_its_last_partition_is(cache: MetadataCache) -> None:
    assert cache.update(update(topic("t", ID, p0=-2))) == [TopicPartition("t", 0)]
    assert cache.topic_name(ID) == "t"
    assert cache.update(update(topic("t", ID, p1=-2))) == [TopicPartition("t", 1)]
    assert not cache.contains("t")
    assert (cache.topic_id("t"), cache.topic_name(ID)) == (ZERO_UUID, None)
    assert cache.update(update(topic("t", ID, p1=-2))) == [TopicPartition("t", 1)]


def test_a_topic_of_the_same_name_has_its_own_id(cache: MetadataCache) -> None:
    cache.update(update(topic("t", OTHER_ID, p0=1)))
    assert (cache.topic_id("t"), cache.topic_name(OTHER_ID), cache.topic_name(ID)) == (OTHER_ID, "t", None)


def test_a_negative_controller_id_means_no_controller(cache: MetadataCache) -> None:
    cache.update(update(controller_id=-1))
    assert cache.controller_id is None


def test_old_controllers_send_ungrouped_partitions() -> None:
    cache = MetadataCache()
    (state,) = topic("t", ID, p0=1).partition_states
    state.topic_name = "t"
    request = UpdateMetadataRequest(
        controller_id=1, controller_epoch=1, ungrouped_partition_states=[state], live_brokers=()
    )
    assert cache.update(UpdateMetadataRequest.decode(request.encode(4), 4)) == []
    assert cache.contains("t", 0)
    state.leader = -2
    assert cache.update(request) == [TopicPartition("t", 0)]
    assert not cache.contains("t")


def test_listeners_of_old_requests_are_named_after_their_protocols() -> None:
    cache = MetadataCache()
    request = update(brokers=(broker(1, ""), UpdateMetadataBroker(id=2, v0_host="h2", v0_port=9)))
    request.live_brokers[0].endpoints = [
        UpdateMetadataEndpoint(port=port, host="h", listener="", security_protocol=port) for port in (0, 1, 2, 3, 99)
    ]
    cache.update(UpdateMetadataRequest.decode(request.encode(2), 2))
    assert set(cache.brokers[1].nodes) == {"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", ""}
    assert cache.node(1, "SASL_PLAINTEXT") == Node(1, "h", 2, None)
    cache.update(UpdateMetadataRequest.decode(request.encode(0), 0))
    assert cache.nodes("PLAINTEXT") == [Node(2, "h2", 9, "")]
