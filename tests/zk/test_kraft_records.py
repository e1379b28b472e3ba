import json
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from compat_tests.support import jars
from ottla.wire.schema import Message
from ottla.zk.cluster_metadata import ClusterMetadata, MetadataError, PartitionMetadata, TopicMetadata
from ottla.zk.kraft_records import (
    RECORDS,
    ConfigRecord,
    KraftImage,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ottla.zk.znodes import ReplicaAssignment
from tests.wire.kafka_specification import Specification
from tests.wire.test_oracle_specification import declared_at, specified_at

NUMBERS = {kind: number for number, kind in RECORDS.items()}
ID, OTHER_ID = b"1" * 16, b"2" * 16
# Types of records that are not declared.
BEGIN, END, ABORT, ACL, NO_OP, FEATURE_LEVEL = 23, 24, 25, 18, 20, 12

TOPIC = TopicRecord(name="t", topic_id=ID)
PARTITION = PartitionRecord(
    partition_id=0,
    topic_id=ID,
    replicas=[1, 2],
    isr=[1],
    removing_replicas=[],
    adding_replicas=[2],
    leader=1,
    leader_epoch=4,
    partition_epoch=9,
)


def framed(record: Message | int, version: int | None = None) -> bytes:
    if isinstance(record, int):
        return bytes([1, record, 0])
    version = record.versions.highest if version is None else version
    return bytes([1, NUMBERS[type(record)], version]) + record.encode(version)


def after(records: Sequence[Message | int]) -> ClusterMetadata:
    image = KraftImage()
    for record in records:
        image.replay(framed(record))
    return image.metadata("c")


@pytest.mark.slow
@pytest.mark.parametrize("kind", RECORDS.values(), ids=lambda kind: kind.__name__)
def test_records_are_declared_as_kafka_specifies_them(kind: type[Message]) -> None:
    path = next(each for each in jars.classpath(jars.BROKER).split(os.pathsep) if "kafka-metadata-" in Path(each).name)
    with zipfile.ZipFile(path) as archive:
        lines = archive.read(f"common/metadata/{kind.__name__}.json").decode().splitlines()
    specification = Specification(json.loads("\n".join(each for each in lines if not each.lstrip().startswith("//"))))
    assert RECORDS[specification.api_key or 0] is kind
    assert list(kind.versions) == list(specification.versions)
    for version in specification.versions:
        assert tuple(declared_at(kind, kind, version)) == specified_at(specification, version)


def test_topics_have_partitions_and_configs() -> None:
    configs = [
        ConfigRecord(resource_type=2, resource_name="t", name="a", value="1"),
        ConfigRecord(resource_type=2, resource_name="t", name="b", value="2"),
        ConfigRecord(resource_type=2, resource_name="t", name="a", value=None),
        ConfigRecord(resource_type=4, resource_name="", name="c", value="3"),
        ConfigRecord(resource_type=4, resource_name="7", name="d", value="4"),
        ConfigRecord(resource_type=4, resource_name="8", name="e", value="5"),
        ConfigRecord(resource_type=4, resource_name="8", name="e", value=None),
    ]
    producer_ids = ProducerIdsRecord(broker_id=1, next_producer_id=2000)
    partition = PartitionMetadata(ReplicaAssignment((1, 2), (2,), ()), 4, (1,))
    assert after([TOPIC, NO_OP, PARTITION, FEATURE_LEVEL, *configs, producer_ids]) == ClusterMetadata(
        "c", {"t": TopicMetadata(ID, {0: partition}, {"b": "2"})}, {"<default>": {"c": "3"}, "7": {"d": "4"}}, 2000
    )


def test_a_partition_changes() -> None:
    changes = [
        PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[1, 2], adding_replicas=[], leader=2),
        PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[2]),
        PartitionChangeRecord(partition_id=0, topic_id=ID, replicas=[2, 3], removing_replicas=[3], leader=-1),
    ]
    found = after([TOPIC, PARTITION, *changes]).topics["t"].partitions[0]
    # Each change of the leader, also to none, begins an epoch.
    assert found == PartitionMetadata(ReplicaAssignment((2, 3), (), (3,)), 6, (2,))


def test_eligible_leader_replicas_are_the_isr_where_it_is_empty() -> None:
    change = PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[], eligible_leader_replicas=[2])
    assert after([TOPIC, PARTITION, change]).topics["t"].partitions[0].isr == (2,)


def test_a_removed_topic_is_gone_with_its_configs() -> None:
    config = ConfigRecord(resource_type=2, resource_name="t", name="a", value="1")
    again = TopicRecord(name="t", topic_id=OTHER_ID)
    found = after([TOPIC, PARTITION, config, RemoveTopicRecord(topic_id=ID), again])
    assert found.topics == {"t": TopicMetadata(OTHER_ID, {}, {})}


@pytest.mark.parametrize(("end", "names"), [([END], {"t", "u"}), ([ABORT], {"u"}), ([], set())])
def test_records_of_a_transaction_count_when_it_has_ended(end: list[int], names: set[str]) -> None:
    other = [TopicRecord(name="u", topic_id=OTHER_ID)] if end else []
    assert set(after([BEGIN, TOPIC, *end, *other]).topics) == names


def test_omitted_metadata_is_named() -> None:
    image = KraftImage()
    image.replay(framed(ACL))
    assert image.left_out == {"ACLs"}


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x80",
        b"\xff" * 6,
        b"\x02\x02\x00",
        b"\x01\x02\x01",
        b"\x01\x02\x00\x05a",
        framed(PARTITION),
        framed(PartitionChangeRecord(partition_id=0, topic_id=ID)),
        framed(RemoveTopicRecord(topic_id=ID)),
    ],
)
def test_a_malformed_record_is_refused(value: bytes) -> None:
    with pytest.raises(MetadataError):
        KraftImage().replay(value)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_version_is_read(version: int) -> None:
    image = KraftImage()
    image.replay(framed(TOPIC))
    image.replay(framed(PARTITION, version))
    assert image.metadata("c").topics["t"].partitions[0].leader_epoch == 4
