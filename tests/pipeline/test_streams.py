"""Streams in Python and jobs with tables, between topics of a real broker."""

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from compat_tests.support.clients import create_topic
from ottla import Broker
from ottla.pipeline import streams
from ottla.pipeline.checkpoint import Checkpoint
from ottla.pipeline.dead_letters import BadRecordError
from ottla.pipeline.job import Job
from ottla.pipeline.job_file import read_settings
from ottla.pipeline.running import JobFailedError, Running
from ottla.pipeline.settings import JobError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

NOON_MS = 1704110400000


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap


def create(bootstrap: str, *topics: str, **config: str) -> None:
    for topic in topics:
        create_topic(bootstrap, topic, 3, config)


def produce(bootstrap: str, topic: str, *records: tuple[str, str | None, int]) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for key, value, second in records:
        producer.produce(topic, value, key, timestamp=NOON_MS + 1000 * second)
    assert producer.flush(120) == 0


def newest(bootstrap: str, topic: str) -> tuple[dict[bytes, bytes], int]:
    """What compaction would leave of a topic, and how many records there were."""
    settings = {"bootstrap.servers": bootstrap, "group.id": topic, "enable.partition.eof": True}
    consumer = confluent_kafka.Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in range(3)])
    found: list[Any] = []
    ended = 0
    while ended < 3:
        message = consumer.poll(30)
        assert message is not None
        ended += message.error() is not None
        found += [message] if message.error() is None else []
    consumer.close()
    return {message.key(): message.value() for message in found}, len(found)


def test_counts_of_windows_are_in_a_compacted_topic_as_kafka_streams_reads_them(
    spark: Any, bootstrap: str, tmp_path: Path
) -> None:
    create(bootstrap, "orders")
    create(bootstrap, "counts", **{"cleanup.policy": "compact"})
    app = streams.App(bootstrap, tmp_path, spark=spark)
    orders = app.topic("orders", value="customer STRING")
    windows = orders.window("10 seconds", watermark="1 minute").by("value.customer").aggregate(n="count(*)")
    windows.to("counts", key="customer", value="CAST(n AS STRING)", windowed_key="kafka-streams")
    records = [("ädä", 0), ("bob", 3), ("ädä", 9), ("ädä", 10), ("ädä", 4), ("cyd", 35), ("bob", 8), ("bob", 39)]
    written = 0
    for part in (records[:4], records[4:]):
        produce(bootstrap, "orders", *(("any", f'{{"customer": "{who}"}}', second) for who, second in part))
        app.run(once=True)
        written += len({(who, second // 10) for who, second in part})
    found, count = newest(bootstrap, "counts")
    java = spark._jvm.org.apache.kafka
    reader = java.streams.kstream.TimeWindowedDeserializer(java.common.serialization.StringDeserializer(), 10_000)
    counts: Counter[tuple[str, int]] = Counter()
    for key, value in found.items():
        windowed = reader.deserialize("counts", bytearray(key))
        counts[windowed.key(), (windowed.window().start() - NOON_MS) // 10_000] = int(value)
    assert counts == Counter((who, second // 10) for who, second in records)
    assert count == written


def test_a_table_is_read_anew_in_each_batch_of_a_stream(spark: Any, bootstrap: str, tmp_path: Path) -> None:
    create(bootstrap, "names", **{"cleanup.policy": "compact"})
    create(bootstrap, "visits")
    produce(bootstrap, "names", ("a", "Ada", 0), ("b", "Bob", 0), ("a", "Adele", 0), ("b", None, 0))
    produce(bootstrap, "visits", ("a", "1", 0), ("a", "2", 0))
    app = streams.App(bootstrap, tmp_path, spark=spark)
    visits = app.topic("visits", max_offsets_per_trigger=1).deduplicate("value", watermark="1 hour")
    select = ["records.value AS visit", "other.value AS name"]
    named = visits.join(app.table("names"), "records.key = other.key", select)
    found: list[tuple[str, str]] = []

    def note(batch: Any, _: int) -> None:
        found.extend(map(tuple, batch.collect()))
        produce(bootstrap, "names", ("a", f"Name {len(found)}", 0))

    query = named.frame.writeStream.foreachBatch(note).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
    assert found == [("1", "Adele"), ("2", "Name 1")]


def test_a_job_without_state_joins_tables_in_sql(spark: Any, bootstrap: str, tmp_path: Path) -> None:
    create(bootstrap, "customers", "clicks", "named")
    produce(bootstrap, "customers", ("a", "Ada", 0), ("a", "Adele", 0))
    path = tmp_path / "job.toml"
    path.write_text(f"""
        "bootstrap.servers" = "{bootstrap}"
        [source]
        type = "topic"
        topics = ["clicks"]
        key.type = "string"
        value.type = "string"
        [[inputs]]
        name = "customers"
        as = "table"
        type = "topic"
        topics = ["customers"]
        key.type = "string"
        value.type = "string"
        [[steps]]
        kind = "sql"
        query = "SELECT key, concat(c.value, ' ', r.value) AS value FROM records r JOIN customers c USING (key)"
        [sink]
        type = "topic"
        topic = "named"
    """)
    for second, name in ((1, "Adele"), (2, "Ava")):
        produce(bootstrap, "customers", ("a", name, 0))
        produce(bootstrap, "clicks", ("a", str(second), 0), ("z", "?", 0))
        Running(Job(read_settings(path)), Checkpoint(tmp_path / "checkpoint"), spark, lambda _: None).run(once=True)
        assert newest(bootstrap, "named") == ({b"a": f"{name} {second}".encode()}, second)


def test_a_bad_record_in_a_table_ends_a_job_in_one_line_though_it_tolerates_others(
    spark: Any, bootstrap: str, tmp_path: Path
) -> None:
    create(bootstrap, "prices", "sales", "priced")
    produce(bootstrap, "prices", ("a", "no number", 0))
    produce(bootstrap, "sales", ("a", "1", 0))
    path = tmp_path / "job.toml"
    path.write_text(f"""
        "bootstrap.servers" = "{bootstrap}"
        errors.tolerance = "all"
        [source]
        type = "topic"
        topics = ["sales"]
        key.type = "string"
        [[inputs]]
        name = "prices"
        as = "table"
        type = "topic"
        topics = ["prices"]
        key.type = "string"
        value.type = "json"
        value.schema = "BIGINT"
        [[steps]]
        kind = "join"
        with = "prices"
        on = "records.key = prices.key"
        select = ["records.key", "prices.value"]
        [sink]
        type = "topic"
        topic = "priced"
    """)
    running = Running(Job(read_settings(path)), Checkpoint(tmp_path / "checkpoint"), spark, lambda _: None)
    with pytest.raises(
        JobFailedError, match=r": topic prices, partition \d, offset 0: VALUE_CONVERTER: .* of the schema$"
    ):
        running.run(once=True)


def test_an_app_runs_until_a_query_of_its_own_ends(spark: Any, bootstrap: str, tmp_path: Path) -> None:
    create(bootstrap, "numbers", "doubled")
    app = streams.App(bootstrap, tmp_path, spark=spark)
    numbers = app.topic("numbers", value="BIGINT")
    numbers.sql("SELECT key, value * 2 AS value FROM records").to("doubled")
    app.run(once=True)
    produce(bootstrap, "numbers", ("a", "1", 0))
    failed: list[BaseException] = []

    def run() -> None:
        try:
            app.run()
        except BadRecordError as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "doubled", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["doubled"])
        message = consumer.poll(60)
        assert message is not None
        assert (message.key(), message.value()) == (b"a", b"2")
        consumer.close()
    finally:
        produce(bootstrap, "numbers", ("b", "no number", 0))
        thread.join(120)
    assert not thread.is_alive()
    (line,) = map(str, failed)
    assert line.startswith("topic numbers, partition ")
    assert "\n" not in line


def test_what_is_wrong_with_a_stream_is_said_where_it_is_described(spark: Any, bootstrap: str, tmp_path: Path) -> None:
    app = streams.App(bootstrap, tmp_path, spark=spark)
    orders = app.topic("any")
    counted = orders.by("key").aggregate(n="count(*)")
    with pytest.raises(JobError, match=r"^streams: window.watermark is missing$"):
        orders.window("10 seconds").by("key").aggregate(n="count(*)")
    with pytest.raises(JobError, match=r"^streams: deduplicate.kind cannot follow updates"):
        counted.deduplicate("key", watermark="1 hour")
    with pytest.raises(JobError, match=r"^streams: join.within is missing: other is a stream$"):
        orders.join(app.topic("other"), "true", ["*"])
    with pytest.raises(JobError, match=r"^out: to: \[UNRESOLVED_COLUMN.*`kee`"):
        counted.to("out", key="kee")
    counted.to("out")
    with pytest.raises(JobError, match=r"^out: to\.topic is written by another stream of this app"):
        orders.to("out")
