"""What tests of consumer groups have in common: brokers that are soon ready for a group, records, and offsets."""

from collections.abc import Sequence

import confluent_kafka

from compat_tests.groups.members import PATIENCE_S
from compat_tests.support.brokers import ApacheKafka, Broker, Ottla

BROKERS = [Ottla, ApacheKafka]
# For those of whose end the group is not told.
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
    """Return what a group has committed."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    (found,) = consumer.committed([confluent_kafka.TopicPartition(topic, partition)], timeout=PATIENCE_S)
    consumer.close()
    assert found.error is None
    return int(found.offset)


def offsets(first: int, end: int) -> list[tuple[int, int]]:
    """Return what reading partition 0 from one offset to before another gives."""
    return [(0, offset) for offset in range(first, end)]
