"""Fills a broker with everything that a log directory may hold, and returns its view by clients, to compare brokers.

Must not import Ottla.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import confluent_kafka
from confluent_kafka.admin import AdminClient

from compat_tests.differential.both import NOON, PerSide, Side, batch
from compat_tests.differential.scenarios.records import fetched, produced
from compat_tests.support.brokers import Broker
from compat_tests.support.clients import CODECS, create_topic

# Its types do not tell what it exports.
librdkafka: Any = confluent_kafka

Partition = tuple[str, int]

PATIENCE_S: Final = 60.0
EARLIEST: Final = librdkafka.admin.OffsetSpec.earliest()
LATEST: Final = librdkafka.admin.OffsetSpec.latest()
GROUPS: Final = ("plain", "in-transaction")
# Settings with which a broker cleans and deletes within the time of a test.
HASTY: Final = (
    *("log.cleaner.backoff.ms=100", "log.retention.check.interval.ms=200", "log.initial.task.delay.ms=100"),
    *("log.segment.delete.delay.ms=100", "log.flush.start.offset.checkpoint.interval.ms=200"),
    *("offsets.topic.num.partitions=3", "transaction.state.log.num.partitions=3"),
    *("group.initial.rebalance.delay.ms=0", "controlled.shutdown.enable=false"),
)
SMALL: Final = {"segment.bytes": str(1 << 20)}
COMPACTED: Final = {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
AGED: Final = {**SMALL, "retention.bytes": str(1 << 20)}
_MANY: Final = 3000
_COMMITTED: Final = librdkafka.IsolationLevel.READ_COMMITTED
_OUT_OF_ORDER: Final = 45
_KILOBYTE: Final = bytes(range(256)) * 4
_MARKED: Final = ("first", b"1"), ("second", None), ("first", b"\xff")


def settled(look: Callable[[], int], is_enough: Callable[[int], bool]) -> None:
    """Wait until a number is enough and has not changed for a second."""
    deadline = time.monotonic() + PATIENCE_S
    since, last = time.monotonic(), look()
    while not is_enough(last) or time.monotonic() < since + 1:
        assert time.monotonic() < deadline, last
        time.sleep(0.1)
        found = look()
        if found != last:
            since, last = time.monotonic(), found


class History:
    """The history of a log directory, which one broker after the other continues."""

    def __init__(self) -> None:
        self.producer_id = -1
        self.sequence = 0
        self.last_offset = -1

    def fill(self, broker: Broker) -> None:
        """Write everything that all brokers support."""
        bootstrap = broker.bootstrap
        for codec in CODECS:
            create_topic(bootstrap, f"codec-{codec}")
            _produce(bootstrap, f"codec-{codec}", 200, codec)
        create_topic(bootstrap, "cut", 1, {"retention.ms": "-1"})
        _produce(bootstrap, "cut", 100, "none")
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        cut = librdkafka.TopicPartition("cut", 0, 51)
        admin.delete_records([cut])[cut].result(PATIENCE_S)
        # Wait, because a broker that is killed before its checkpoint begins at a lower offset again.
        checkpoint = broker.data / "log" / "log-start-offset-checkpoint"
        settled(lambda: checkpoint.exists() and "cut 0 51" in checkpoint.read_text(), bool)
        create_topic(bootstrap, "deleted", 1)
        _produce(bootstrap, "deleted", 10, "none")
        admin.delete_topics(["deleted"])["deleted"].result(PATIENCE_S)
        create_topic(bootstrap, "idempotent", 1)
        self.go_on(broker)
        _commit(bootstrap, "plain", 7)

    def fill_kafka(self, broker: Broker) -> None:
        """Write what only Kafka supports: transactions, and segments that are compacted and deleted."""
        bootstrap = broker.bootstrap
        create_topic(bootstrap, "transactional", 1)
        for number, end in enumerate(("commit_transaction", "abort_transaction", "commit_transaction", "")):
            _transact(bootstrap, number, end)
        _produce(bootstrap, "transactional", 5, "none")
        create_topic(bootstrap, "compacted", 1, COMPACTED)
        create_topic(bootstrap, "aged", 1, AGED)
        for topic in ("compacted", "aged"):
            _produce(bootstrap, topic, _MANY, "none", lambda number: b"%d" % (number % 7) + _KILOBYTE)
        compacted, aged = ("compacted", 0), ("aged", 0)
        settled(lambda: len(read(bootstrap, [compacted])[compacted]), lambda count: count < _MANY / 2)
        settled(lambda: _offsets(bootstrap, [aged], EARLIEST)[aged], lambda offset: offset > 0)

    def go_on(self, broker: Broker) -> None:
        """As an idempotent producer, send the last batch again, then the next one, then one after a gap."""
        with contextlib.closing(Side(broker)) as side:
            if self.producer_id < 0:
                fields = {"transactional_id": None, "transaction_timeout_ms": 0}
                self.producer_id = side.ask("InitProducerId", 1, fields)["producer_id"]
            else:
                assert _sent(side, self.producer_id, self.sequence - 3) == (0, self.last_offset)
            error, self.last_offset = _sent(side, self.producer_id, self.sequence)
            assert error == 0
            self.sequence += 3
            assert _sent(side, self.producer_id, self.sequence + 1)[0] == _OUT_OF_ORDER


def _sent(side: Side, producer_id: int, sequence: int) -> tuple[int, int]:
    """Return the error and the offset of a batch, sent again until the broker serves."""
    data = batch(3, producer=PerSide(producer_id, producer_id), sequence=sequence).ottla
    answer = side.ask("Produce", 7, {"transactional_id": None, **produced("idempotent", data)})
    (found,) = answer["responses"][0]["partition_responses"]
    return found["error_code"], found["base_offset"]


def _produce(
    bootstrap: str, topic: str, count: int, codec: str, value: Callable[[int], bytes] = lambda number: b"%d" % number
) -> None:
    """Write records of all kinds to partition 0, with timestamps a second apart."""
    producer = librdkafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "enable.idempotence": True,
            "linger.ms": 20,
            "batch.size": 100_000,
            "log_level": 0,
        }
    )
    failures: list[Any] = []
    for number in range(count):
        producer.produce(
            topic,
            None if number % 10 == 8 else value(number),
            None if number % 10 == 9 and topic != "compacted" else b"key %d" % (number % 20),
            partition=0,
            timestamp=NOON + number,
            headers=list(_MARKED) if number % 3 == 0 else None,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(PATIENCE_S) == 0
    assert not failures, failures[0]


def _transact(bootstrap: str, number: int, end: str) -> None:
    """Write a transaction with offsets of a group, and end it unless `end` is empty."""
    producer = librdkafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": f"transaction-{number}",
            "transaction.timeout.ms": 900_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    for each in range(10):
        producer.produce("transactional", b"%d" % each, b"transaction %d" % number, partition=0, timestamp=NOON)
    consumer = librdkafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "in-transaction", "log_level": 0})
    offsets = [
        librdkafka.TopicPartition("codec-none", 0, 10 + number),
        librdkafka.TopicPartition(f"codec-{CODECS[1 + number]}", 0, 3),
    ]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), PATIENCE_S)
    consumer.close()
    assert producer.flush(PATIENCE_S) == 0
    if end:
        getattr(producer, end)(PATIENCE_S)


def _commit(bootstrap: str, group: str, offset: int) -> None:
    consumer = librdkafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    consumer.commit(offsets=[librdkafka.TopicPartition("codec-none", 0, offset, "note")], asynchronous=False)
    consumer.close()


# The view of clients


def observed(broker: Broker) -> dict[str, Any]:
    """Return everything that clients see of a broker's topics and groups, in the same form for all brokers."""
    bootstrap = broker.bootstrap
    with contextlib.closing(Side(broker)) as side:
        topics = _topics(side)
        groups = _offsets_of_groups(side)
        aborted = _aborted_transactions(side) if "transactional" in topics else []
    partitions = [(topic, index) for topic, (_, count) in topics.items() for index in range(count)]
    return {
        "topics": topics,
        "groups": groups,
        "aborted": aborted,
        "configs": _configs(bootstrap, list(topics)),
        "earliest": _offsets(bootstrap, partitions, EARLIEST),
        "latest": _offsets(bootstrap, partitions, LATEST),
        "stable": _offsets(bootstrap, partitions, LATEST, isolation_level=_COMMITTED),
        "all": read(bootstrap, partitions),
        "committed": read(bootstrap, partitions, "read_committed"),
    }


def _topics(side: Side) -> dict[str, tuple[str, int]]:
    """Return the id and the partition count of each topic, after all partitions have leaders."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        described = side.ask("Metadata", 10, {"topics": None, "allow_auto_topic_creation": False})["topics"]
        leaders = [partition["leader_id"] for each in described for partition in each["partitions"]]
        if leaders and min(leaders) >= 0:
            break
        # The broker does not have the controller's metadata yet.
        assert time.monotonic() < deadline, described
        time.sleep(0.1)
    return {
        each["name"]: (str(each["topic_id"]), len(each["partitions"])) for each in described if not each["is_internal"]
    }


def _offsets_of_groups(side: Side) -> list[Any]:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        asked = {"groups": [{"group_id": each, "topics": None} for each in GROUPS], "require_stable": False}
        found = side.ask("OffsetFetch", 8, asked)["groups"]
        if not any(each["error_code"] for each in found):
            break
        # The groups are being loaded.
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    return sorted(
        repr((group["group_id"], topic["name"], sorted(map(repr, topic["partitions"]))))
        for group in found
        for topic in group["topics"]
    )


def _aborted_transactions(side: Side) -> list[Any]:
    """Return the aborted transactions in fetch responses, from each offset on."""
    found = []
    for offset in range(0, 30, 3):
        # A broker that has just started may have to check a segment first.
        request = {**fetched("transactional", offset), "max_wait_ms": 5000, "min_bytes": 1}
        answer = side.ask("Fetch", 11, {**request, "isolation_level": 1, "rack_id": ""})
        found.append(answer["responses"][0]["partitions"][0]["aborted_transactions"])
    assert any(found)
    return found


def _configs(bootstrap: str, topics: list[str]) -> dict[str, dict[str, str]]:
    """Return the configs that were set for topics."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    asked = [librdkafka.admin.ConfigResource(librdkafka.admin.ResourceType.TOPIC, topic) for topic in topics]
    dynamic = librdkafka.admin.ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {
        resource.name: {each.name: each.value for each in future.result(PATIENCE_S).values() if each.source == dynamic}
        for resource, future in admin.describe_configs(asked).items()
    }


def _offsets(bootstrap: str, partitions: Sequence[Partition], spec: Any, **options: Any) -> dict[Partition, int]:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    asked = {librdkafka.TopicPartition(*each): spec for each in partitions}
    found = admin.list_offsets(asked, **options)
    return {(each.topic, each.partition): int(future.result(PATIENCE_S).offset) for each, future in found.items()}


def read(
    bootstrap: str, partitions: Sequence[Partition], isolation: str = "read_uncommitted"
) -> dict[Partition, list[Any]]:
    """Return all records that a reader with this isolation level may see."""
    consumer = librdkafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "log_level": 0,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "check.crcs": True,
        }
    )
    consumer.assign([librdkafka.TopicPartition(*each, librdkafka.OFFSET_BEGINNING) for each in partitions])
    deadline = time.monotonic() + PATIENCE_S
    found: dict[Partition, list[Any]] = {each: [] for each in partitions}
    left = set(partitions)
    while left:
        assert time.monotonic() < deadline, f"{left} do not end"
        for message in consumer.consume(1000, 0.1):
            partition = message.topic(), message.partition()
            if message.error() is None:
                headers = tuple(message.headers() or ())
                one = message.offset(), message.timestamp(), message.key(), message.value(), headers
                found[partition].append(one)
            else:
                assert message.error().code() == librdkafka.KafkaError._PARTITION_EOF, message.error()
                left.discard(partition)
    consumer.close()
    return found
