"""Spark's Kafka source and sink, unchanged: batches and streams, with all options that choose records."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from compat_tests.support.brokers import ApacheKafka, Broker, Ottla, running
from compat_tests.support.clients import CONSUMERS, PATIENCE_S, PRODUCERS, Sent, create_topic

# Its types do not tell what it exports.
librdkafka: Any = confluent_kafka
pytestmark = pytest.mark.slow

RECORDS = [
    Sent(b"key", b"value"),
    Sent(None, b"no key"),
    Sent(b"tombstone", None),
    Sent(b"headers", b"some", (("trace", b"1"), ("trace", b"2"), ("empty", None))),
]
SCHEMA = "key binary, value binary, headers array<struct<key: string, value: binary>>, partition int"
# An hour ago in milliseconds, because records older than a week may be deleted at any time.
NOON = int(time.time()) * 1000 - 3_600_000


class Kafka:
    """Spark's connector on one broker."""

    def __init__(self, spark: Any, broker: Broker) -> None:
        self.spark = spark
        self.bootstrap = broker.bootstrap

    def read(self, **options: str) -> list[Any]:
        """Read a batch, in the order of partitions and offsets."""
        frame = self._with(self.spark.read, options).load()
        return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))

    def records(self, topic: str) -> list[Sent]:
        """Read a topic with its headers."""
        rows = self.read(subscribe=topic, includeHeaders="true")
        return [Sent(row.key, row.value, tuple((h.key, h.value) for h in row.headers or ())) for row in rows]

    def values(self, **options: str) -> list[bytes]:
        """Read the values of a batch."""
        return [bytes(row.value) for row in self.read(**options)]

    def write(self, topic: str, records: Sequence[Sent], partition: int | None = 0) -> None:
        """Write a batch, headers included."""
        rows = [(r.key, r.value, list(r.headers) or None, partition) for r in records]
        # In one task, to keep their order.
        frame = self.spark.createDataFrame(rows, SCHEMA).coalesce(1)
        self._with(frame.write, {"topic": topic, "includeHeaders": "true"}).save()

    def copy(self, target: str, checkpoint: Path, **options: str) -> list[int]:
        """Stream the current records to another topic; return the count of records of each batch."""
        source = self._with(self.spark.readStream, {"startingOffsets": "earliest", **options}).load()
        sink = self._with(source.select("key", "value").writeStream, {"topic": target})
        query = sink.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(60)
            return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
        finally:
            query.stop()

    @contextmanager
    def copying(self, target: str, checkpoint: Path, trigger: dict[str, str], **options: str) -> Iterator[None]:
        """Stream all records to another topic during the block."""
        source = self._with(self.spark.readStream, {"startingOffsets": "earliest", **options}).load()
        sink = self._with(source.select("key", "value").writeStream, {"topic": target})
        query = sink.option("checkpointLocation", str(checkpoint)).trigger(**trigger).start()
        try:
            yield
            assert query.exception() is None
        finally:
            query.stop()

    def _with(self, reader_or_writer: Any, options: dict[str, str]) -> Any:
        options = {name.replace("_", "."): value for name, value in options.items()}
        return reader_or_writer.format("kafka").option("kafka.bootstrap.servers", self.bootstrap).options(**options)


@pytest.fixture
def kafka(spark: Any, broker: Broker) -> Kafka:
    """Return Spark's connector on the broker under test."""
    return Kafka(spark, broker)


def fill(broker: Broker, topic: str, partition: int, values: Sequence[bytes]) -> None:
    """Write values a second apart, beginning at noon."""
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=partition, timestamp=NOON + 1000 * number)
    assert producer.flush(PATIENCE_S) == 0


def groups(broker: Broker) -> list[str]:
    """Return the names of all groups."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    found = admin.list_consumer_groups(request_timeout=PATIENCE_S).result(PATIENCE_S)
    assert not found.errors
    return [each.group_id for each in found.valid]


def wait_for_values(broker: Broker, topic: str, values: Sequence[bytes]) -> None:
    """Wait for a topic to have these values and no others; some may be there twice."""
    deadline = time.monotonic() + PATIENCE_S
    found: list[bytes | None] = []
    while set(found) != set(values):
        assert time.monotonic() < deadline, found
        found = [sent.value for sent in CONSUMERS["confluent-kafka"](broker.bootstrap, topic, len(found) + 1)]


def numbered(prefix: str, start: int, stop: int) -> list[bytes]:
    """Return distinct values."""
    return [f"{prefix}{number}".encode() for number in range(start, stop)]


@pytest.fixture
def filled(broker: Broker, topic: str) -> str:
    """Create a topic of two partitions with the records a0 to a4 and b0 to b4; return its name."""
    create_topic(broker.bootstrap, topic, partitions=2)
    fill(broker, topic, 0, numbered("a", 0, 5))
    fill(broker, topic, 1, numbered("b", 0, 5))
    return topic


def test_spark_reads_the_batch_that_it_wrote_with_keys_nulls_and_headers(
    broker: Broker, kafka: Kafka, topic: str
) -> None:
    create_topic(broker.bootstrap, topic, partitions=2)
    kafka.write(topic, RECORDS, partition=1)
    kafka.write(topic, RECORDS[:1], partition=0)
    assert kafka.records(topic) == [RECORDS[0], *RECORDS]
    rows = kafka.read(subscribe=topic)
    assert "headers" not in rows[0]
    assert [(row.topic, row.partition, row.offset) for row in rows[1:]] == [(topic, 1, at) for at in range(4)]
    assert {row.timestampType for row in rows} == {0}


def test_librdkafka_reads_what_spark_wrote_and_the_other_way_round(broker: Broker, kafka: Kafka, topic: str) -> None:
    create_topic(broker.bootstrap, topic)
    kafka.write(topic, RECORDS)
    assert CONSUMERS["confluent-kafka"](broker.bootstrap, topic, len(RECORDS)) == RECORDS
    create_topic(broker.bootstrap, f"{topic}-back")
    PRODUCERS["confluent-kafka"](broker.bootstrap, f"{topic}-back", RECORDS, "lz4")
    assert kafka.records(f"{topic}-back") == RECORDS


def test_spark_spreads_records_without_a_partition_and_creates_the_topic_on_the_way(kafka: Kafka, topic: str) -> None:
    kafka.write(topic, [Sent(b"%d" % number, b"v") for number in range(20)], partition=None)
    assert sorted(int(row.key) for row in kafka.read(subscribe=topic)) == list(range(20))


def test_offsets_as_json_bound_a_batch(kafka: Kafka, filled: str) -> None:
    starting, ending = json.dumps({filled: {"0": 2, "1": -2}}), json.dumps({filled: {"0": 4, "1": -1}})
    found = kafka.values(subscribe=filled, startingOffsets=starting, endingOffsets=ending)
    assert found == [*numbered("a", 2, 4), *numbered("b", 0, 5)]


def test_timestamps_bound_a_batch(kafka: Kafka, filled: str) -> None:
    starting = json.dumps({filled: {"0": NOON + 1500, "1": NOON}})
    ending = json.dumps({filled: {"0": NOON + 4000, "1": NOON + 2000}})
    found = kafka.values(subscribe=filled, startingOffsetsByTimestamp=starting, endingOffsetsByTimestamp=ending)
    assert found == [*numbered("a", 2, 4), *numbered("b", 0, 2)]
    one_time = {"startingTimestamp": str(NOON + 3000), "endingTimestamp": str(NOON + 9000)}
    assert kafka.values(subscribe=filled, **one_time) == [*numbered("a", 3, 5), *numbered("b", 3, 5)]


def test_a_timestamp_behind_all_records_fails_or_means_the_end(kafka: Kafka, filled: str) -> None:
    late = {"subscribe": filled, "startingTimestamp": str(NOON + 9000)}
    with pytest.raises(Exception, match="No offset matched"):
        kafka.read(**late)
    assert kafka.values(startingOffsetsByTimestampStrategy="latest", **late) == []


def test_topics_are_found_by_pattern(broker: Broker, kafka: Kafka, filled: str) -> None:
    create_topic(broker.bootstrap, f"{filled}-more")
    fill(broker, f"{filled}-more", 0, [b"c0"])
    create_topic(broker.bootstrap, f"not-{filled}")
    fill(broker, f"not-{filled}", 0, [b"d0"])
    found = kafka.values(subscribePattern=f"^{filled}(-.*)?$")
    assert found == [*numbered("a", 0, 5), *numbered("b", 0, 5), b"c0"]


def test_partitions_are_assigned(kafka: Kafka, filled: str) -> None:
    assert kafka.values(assign=json.dumps({filled: [1]})) == numbered("b", 0, 5)


def test_a_partition_is_read_in_several_slices(kafka: Kafka, filled: str) -> None:
    assert kafka.values(subscribe=filled, minPartitions="5") == [*numbered("a", 0, 5), *numbered("b", 0, 5)]


def test_committed_records_are_read(kafka: Kafka, filled: str) -> None:
    found = kafka.values(subscribe=filled, kafka_isolation_level="read_committed")
    assert found == [*numbered("a", 0, 5), *numbered("b", 0, 5)]


def test_a_stream_goes_on_where_its_checkpoint_ends(broker: Broker, kafka: Kafka, filled: str, tmp_path: Path) -> None:
    target = f"{filled}-copy"
    create_topic(broker.bootstrap, target)
    assert kafka.copy(target, tmp_path, subscribe=filled) == [10]
    fill(broker, filled, 0, numbered("a", 5, 8))
    assert kafka.copy(target, tmp_path, subscribe=filled, kafka_isolation_level="read_committed") == [3]
    assert kafka.copy(target, tmp_path, subscribe=filled) == []
    assert sorted(kafka.values(subscribe=target)) == [*numbered("a", 0, 8), *numbered("b", 0, 5)]


def test_a_stream_that_looks_for_offsets_as_consumers_do_is_in_the_group_that_it_names(
    broker: Broker, kafka: Kafka, filled: str, tmp_path: Path
) -> None:
    target = f"{filled}-copy"
    create_topic(broker.bootstrap, target)
    # Because otherwise Spark uses an admin client, and joins no group.
    as_consumers_do = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
    kafka.spark.conf.set(as_consumers_do, "true")
    try:
        assert kafka.copy(target, tmp_path / "named", subscribe=filled, kafka_group_id=f"{filled}-named") == [10]
        assert kafka.copy(target, tmp_path / "own", subscribe=filled, groupIdPrefix=f"{filled}-own") == [10]
    finally:
        kafka.spark.conf.unset(as_consumers_do)
    named, own = sorted(each for each in groups(broker) if each.startswith(f"{filled}-"))
    assert named == f"{filled}-named"
    assert own.startswith(f"{filled}-own")


def test_a_stream_takes_no_more_at_a_time_than_it_was_told(
    broker: Broker, kafka: Kafka, filled: str, tmp_path: Path
) -> None:
    target = f"{filled}-copy"
    create_topic(broker.bootstrap, target)
    assert kafka.copy(target, tmp_path, subscribe=filled, maxOffsetsPerTrigger="4") == [4, 4, 2]
    assert sorted(kafka.values(subscribe=target)) == [*numbered("a", 0, 5), *numbered("b", 0, 5)]


@pytest.mark.parametrize("trigger", ["processingTime", "continuous"])
def test_a_running_stream_finds_new_partitions(
    broker: Broker, kafka: Kafka, topic: str, tmp_path: Path, trigger: str
) -> None:
    target = f"{topic}-copy"
    for each in (topic, target):
        create_topic(broker.bootstrap, each)
    fill(broker, topic, 0, numbered("a", 0, 5))
    # A continuous stream has a task for each partition, and Spark has two processors here.
    with kafka.copying(target, tmp_path, {trigger: "200 milliseconds"}, subscribe=topic):
        wait_for_values(broker, target, numbered("a", 0, 5))
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result(PATIENCE_S)
        fill(broker, topic, 1, numbered("b", 0, 5))
        wait_for_values(broker, target, [*numbered("a", 0, 5), *numbered("b", 0, 5)])


def test_a_stream_notices_new_partitions_and_deleted_records(
    broker: Broker, kafka: Kafka, filled: str, tmp_path: Path
) -> None:
    target = f"{filled}-copy"
    create_topic(broker.bootstrap, target)
    assert kafka.copy(target, tmp_path, subscribe=filled) == [10]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([NewPartitions(filled, 3)])[filled].result(PATIENCE_S)
    fill(broker, filled, 2, [b"c0"])
    assert kafka.copy(target, tmp_path, subscribe=filled) == [1]
    fill(broker, filled, 0, numbered("a", 5, 8))
    deleted = confluent_kafka.TopicPartition(filled, 0, 7)
    assert admin.delete_records([deleted])[deleted].result(PATIENCE_S).low_watermark == 7
    with pytest.raises(Exception, match="Some data may have been lost"):
        kafka.copy(target, tmp_path, subscribe=filled)
    assert kafka.copy(target, tmp_path, subscribe=filled, failOnDataLoss="false") == [1]
    assert kafka.values(subscribe=target)[-2:] == [b"c0", b"a7"]


@pytest.mark.parametrize("kind", [Ottla, ApacheKafka], ids=["ottla", "kafka"])
def test_a_stream_notices_that_retention_has_passed_it(
    kind: type[Broker], spark: Any, topic: str, tmp_path: Path
) -> None:
    often = ("log.initial.task.delay.ms=100", "log.retention.check.interval.ms=100")
    with running(kind, often) as broker:
        kafka, target = Kafka(spark, broker), f"{topic}-copy"
        for each in (topic, target):
            create_topic(broker.bootstrap, each)
        fill(broker, topic, 0, numbered("a", 0, 5))
        assert kafka.copy(target, tmp_path, subscribe=topic) == [5]
        fill(broker, topic, 0, numbered("a", 5, 8))
        admin: Any = AdminClient({"bootstrap.servers": broker.bootstrap})
        minute = librdkafka.admin.ConfigEntry(
            "retention.ms", "60000", incremental_operation=librdkafka.admin.AlterConfigOpType.SET
        )
        resource = librdkafka.admin.ConfigResource("topic", topic, incremental_configs=[minute])
        admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)
        first, deadline = librdkafka.TopicPartition(topic, 0), time.monotonic() + PATIENCE_S
        while admin.list_offsets({first: librdkafka.admin.OffsetSpec.earliest()})[first].result(PATIENCE_S).offset < 8:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        kafka.write(topic, [Sent(None, b"a8")])
        with pytest.raises(Exception, match="Some data may have been lost"):
            kafka.copy(target, tmp_path, subscribe=topic)
        assert kafka.copy(target, tmp_path, subscribe=topic, failOnDataLoss="false") == [1]
        assert kafka.values(subscribe=target) == [*numbered("a", 0, 5), b"a8"]
