"""Kill -9 while an idempotent producer writes: what was acknowledged is there, and there once."""

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest

from ottla import Broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
SERVING_AGAIN_WITHIN_S = 2.0
PATIENCE_S = 60.0


class Writer(threading.Thread):
    """An idempotent producer with acks=all that never stops while brokers die under it."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self.acknowledged: dict[bytes, int] = {}
        self.failures: list[Any] = []
        self.topic = topic
        self.sent = 0
        self.unsent = -1
        self.last_heard = time.monotonic()
        self.longest_silence = 0.0
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
            try:
                self.producer.produce(self.topic, b"%d" % self.sent, on_delivery=self._delivered)
                self.sent += 1
            except BufferError:
                self.producer.poll(0.05)
            self.producer.poll(0)
            if self.sent % 50 == 0:
                self.producer.poll(0.005)
        self.unsent = self.producer.flush(60)

    def wait_for_acknowledgement(self) -> None:
        """Return when the broker that runs now has acknowledged something."""
        began = time.monotonic()
        while self.last_heard <= began:
            assert time.monotonic() - began < PATIENCE_S, f"no acknowledgement for {PATIENCE_S} s"
            time.sleep(0.005)

    def _delivered(self, error: Any, message: Any) -> None:
        if error:
            self.failures.append(error)
        else:
            now = time.monotonic()
            self.longest_silence = max(self.longest_silence, now - self.last_heard)
            self.last_heard = now
            self.acknowledged[message.value()] = message.offset()


def test_a_killed_broker_loses_no_acknowledged_record_and_doubles_none(
    trials: int, seed: int, tell: Callable[[str], None]
) -> None:
    chance = random.Random(seed)
    with Broker(num_partitions="1") as broker:
        writer = Writer(broker.bootstrap, "survivors")
        writer.start()
        restarts = []
        for _ in range(trials):
            time.sleep(chance.uniform(0.05, 0.6))
            broker.kill()
            began = time.monotonic()
            broker.start()
            restarts.append(time.monotonic() - began)
            # A kill proves something only if the producer was at work.
            writer.wait_for_acknowledgement()
        writer.stopping.set()
        writer.join(120)
        assert not writer.failures
        assert writer.unsent == 0, broker.output[-4000:]
        found = read_all(broker.bootstrap, "survivors")
    restarts.sort()
    tell(
        f"{trials} kills, {writer.sent} records sent, {len(writer.acknowledged)} acknowledged; serving again after "
        f"{restarts[len(restarts) // 2]:.2f} s (median) and {restarts[-1]:.2f} s (slowest); "
        f"no acknowledgement for {writer.longest_silence:.1f} s at most"
    )
    assert len(found) == len(set(found.values()))
    assert len(writer.acknowledged) == writer.sent
    assert {offset: found.get(offset) for offset in writer.acknowledged.values()} == {
        offset: value for value, offset in writer.acknowledged.items()
    }
    # Other tests may hold the processors for a moment: nine in ten must make it, and the slowest is told.
    assert restarts[len(restarts) * 9 // 10 - 1] < SERVING_AGAIN_WITHIN_S


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
