"""A producer that writes while brokers stop and start, and a reader for the records afterwards."""

import threading
import time
from typing import Any

import confluent_kafka

PATIENCE_S = 60.0


class Writer(threading.Thread):
    """An idempotent producer with acks=all that continues while brokers are killed."""

    def __init__(self, bootstrap: str, topic: str, pause_s: float = 0.005) -> None:
        """`pause_s` is the pause after each 50 records."""
        # A daemon, because a failed test must not wait for it.
        super().__init__(daemon=True)
        self.pause_s = pause_s
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
                # The time after which a paused broker is given up.
                "socket.timeout.ms": 5_000,
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
                # Not a poll of this time, because a poll ends with the next acknowledgement.
                self.stopping.wait(self.pause_s)
        self.unsent = self.producer.flush(120)

    def wait_for_acknowledgement(self) -> None:
        """Wait until the current broker has acknowledged a record."""
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


def read_all(bootstrap: str, topic: str) -> dict[int, bytes]:
    """Return the values of all records of partition 0 by offset."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, "check.crcs": True}
    )
    partition = confluent_kafka.TopicPartition(topic, 0, 0)
    _, end = consumer.get_watermark_offsets(partition, timeout=120)
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
