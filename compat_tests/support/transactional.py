"""Transactions in every state, for tools that describe them."""

import contextlib
import time

import confluent_kafka
from kafka.record.default_records import DefaultRecordBatchBuilder

from compat_tests.support.clients import create_topic
from compat_tests.support.talking import INIT_PRODUCER_ID, PRODUCE, learn

PATIENCE_S = 60.0
TOPIC = "sold"


def _producer(bootstrap: str, transactional_id: str) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 600_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(PATIENCE_S)
    return producer


def _write(producer: confluent_kafka.Producer, partition: int, *values: bytes) -> None:
    for value in values:
        producer.produce(TOPIC, value, partition=partition)
    producer.flush(PATIENCE_S)


class Transactions:
    """A topic with a committed, an aborted, an open and a hanging transaction."""

    def __init__(self, bootstrap: str) -> None:
        create_topic(bootstrap, TOPIC, partitions=2)
        committed = _producer(bootstrap, "tx-committed")
        committed.begin_transaction()
        _write(committed, 0, b"one", b"two")
        committed.commit_transaction(PATIENCE_S)
        aborted = _producer(bootstrap, "tx-aborted")
        aborted.begin_transaction()
        _write(aborted, 0, b"three")
        aborted.abort_transaction(PATIENCE_S)
        _producer(bootstrap, "tx-empty")
        # It stays open while its producer exists.
        self.open = _producer(bootstrap, "tx-open")
        self.open.begin_transaction()
        _write(self.open, 0, b"four")
        _write(self.open, 1, b"five")
        self.hanging_producer_id = hang(bootstrap, 1)

    def close(self) -> None:
        """Abort the open transaction, unless a tool did."""
        with contextlib.suppress(confluent_kafka.KafkaException):
            self.open.abort_transaction(PATIENCE_S)


def hang(bootstrap: str, partition: int) -> int:
    """Write a record of a transaction that no coordinator knows; return the producer's id."""
    found = learn(bootstrap, INIT_PRODUCER_ID, 1, transactional_id=None, transaction_timeout_ms=60_000)
    builder = DefaultRecordBatchBuilder(2, 0, True, found["producer_id"], found["producer_epoch"], 0, 1 << 20)
    builder.append(0, int(time.time() * 1000), None, b"six", [])
    records = bytes(builder.build())
    topic = {"name": TOPIC, "partition_data": [{"index": partition, "records": records}]}
    fields = {"transactional_id": "tx-lost", "acks": -1, "timeout_ms": 30_000, "topic_data": [topic]}
    answer = learn(bootstrap, PRODUCE, 9, **fields)
    assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0, answer
    return int(found["producer_id"])
