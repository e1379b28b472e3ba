"""What a transactional writer is told, and what of its records it keeps, without Spark and Kafka."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from kafka.errors import KafkaError

from ottla.pipeline import transactional_write
from ottla.pipeline.settings import JobError, Settings
from ottla.pipeline.topics import TopicSink
from ottla.pipeline.transactional_write import Record
from ottla.pipeline.transactions import client, kafka_settings


def test_settings_of_the_client_are_what_it_wants() -> None:
    options = {
        "kafka.bootstrap.servers": "a:1,b:2",
        "kafka.ssl.check.hostname": "False",
        "kafka.linger.ms": "5",
        "kafka.retries": "7",
        "kafka.receive.buffer.bytes": "65536",
        "kafka.ssl.cafile": "ca.pem",
    }
    assert kafka_settings(options) == {
        "bootstrap_servers": "a:1,b:2",
        "ssl_check_hostname": False,
        "linger_ms": 5,
        "retries": 7,
        "receive_buffer_bytes": 65536,
        "ssl_cafile": "ca.pem",
    }


@pytest.mark.parametrize(
    ("option", "text", "line"),
    [
        ("kafka.ssl.check.hostname", "yes", "option: kafka.ssl.check.hostname is to be true or false, not 'yes'"),
        ("kafka.retries", "many", "option kafka.retries is to be a whole number, not 'many'"),
        ("kafka.no.such", "1", "option kafka.no.such is unknown, or not to be chosen"),
    ],
)
def test_a_setting_that_is_none_is_refused(option: str, text: str, line: str) -> None:
    with pytest.raises(JobError) as failure:
        kafka_settings({"kafka.bootstrap.servers": "a:1", option: text})
    assert str(failure.value) == line


@pytest.mark.parametrize("kind", [ValueError, TypeError, RuntimeError])
def test_settings_that_a_client_does_not_take_are_refused_in_one_line(kind: type[Exception]) -> None:
    def made(*, compression_type: str) -> None:
        raise kind(f"Not supported codec: {compression_type}")

    with pytest.raises(JobError) as failure:
        client(made, {"compression_type": "rar"})
    assert str(failure.value) == "the options kafka.* are not what kafka-python takes: Not supported codec: rar"
    with pytest.raises(KafkaError, match="nobody answers"):  # whoever asked for the client tells of it
        client(nobody_answers, {})


def nobody_answers() -> None:
    raise KafkaError("nobody answers")


def test_a_job_asks_its_brokers_for_transactions_with_the_settings_of_its_producer() -> None:
    keys = {"topic": "t", "delivery": "exactly-once", "producer.sasl.jaas.config": "of another client"}
    sink = TopicSink(Settings(keys, "job.toml", "sink."), "nowhere:1")
    with pytest.raises(JobError, match=r"option kafka\.sasl\.jaas\.config is unknown"):
        sink.check()


@pytest.fixture
def in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_new_york")
def test_times_of_records_are_kept_when_clocks_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    from pyspark import TaskContext
    from pyspark.sql.conversion import ArrowTableToRowsConversion
    from pyspark.sql.types import StringType, StructType, TimestampType

    from ottla.pipeline import transactional_sink

    given = [datetime(2026, 11, 1, hour, 30, tzinfo=UTC) for hour in (4, 5, 6, 7)]
    of_spark = ArrowTableToRowsConversion._create_converter(TimestampType())
    written: list[int | None] = []

    def write_once(target: Any, task: int, batch: Any, records: Iterator[Record]) -> None:
        written.extend(record.timestamp_ms for record in records)

    monkeypatch.setattr(transactional_sink, "write_once", write_once)
    monkeypatch.setattr(TaskContext, "get", Task)
    options = {"kafka.bootstrap.servers": "nowhere:1", "topic": "t", "query": "q", "tasks": "1"}
    schema = StructType().add("value", StringType()).add("timestamp", TimestampType())
    writer = transactional_sink.TransactionalSink(options).streamWriter(schema, overwrite=False)
    writer.write(("value", of_spark(each)) for each in given)
    assert written == [int(each.timestamp()) * 1000 for each in given]
    assert time.tzname[0] == "EST"


class Task:
    """A task of a stream."""

    def getLocalProperty(self, name: str) -> str:  # noqa: N802 - Spark's names
        return "1"

    def partitionId(self) -> int:  # noqa: N802
        return 0


class Client:
    """A producer that answers when it is waited for."""

    config = {"delivery_timeout_ms": 1000}  # noqa: RUF012

    def __init__(self) -> None:
        self.waiting = self.most = 0

    def send(self, *_: object) -> "Client":
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        return self

    def flush(self, _: float) -> None:
        self.waiting = 0

    def get(self, _: float) -> None:
        """It is there."""


@pytest.mark.parametrize(
    ("record", "most"),
    [
        (Record("t", None, None), 20_000),
        (Record("t", b"k", b"v"), 20_000),
        (Record("t", b"k", b"v", [("h", b"x" * 10_000)]), 1000),
    ],
)
def test_not_many_records_wait_for_the_broker_however_small_they_are(record: Record, most: int) -> None:
    producer = Client()
    assert transactional_write._send_all(producer, (record for _ in range(50_000))) == 50_000
    assert producer.most < most
