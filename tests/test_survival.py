"""Kill -9 while an idempotent producer writes: what was acknowledged is there, and there once."""

import random
import threading
import time
from typing import Any

import confluent_kafka
import pytest

from ottla import Broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
SERVING_AGAIN_WITHIN_S = 2.0


class Writer(threading.Thread):
    """An idempotent producer with acks=all that never stops while brokers die under it."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self.acknowledged: dict[bytes, int] = {}
        self.failures: list[Any] = []
        self.topic = topic
        self.sent = 0
        self.stopping = threading.Event()
        self.producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 1,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 50,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        while not self.stopping.is_set():
            value = b"%d" % self.sent
            self.sent += 1
            self.producer.produce(self.topic, value, on_delivery=self._delivered)
            self.producer.poll(0)
            if self.sent % 50 == 0:
                self.producer.poll(0.005)
        assert self.producer.flush(60) == 0

    def _delivered(self, error: Any, message: Any) -> None:
        if error:
            self.failures.append(error)
        else:
            self.acknowledged[message.value()] = message.offset()


def test_a_killed_broker_loses_no_acknowledged_record_and_doubles_none(trials: int, seed: int) -> None:
    chance = random.Random(seed)
    with Broker(num_partitions="1") as broker:
        writer = Writer(broker.bootstrap, "survivors")
        writer.start()
        slowest = 0.0
        for _ in range(trials):
            time.sleep(chance.uniform(0.05, 0.6))
            broker.kill()
            began = time.monotonic()
            broker.start()
            slowest = max(slowest, time.monotonic() - began)
        writer.stopping.set()
        writer.join(120)
        assert not writer.failures
        found = read_all(broker.bootstrap, "survivors")
    print(
        f"{trials} kills, {writer.sent} records sent, {len(writer.acknowledged)} acknowledged, back in {slowest:.2f} s"
    )
    assert len(found) == len(set(found.values()))
    assert len(writer.acknowledged) == writer.sent
    assert {offset: found.get(offset) for offset in writer.acknowledged.values()} == {
        offset: value for value, offset in writer.acknowledged.items()
    }
    assert slowest < SERVING_AGAIN_WITHIN_S


def read_all(bootstrap: str, topic: str) -> dict[int, bytes]:
    """Return offset and value of every record of partition 0."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, "check.crcs": True}
    )
    partition = confluent_kafka.TopicPartition(topic, 0, 0)
    _, end = consumer.get_watermark_offsets(partition, timeout=10)
    consumer.assign([partition])
    found: dict[int, bytes] = {}
    deadline = time.monotonic() + 60
    while len(found) < end and time.monotonic() < deadline:
        for message in consumer.consume(1000, 0.2):
            assert message.error() is None
            offset, value = message.offset(), message.value()
            assert offset is not None
            assert value is not None
            found[offset] = value
    consumer.close()
    return found
