"""Copies of topics: what a record may be."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import confluent_kafka
import pytest

from compat_tests.clients import create_topic
from ottla import Broker
from ottla.pipeline.mirror import OffsetSync, _copied

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
