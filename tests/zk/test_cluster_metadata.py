import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.zk.cluster_metadata import (
    ClusterMetadata,
    MetadataError,
    PartitionMetadata,
    TopicMetadata,
    conflicts,
)
from ottla.zk.znodes import DEFAULT_ENTITY, ReplicaAssignment

BROKERS = st.lists(st.integers(0, 9), unique=True).map(tuple)
CONFIGS = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3)
ASSIGNMENTS = st.builds(ReplicaAssignment, BROKERS.filter(bool), BROKERS, BROKERS)
PARTITIONS = st.builds(PartitionMetadata, ASSIGNMENTS, st.integers(-1, 9), BROKERS)
TOPICS = st.builds(
    TopicMetadata,
    st.none() | st.binary(min_size=16, max_size=16),
    st.lists(PARTITIONS, min_size=1, max_size=3).map(lambda found: dict(enumerate(found))),
    st.none() | CONFIGS,
)
CLUSTERS = st.builds(
    ClusterMetadata,
    st.text(max_size=22),
    st.dictionaries(st.from_regex("[a-z][a-zA-Z0-9._-]{0,9}", fullmatch=True), TOPICS, max_size=3),
    st.dictionaries(st.just(DEFAULT_ENTITY) | st.integers(0, 9).map(str), CONFIGS, max_size=3),
    st.integers(0, 2**63 - 1),
)


def topic(replicas: tuple[int, ...] = (1,), count: int = 1, **given: Any) -> TopicMetadata:
    found = {index: PartitionMetadata(ReplicaAssignment(replicas), 3, replicas) for index in range(count)}
    return TopicMetadata(**{"topic_id": bytes(16), "partitions": found, "configs": {}, **given})


def cluster(**given: Any) -> ClusterMetadata:
    return ClusterMetadata(**{"cluster_id": "c", "topics": {"t": topic()}, "broker_configs": {}, **given})


@given(CLUSTERS)
def test_a_document_holds_all_metadata(metadata: ClusterMetadata) -> None:
    assert ClusterMetadata.decode(metadata.encode()) == metadata


def broken(path: str, value: Any) -> bytes:
    document = json.loads(cluster(broker_configs={"1": {"a": "b"}}).encode())
    *parents, last = path.split("/")
    place = document
    for each in parents:
        place = place[each]
    place[last] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        broken("format", "another"),
        broken("version", 2),
        broken("cluster_id", None),
        broken("next_producer_id", -1),
        broken("next_producer_id", 2**63),
        broken("next_producer_id", True),
        broken("topics", []),
        broken("topics/t", None),
        broken("topics/t/id", "short"),
        broken("topics/t/configs", {"a": 1}),
        broken("topics/t/partitions", {}),
        broken("topics/t/partitions/2", {"replicas": [1], "leader_epoch": 0, "isr": [1]}),
        broken("topics/t/partitions/x", {}),
        broken("topics/t/partitions/0/replicas", []),
        broken("topics/t/partitions/0/replicas", ["1"]),
        broken("topics/t/partitions/0/isr", None),
        broken("topics/t/partitions/0/leader_epoch", 1.5),
        broken("brokers/1", {}),
        broken("brokers/one", {"configs": {}}),
    ],
)
def test_a_malformed_document_is_refused(data: bytes) -> None:
    with pytest.raises(MetadataError):
        ClusterMetadata.decode(data)


def test_an_illegal_topic_name_is_refused() -> None:
    for name in ("", "..", "a/b", "x" * 250):
        with pytest.raises(MetadataError, match="not a legal topic name"):
            ClusterMetadata.decode(cluster(topics={name: topic()}).encode())


@pytest.mark.parametrize(
    ("wanted", "fault", "can_be_overwritten"),
    [
        (cluster(), None, True),
        (cluster(topics={"new": topic()}), None, True),
        (cluster(topics={"t": topic(configs=None)}), None, True),
        (cluster(topics={"t": topic(count=2)}), "topic t exists with other replicas", True),
        (cluster(topics={"t": topic((2,))}), "topic t exists with other replicas", True),
        (cluster(topics={"t": topic(configs={"a": "secret"})}), "topic t exists with other configs: a", True),
        (cluster(broker_configs={"1": {}}), "broker 1 exists with other configs: b", True),
        (cluster(broker_configs={"2": {}}), None, True),
        (cluster(topics={"t": topic(topic_id=b"1" * 16)}), "topic t exists with the id AAAA.*, not MTEx.*", False),
        (cluster(topics={"t": topic(topic_id=None)}), "topic t exists with the id AAAA.*, not None", False),
        (cluster(topics={"wide": topic()}), "topic wide exists with 2 partitions, not 1", False),
    ],
)
def test_conflicts_are_refused_unless_they_may_be_overwritten(
    wanted: ClusterMetadata, fault: str | None, can_be_overwritten: bool
) -> None:
    existing = cluster(topics={"t": topic(), "wide": topic(count=2)}, broker_configs={"1": {"b": "c"}})
    found = list(conflicts(existing, wanted, overwrite=False))
    assert len(found) == (fault is not None)
    assert all(re.fullmatch(fault or "", each) for each in found)
    assert (list(conflicts(existing, wanted, overwrite=True)) == []) is can_be_overwritten
