"""What a consumer of committed records sees of a topic."""

import time
from typing import Any, NamedTuple

import confluent_kafka

from compat_tests.support.brokers import Broker
from compat_tests.support.clients import PATIENCE_S


class Seen(NamedTuple):
    """A record as it was read."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


def committed(broker: Broker, topic: str) -> list[Seen]:
    """Return all committed records, partition by partition, each in its order."""
    return [
        Seen(message.partition(), message.key(), message.value(), tuple(message.headers() or ()))
        for message in messages(broker, topic)
    ]


def messages(broker: Broker, topic: str) -> list[Any]:
    """Return the same as librdkafka has it; it ends at the first transaction that is still open."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    partitions = sorted(consumer.list_topics(topic, PATIENCE_S).topics[topic].partitions)
    consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in partitions])
    found = []
    ended: set[int | None] = set()
    deadline = time.monotonic() + PATIENCE_S
    while len(ended) < len(partitions):
        assert time.monotonic() < deadline
        for message in consumer.consume(10_000, 0.2):
            error = message.error()
            if error is None:
                found.append(message)
            else:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF
                ended.add(message.partition())
    consumer.close()
    return sorted(found, key=lambda message: (message.partition(), message.offset()))
