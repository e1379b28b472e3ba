"""Copies of topics: what a record may be, and topics that get more partitions."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from compat_tests.clients import create_topic
from ottla import Broker
from ottla.pipeline.mirror import MirrorSink, OffsetSync, _copied
from ottla.pipeline.positions import Positions
from ottla.pipeline.topics import TopicSource
from tests.pipeline.jobs import keys

FRAME = (
    "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary,"
    " headers array<struct<key: string, value: binary>>"
)
NOW = datetime(2026, 1, 31, 12)


class Header(NamedTuple):
    key: str
    value: bytearray | bytes | None


class Row(NamedTuple):
    """A row as a task of Spark has it."""

    topic: str
    partition: int
    value: bytes
    headers: list[Header]
    offset: int = 7
    timestamp: datetime = NOW
    key: bytes | None = None


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap


def consumed(bootstrap: str, topic: str, partition: int) -> Any:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "test"})
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
    try:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        return message
    finally:
        consumer.close()


def test_a_header_may_be_empty_and_a_record_as_large_as_the_broker_takes(bootstrap: str) -> None:
    create_topic(bootstrap, "a.large")
    # Spark has bytes as bytearrays before 4.1.
    headers = [Header("empty", bytearray()), Header("none", None), Header("some", bytearray(b"x"))]
    row = Row("large", 0, bytes(1_040_000), headers)
    assert list(_copied(bootstrap, "a.", [row])) == [OffsetSync("large", 0, 7, 0)]
    found = consumed(bootstrap, "a.large", 0)
    assert found.value() == row.value
    assert found.headers() == [("empty", b""), ("none", None), ("some", b"x")]


def test_a_topic_is_widened_but_never_made_smaller(bootstrap: str) -> None:
    create_topic(bootstrap, "wide", partitions=2)
    positions = Positions(bootstrap)
    try:
        for wanted, count in ((1, 2), (2, 2), (4, 4)):
            positions.widen("wide", wanted)
            assert len(positions.partitions(["wide"])) == count
    finally:
        positions.close()


@pytest.mark.slow
def test_a_copy_gets_the_partitions_that_its_topic_got(spark: Any, bootstrap: str) -> None:
    create_topic(bootstrap, "grows")
    source = TopicSource(keys("source", topics="grows"), bootstrap)
    sink = MirrorSink(keys("sink", topic_prefix="a."), bootstrap, source)

    def write(batch: int, partition: int) -> None:
        row = ("grows", partition, batch, NOW, None, b"%d" % batch, None)
        sink.write(spark.createDataFrame([row], FRAME).coalesce(1), "q", batch)
        assert consumed(bootstrap, "a.grows", partition).value() == b"%d" % batch

    write(0, 0)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions("grows", 3)])["grows"].result(120)
    write(1, 2)
