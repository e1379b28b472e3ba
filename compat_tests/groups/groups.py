"""Common parts of tests of consumer groups: brokers with quick groups, records, and offsets."""

from collections.abc import Sequence

import confluent_kafka

from compat_tests.groups.members import PATIENCE_S
from compat_tests.support.brokers import ApacheKafka, Broker, Ottla

BROKERS = [Ottla, ApacheKafka]
# The session timeout of members that end without leaving.
SHORT_SESSION_MS = 3_000
SETTINGS = [
    *("group.initial.rebalance.delay.ms=300", "offsets.topic.num.partitions=5", "group.max.size=4"),
    f"group.min.session.timeout.ms={SHORT_SESSION_MS}",
]


def fill(broker: Broker, topic: str, count: int = 10, partitions: Sequence[int] = (0,)) -> None:
    """Append records to some partitions."""
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(count):
        for partition in partitions:
            producer.produce(topic, value=b"%d" % number, partition=partition)
    assert producer.flush(PATIENCE_S) == 0


def committed(broker: Broker, group: str, topic: str, partition: int = 0) -> int:
    """Return a group's committed offset."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    (found,) = consumer.committed([confluent_kafka.TopicPartition(topic, partition)], timeout=PATIENCE_S)
    consumer.close()
    assert found.error is None
    return int(found.offset)


def offsets(first: int, end: int) -> list[tuple[int, int]]:
    """Return partition 0 with the offsets from `first` to `end` (exclusive)."""
    return [(0, offset) for offset in range(first, end)]
