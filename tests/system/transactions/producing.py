"""A producer with one transaction at a time, and a group whose offsets it commits."""

from collections.abc import Callable, Mapping
from typing import Any

import confluent_kafka

from tests.system.transactions.asking import PATIENCE_S, QUICK, committed

TOPIC = "orders"
PARTITIONS = (0, 1, 2)
GROUP = "shipping"
# A topic of which a group commits offsets. It may have no records.
READ = "read"

End = Callable[[confluent_kafka.Producer, float], object]
COMMIT: End = confluent_kafka.Producer.commit_transaction
ABORT: End = confluent_kafka.Producer.abort_transaction


def producer(
    bootstrap: str, transactional_id: str, timeout_ms: int = 600_000, **config: Any
) -> confluent_kafka.Producer:
    """Return a producer that can begin transactions."""
    made = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            **QUICK,
            **config,
        }
    )
    made.init_transactions(PATIENCE_S)
    return made


def write(writer: confluent_kafka.Producer, values: Mapping[int, bytes]) -> None:
    """Write a value to each partition, and wait for the acknowledgements."""
    for partition, value in values.items():
        writer.produce(TOPIC, value, partition=partition)
    assert writer.flush(PATIENCE_S) == 0


def commit_offset(writer: confluent_kafka.Producer, offset: int, bootstrap: str) -> None:
    """Commit an offset of the group in the transaction."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, **QUICK})
    place = confluent_kafka.TopicPartition(READ, 0, offset)
    writer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), PATIENCE_S)
    consumer.close()


def committed_offset(bootstrap: str, *, stable: bool) -> int:
    """Return the committed offset; -1 without one, and a negative error code if it is pending."""
    return committed(bootstrap, GROUP, READ, [0], stable=stable)[0]
