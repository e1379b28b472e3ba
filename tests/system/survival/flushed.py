"""A load that a power cut ends: records and topics that were flushed before their acknowledgement are there."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from compat_tests.support.brokers import Ottla
from tests.support.disks import Disk
from tests.system.survival import Fault

SAFE, ALSO_SAFE, BY_DEFAULT, SHORT = "safe", "also-safe", "by-default", "short"
# Small segments, so that segments roll and are deleted all the time.
TOPICS = {
    SAFE: {"flush.messages": "1"},
    ALSO_SAFE: {"flush.messages": "1", "segment.bytes": "20000"},
    BY_DEFAULT: {"segment.bytes": "20000"},
    SHORT: {"flush.messages": "1", "segment.bytes": "20000", "retention.bytes": "60000"},
}
OFTEN_MS = {
    "log.initial.task.delay.ms": 100,
    "log.retention.check.interval.ms": 100,
    "log.flush.offset.checkpoint.interval.ms": 300,
    "log.flush.start.offset.checkpoint.interval.ms": 300,
    "replica.high.watermark.checkpoint.interval.ms": 300,
}
PATIENCE_S = 60.0


class Producer(threading.Thread):
    """Writes to one topic until the power fails."""

    def __init__(self, bootstrap: str, topic: str, trial: int) -> None:
        super().__init__(daemon=True)
        self.topic = topic
        self.acknowledged: dict[int, bytes] = {}
        self.hears = True
        self.power_fails = threading.Event()
        self._trial = trial
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1, "log_level": 0}
        )

    def run(self) -> None:
        sent = 0
        while not self.power_fails.is_set():
            try:
                self._producer.produce(self.topic, b"%d/%d" % (self._trial, sent), on_delivery=self._delivered)
                sent += 1
            except BufferError:
                self._producer.poll(0.01)
            self._producer.poll(0)
            if sent % 50 == 0:
                self.power_fails.wait(0.005)
        self._producer.purge()
        self._producer.flush(5)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None and self.hears:
            self.acknowledged[message.offset()] = message.value()


class Creator(threading.Thread):
    """Creates topics until the power fails."""

    def __init__(self, bootstrap: str, trial: int) -> None:
        super().__init__(daemon=True)
        self.acknowledged: set[str] = set()
        self.hears = True
        self.power_fails = threading.Event()
        self._trial = trial
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def run(self) -> None:
        for number in range(1000):
            if self.power_fails.wait(0.01):
                return
            name = f"created-{self._trial}-{number}"
            try:
                self._admin.create_topics([NewTopic(name, 1, 1)], request_timeout=3)[name].result(4)
            except confluent_kafka.KafkaException:
                return
            if self.hears:
                self.acknowledged.add(name)


def create(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(name, 1, 1, config=config) for name, config in TOPICS.items()]
    for created in admin.create_topics(topics).values():
        created.result(120)


def topics_of(bootstrap: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=120).topics)


def read_all(bootstrap: str, topic: str) -> tuple[int, dict[int, bytes]]:
    """Return the log end and all records."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "check.crcs": True})
    try:
        # Retention goes on, so the start of a moment ago may be deleted.
        partition = confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)
        end = end_of(consumer, partition)
        consumer.assign([partition])
        found: dict[int, bytes] = {}
        deadline = time.monotonic() + PATIENCE_S
        while end and end - 1 not in found:
            assert time.monotonic() < deadline, f"{topic} ends at {end}, found {max(found, default=None)}"
            for message in consumer.consume(1000, 0.2):
                assert message.error() is None, message.error()
                offset, value = message.offset(), message.value()
                assert offset is not None
                assert value is not None
                found[offset] = value
        return end, found
    finally:
        consumer.close()


def end_of(consumer: confluent_kafka.Consumer, partition: confluent_kafka.TopicPartition) -> int:
    """Return the high watermark, once the broker has flushed again: before that it hides the records."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return consumer.get_watermark_offsets(partition, timeout=120)[1]
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() != confluent_kafka.KafkaError.OFFSET_NOT_AVAILABLE or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def wait_for_work(producers: Sequence[Producer], creator: Creator, short: Path) -> None:
    """Wait until all clients have acknowledgements, and a segment of the `short` log was deleted."""
    deadline = time.monotonic() + PATIENCE_S
    first = min(short.glob("*.log"))
    while (
        first.exists() or not creator.acknowledged or any(len(producer.acknowledged) <= 100 for producer in producers)
    ):
        assert time.monotonic() < deadline, "nothing is acknowledged, or deleted"
        time.sleep(0.01)


def check(bootstrap: str, acknowledged: dict[str, dict[int, bytes]], starts: dict[str, int]) -> int:
    """Check that acknowledged flushed records are there; return how many unflushed records are lost.

    `starts`: the log starts at the last check; records below them stay deleted.
    """
    lost = 0
    for topic, by_offset in acknowledged.items():
        end, found = read_all(bootstrap, topic)
        start = min(found, default=end)
        assert sorted(found) == list(range(start, end)), f"{topic} has a gap"
        assert start == 0 or topic == SHORT
        assert start >= starts[topic]
        starts[topic] = start
        there = {offset: value for offset, value in by_offset.items() if start <= offset < end}
        assert {offset: found[offset] for offset in there} == there
        behind = [offset for offset in by_offset if offset >= end]
        assert not behind or topic == BY_DEFAULT, f"{topic} ends at {end} and lost {len(behind)} acknowledged records"
        lost += len(behind)
        for offset in behind:
            del by_offset[offset]
    return lost


class Flushed:
    """Producers to flushed topics and to an unflushed one, and a client that creates topics."""

    def __init__(self, bootstrap: str, logs: Path) -> None:
        create(bootstrap)
        self.bootstrap = bootstrap
        self.short = logs / f"{SHORT}-0"
        self.acknowledged: dict[str, dict[int, bytes]] = {topic: {} for topic in TOPICS}
        self.starts = dict.fromkeys(TOPICS, 0)
        self.created: set[str] = set()
        self.lost = self.trial = 0

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        if kind is None:
            self.end()

    def _start(self) -> None:
        self.producers = [Producer(self.bootstrap, topic, self.trial) for topic in TOPICS]
        self.creator = Creator(self.bootstrap, self.trial)
        self.workers: list[Producer | Creator] = [*self.producers, self.creator]
        self.trial += 1
        for worker in self.workers:
            worker.start()

    def wait_until_at_work(self) -> None:
        """Wait until all clients have acknowledgements."""
        wait_for_work(self.producers, self.creator, self.short)

    def hear_nothing(self) -> None:
        """Ignore acknowledgements from now on, because ext4 may let an fsync succeed while it shuts down."""
        for worker in self.workers:
            worker.hears = False

    def end(self) -> None:
        """End the work, and keep all acknowledgements."""
        for worker in self.workers:
            worker.power_fails.set()
        for worker in self.workers:
            worker.join(PATIENCE_S)
            assert not worker.is_alive()
        self.created |= self.creator.acknowledged
        for producer in self.producers:
            self.acknowledged[producer.topic] |= producer.acknowledged

    def remember(self) -> None:
        """Do nothing, because the acknowledgements were kept at the end of the work."""

    def check_now(self) -> None:
        """Check that all flushed records are there, and start new clients."""
        self._check()
        self._start()

    def _check(self) -> None:
        self.lost += check(self.bootstrap, self.acknowledged, self.starts)
        assert self.created <= topics_of(self.bootstrap)

    def check(self) -> str:
        """Check the same of records after the last power cut."""
        self._check()
        assert self.starts[SHORT] > 0, "no segment was ever deleted"
        safe = sum(len(by_offset) for topic, by_offset in self.acknowledged.items() if topic != BY_DEFAULT)
        return (
            f"{safe} records that were flushed and {len(self.created)} topics acknowledged, none lost; "
            f"of {len(self.acknowledged[BY_DEFAULT]) + self.lost} others {self.lost} lost, all at the end of their log"
        )


class PowerCut(Fault):
    """The power of the disk fails and comes back."""

    between_s = (0.0, 1.0)

    def __init__(self, broker: Ottla, power: Disk, load: Flushed) -> None:
        self.broker = broker
        self.power = power
        self.load = load
        self.cuts = 0

    def strike(self) -> None:
        """Cut the power of the disk, and kill the broker."""
        self.cuts += 1
        self.load.hear_nothing()
        self.power.cut_power()
        self.load.end()
        self.broker.kill()

    def recover(self) -> None:
        """Start the broker with the files that the disk kept."""
        self.power.power_on()
        self.broker.start()

    def check(self) -> str:
        """Do nothing, because the fault has no checks."""
        self.broker.stop()
        return f"{self.cuts} power cuts"
