"""Spark reads from the directories of brokers what it reads from the brokers themselves."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from compat_tests.support.brokers import ApacheKafka, Broker, Ottla, running
from compat_tests.support.clients import CODECS, PATIENCE_S, create_topic
from ottla.log.state.checkpoint import HIGH_WATERMARK_FILE, read_offsets
from ottla.wire.types import TopicPartition as LogPartition

pytestmark = pytest.mark.slow

OFTEN = (
    *("replica.high.watermark.checkpoint.interval.ms=50", "log.retention.check.interval.ms=100"),
    *("log.initial.task.delay.ms=100", "log.cleaner.backoff.ms=100", "log.segment.delete.delay.ms=0"),
    "log.cleaner.enable=true",
)
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"}


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    from ottla.pipeline.log_source import register

    register(spark)
    return spark


def eventually(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def produce(broker: Broker, topic: str, count: int, **settings: str) -> None:
    """Write records of all kinds."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "batch.size": "3000", **settings})
    for number in range(count):
        key = None if number % 5 == 0 else b"%d" % (number % 40)
        value = None if number % 7 == 0 else b"%d " % number * (number % 30)
        headers: Any = [("h", b"%d" % number), ("none", None), ("", b"")] if number % 3 == 0 else []
        producer.produce(topic, value, key if topic != "table-compacted" else b"%d" % (number % 40), headers=headers)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0


def in_transactions(broker: Broker, topic: str) -> Producer:
    """Write transactions of two producers that overlap; the one that is returned has one open."""
    one, other = (
        Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name}) for name in ("one", "other")
    )
    for producer in (one, other):
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
    for number in range(60):
        producer = other if number % 3 == 0 else one
        producer.produce(topic, b"%d" % number, partition=0)
        producer.flush(PATIENCE_S)
        if number % 7 == 6:
            end = producer.abort_transaction if number % 2 else producer.commit_transaction
            end(PATIENCE_S)
            producer.begin_transaction()
    one.abort_transaction(PATIENCE_S)
    return other


@pytest.fixture(scope="module", params=[Ottla, ApacheKafka], ids=["ottla", "kafka"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with topics of all kinds, of which one was compacted."""
    with running(request.param, OFTEN, tmp_path_factory.mktemp("data")) as broker:
        for codec in CODECS:
            create_topic(broker.bootstrap, f"table-{codec}", partitions=2)
            produce(broker, f"table-{codec}", 500, **{"compression.type": codec})
        create_topic(broker.bootstrap, "table-stamped", config={"message.timestamp.type": "LogAppendTime"})
        produce(broker, "table-stamped", 50)
        create_topic(broker.bootstrap, "table-empty")
        create_topic(broker.bootstrap, "table-compacted", config=COMPACTED)
        for _ in range(3):
            produce(broker, "table-compacted", 400)
            time.sleep(0.2)  # the time by which segments are rolled
        cleaned = broker.data / "log" / "cleaner-offset-checkpoint"
        eventually(lambda: cleaned.exists() and "table-compacted 0 " in cleaned.read_text())
        if request.param is ApacheKafka:
            create_topic(broker.bootstrap, "table-transactions")
            broker.open_transaction = in_transactions(broker, "table-transactions")  # type: ignore[attr-defined]
        yield broker


def rows(frame: Any) -> list[Any]:
    assert frame.columns[-2:] == ["timestampType", "headers"]
    return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))


def from_the_broker(spark: Any, broker: Broker, isolation: str) -> list[Any]:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    options = {"subscribePattern": "table-.*", "includeHeaders": "true", "kafka.isolation.level": isolation}
    return rows(reader.options(**options).load())


def from_the_disk(spark: Any, broker: Broker, isolation: str) -> list[Any]:
    reader = spark.read.format("ottla-log").options(subscribePattern="table-.*", isolation=isolation)
    frame = reader.load(str(broker.data / "log"))
    assert frame.rdd.getNumPartitions() > 10
    return rows(frame)


def committed(broker: Broker, topic: str) -> int:
    """Where a topic ends by what the broker has written down."""
    return read_offsets(broker.data / "log" / HIGH_WATERMARK_FILE).get(LogPartition(topic, 0), 0)


@pytest.mark.timeout(180)
def test_the_disk_has_what_the_broker_serves_while_it_runs_and_when_it_is_stopped(session: Any, broker: Broker) -> None:
    eventually(lambda: committed(broker, "table-compacted") == 1200)
    isolations = ["read_committed", "read_uncommitted"]
    if isinstance(broker, ApacheKafka):
        eventually(lambda: committed(broker, "table-transactions") > 60)
    expected = {each: from_the_broker(session, broker, each) for each in isolations}
    topics = {row.topic for row in expected["read_committed"]}
    assert len(topics) == (8 if isinstance(broker, ApacheKafka) else 7)
    assert len(expected["read_committed"]) > 2550
    assert 40 <= len([row for row in expected["read_committed"] if row.topic == "table-compacted"]) < 900
    if isinstance(broker, ApacheKafka):
        assert len(expected["read_uncommitted"]) > len(expected["read_committed"]) + 10
    for isolation, found in expected.items():
        assert from_the_disk(session, broker, isolation) == found
    broker.stop()
    for isolation, found in expected.items():
        assert from_the_disk(session, broker, isolation) == found


def test_what_cannot_be_read_is_one_clear_line(session: Any, tmp_path: Path) -> None:
    reader = session.read.format("ottla-log").options(path=str(tmp_path), subscribe="nothing")
    with pytest.raises(Exception, match=f"There is no log of nothing in {tmp_path}"):
        reader.load().count()
    with pytest.raises(Exception, match=r"ottla-log: ending is unknown; did you mean endingOffsets\?"):
        reader.option("ending", "5").load().count()


class Copy:
    """A query that copies values to files."""

    def __init__(self, spark: Any, broker: Broker, folder: Path) -> None:
        self._spark = spark
        self._directory = str(broker.data / "log")
        self._folder = folder

    def start(self, **trigger: bool) -> Any:
        source = self._spark.readStream.format("ottla-log").option("path", self._directory).option("subscribe", "s")
        source = source.options(startingOffsets="earliest", maxOffsetsPerTrigger="4000").load()
        sink = source.selectExpr("cast(value as string) value").writeStream.format("parquet")
        sink = sink.option("checkpointLocation", str(self._folder / "checkpoint"))
        return (sink.trigger(**trigger) if trigger else sink).start(str(self._folder / "copied"))

    def copied(self) -> list[int]:
        return sorted(int(row.value) for row in self._spark.read.parquet(str(self._folder / "copied")).collect())


def wait_until_read(query: Any, offset: int) -> None:
    def is_read() -> bool:
        assert query.isActive, query.exception()
        progress = query.lastProgress
        return bool(progress) and json.loads(progress["sources"][0]["endOffset"])["s"]["0"] > offset

    eventually(is_read)


def wait_until_deleted(log: Path, offset: int) -> None:
    eventually(lambda: min(path.name for path in log.glob("*.log")) > f"{offset:020d}.log")


def produce_numbers(broker: Broker, start: int, stop: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "batch.num.messages": 100})
    for number in range(start, stop):
        producer.produce("s", b"%d" % number)
    assert producer.flush(PATIENCE_S) == 0


@pytest.mark.timeout(180)
def test_a_stream_follows_a_broker_that_writes_rolls_and_deletes(session: Any, tmp_path: Path) -> None:
    with running(Ottla, OFTEN) as broker:
        create_topic(broker.bootstrap, "s", config={"segment.bytes": "5000"})
        copy = Copy(session, broker, tmp_path)
        query = copy.start()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for written in (3000, 6000, 9000):
            produce_numbers(broker, written - 3000, written)
            wait_until_read(query, written - 1000)
            deletion = TopicPartition("s", 0, written - 1000)
            assert admin.delete_records([deletion])[deletion].result(PATIENCE_S).low_watermark == written - 1000
            wait_until_deleted(broker.data / "log" / "s-0", written - 2000)
        query.stop()
        produce_numbers(broker, 9000, 18_000)
        eventually(lambda: committed(broker, "s") == 18_000)
        again = copy.start(availableNow=True)
        assert again.awaitTermination(60)
        assert max(progress["numInputRows"] for progress in again.recentProgress) == 4000
        assert copy.copied() == list(range(18_000))
