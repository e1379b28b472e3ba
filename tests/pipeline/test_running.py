"""Jobs from end to end, on the one Spark of all tests and a real broker."""

import json
import sqlite3
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from compat_tests.support.brokers import run_tool
from compat_tests.support.clients import create_topic
from ottla import Broker
from ottla.pipeline.checkpoint import Checkpoint
from ottla.pipeline.job import Job
from ottla.pipeline.job_file import read_settings
from ottla.pipeline.running import JobFailedError, Progress, Running
from ottla.pipeline.settings import JobError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
# An hour ago, in milliseconds; what is older than a week may be deleted at any time.
EARLIER = int(time.time()) * 1000 - 3_600_000
SOURCE = """\
name = "{name}"
"bootstrap.servers" = "{bootstrap}"
[source]
type = "topic"
topics = ["{topic}"]
key.type = "string"
value.type = "json"
value.schema = "id BIGINT, name STRING"
"""


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap


class Work:
    """A job in a folder, run once and again."""

    def __init__(self, spark: Any, folder: Path, text: str) -> None:
        self.spark = spark
        self.path = folder / "job.toml"
        self.path.write_text(text)
        self.checkpoint = Checkpoint(folder / "checkpoint")
        self.told: list[Progress] = []

    def run(self) -> None:
        job = Job(read_settings(self.path))
        job.check()
        Running(job, self.checkpoint, self.spark, self.told.append).run(once=True)

    def lags(self, topic: str) -> list[str]:
        """What Kafka's own tool says of a topic's partitions."""
        job = Job(read_settings(self.path))
        tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        described = run_tool(tool, "--bootstrap-server", str(job.bootstrap), "--describe", "--group", job.group)
        return [line.split()[5] for line in described.splitlines() if topic in line]


@contextmanager
def started(work: Work) -> Iterator["Future[None]"]:
    """The job runs until the block ends."""
    running = Running(Job(read_settings(work.path)), work.checkpoint, work.spark, work.told.append)
    with ThreadPoolExecutor(1) as pool:
        try:
            yield pool.submit(running.run, once=False)
        finally:
            running.stop()


def wait_for(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def produce(bootstrap: str, topic: str, values: list[bytes | None], **more: Any) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for number, value in enumerate(values):
        producer.produce(topic, value, b"k%d" % number, **more)
    assert producer.flush(120) == 0


def consumed(bootstrap: str, topic: str, count: int) -> list[Any]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "test", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[Any] = []
    while len(found) < count:
        message = consumer.poll(30)
        assert message is not None, f"{len(found)} of {count}"
        assert message.error() is None
        found.append(message)
    consumer.close()
    return found


def orders(start: int, stop: int) -> list[bytes | None]:
    return [json.dumps({"id": number, "name": f"n{number}"}).encode() for number in range(start, stop)]


def test_a_topic_becomes_files_and_what_is_bad_is_put_aside_and_operators_see_the_lag(
    spark: Any, bootstrap: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, "in-1")
    create_topic(bootstrap, "bad-1")
    produce(bootstrap, "in-1", [*orders(0, 5), b"no json"])
    work = Work(
        spark,
        tmp_path,
        SOURCE.format(name="files", bootstrap=bootstrap, topic="in-1")
        + f"""
[sink]
type = "parquet"
path = "{tmp_path / "out"}"
[errors]
tolerance = "all"
deadletterqueue.topic.name = "bad-1"
deadletterqueue.context.headers.enable = true
""",
    )
    work.run()
    produce(bootstrap, "in-1", orders(5, 8))
    work.run()
    assert sorted((row.id, row.name) for row in spark.read.parquet(str(tmp_path / "out")).collect()) == [
        (number, f"n{number}") for number in range(8)
    ]
    (bad,) = consumed(bootstrap, "bad-1", 1)
    assert (bad.key(), bad.value()) == (b"k5", b"no json")
    headers = dict(bad.headers())
    assert headers["__connect.errors.topic"] == b"in-1"
    assert headers["__connect.errors.stage"] == b"VALUE_CONVERTER"
    assert headers["__connect.errors.class.name"] == b"org.apache.kafka.connect.json.JsonConverter"
    assert [(progress.rows, progress.lag) for progress in work.told if progress.rows] == [(6, 0), (3, 0)]
    produce(bootstrap, "in-1", orders(8, 10))
    tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    described = run_tool(tool, "--bootstrap-server", bootstrap, "--describe", "--group", "ottla-pipeline-files")
    (line,) = [line.split() for line in described.splitlines() if "in-1" in line]
    assert line[:6] == ["ottla-pipeline-files", "in-1", "0", "9", "11", "2"]


@pytest.mark.once
def test_a_bad_record_ends_a_job_that_tolerates_none_with_one_line_and_nothing_is_lost(
    spark: Any, bootstrap: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, "in-2")
    produce(bootstrap, "in-2", [*orders(0, 2), b"{"])
    text = SOURCE.format(name="strict", bootstrap=bootstrap, topic="in-2")
    work = Work(spark, tmp_path, text + f'[sink]\ntype = "parquet"\npath = "{tmp_path / "out"}"\n')
    with pytest.raises(JobFailedError) as error:
        work.run()
    assert "in-2" in str(error.value)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.glob("out/*.parquet"))
    work.path.write_text(work.path.read_text() + '[errors]\ntolerance = "all"\n')
    work.run()
    assert spark.read.parquet(str(tmp_path / "out")).count() == 2


def test_a_record_without_a_value_is_no_row_of_nulls(spark: Any, bootstrap: str, tmp_path: Path) -> None:
    for topic in ("in-9", "bad-9"):
        create_topic(bootstrap, topic)
    produce(bootstrap, "in-9", [*orders(0, 1), None])
    text = SOURCE.format(name="rows", bootstrap=bootstrap, topic="in-9")
    work = Work(spark, tmp_path, text + f'[sink]\ntype = "parquet"\npath = "{tmp_path / "out"}"\n')
    line = ": topic in-9, partition 0, offset 1: TASK_PUT: A record without a value is no row$"
    with pytest.raises(JobFailedError, match=line):
        work.run()
    kept = '[errors]\ntolerance = "all"\ndeadletterqueue.topic.name = "bad-9"\n'
    work.path.write_text(work.path.read_text() + kept)
    work.run()
    assert spark.read.parquet(str(tmp_path / "out")).count() == 1
    (bad,) = consumed(bootstrap, "bad-9", 1)
    assert (bad.key(), bad.value()) == (b"k1", None)


def test_a_line_of_a_file_that_is_no_row_ends_a_job_or_is_a_dead_letter(
    spark: Any, bootstrap: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, "bad-11")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id,name\n1,x\nno,y\n")
    work = Work(
        spark,
        tmp_path,
        f"""
name = "csv"
"bootstrap.servers" = "{bootstrap}"
[source]
type = "files"
path = "{tmp_path}/in"
format = "csv"
header = true
schema = "id BIGINT, name STRING"
[sink]
type = "parquet"
path = "{tmp_path / "out"}"
""",
    )
    where = f"VALUE_CONVERTER: file file:{tmp_path}/in/a.csv, line no,y: no row of the schema"
    with pytest.raises(JobFailedError) as error:
        work.run()
    assert str(error.value) == f"{work.path}: {where}"
    assert not list(tmp_path.glob("out/*.parquet"))
    kept = '[errors]\ntolerance = "all"\ndeadletterqueue.topic.name = "bad-11"\n'
    work.path.write_text(work.path.read_text() + kept)
    work.run()
    assert [tuple(row) for row in spark.read.parquet(str(tmp_path / "out")).collect()] == [(1, "x")]
    (bad,) = consumed(bootstrap, "bad-11", 1)
    assert (bad.key(), bad.value()) == (None, b"no,y")
    assert [progress.rows for progress in work.told if progress.rows][-1:] == [2]


def test_what_spark_refuses_before_there_are_records_is_one_line(spark: Any, bootstrap: str, tmp_path: Path) -> None:
    create_topic(bootstrap, "in-8")
    counted = """
[[steps]]
kind = "deduplicate"
keys = ["key"]
watermark = "1 hour"
[[steps]]
kind = "sql"
query = "SELECT key, count(*) AS n FROM records GROUP BY key"
"""
    cases = {
        'time = "value.at"': r"job\.toml: source\.time cannot be: \[FIELD_NOT_FOUND\] .*`at`",
        counted: r": \[[\w.]+\] .*output mode",
    }
    for text, line in cases.items():
        more = f'\n{text}\n[sink]\ntype = "topic"\ntopic = "any"\n'
        work = Work(spark, tmp_path, SOURCE.format(name="refused", bootstrap=bootstrap, topic="in-8") + more)
        with pytest.raises((JobError, JobFailedError), match=line) as error:
            work.run()
        assert "\n" not in str(error.value)


def test_transforms_and_sql_between_topics(spark: Any, bootstrap: str, tmp_path: Path) -> None:
    create_topic(bootstrap, "in-3")
    produce(bootstrap, "in-3", [*orders(0, 4), None], headers=[("trace", b"1")])
    work = Work(
        spark,
        tmp_path,
        SOURCE.format(name="through", bootstrap=bootstrap, topic="in-3")
        + '''
[[transforms]]
name = "mask"
type = "MaskField$Value"
fields = ["name"]
predicate = "gone"
negate = true
[[predicates]]
name = "gone"
type = "RecordIsTombstone"
[[steps]]
kind = "sql"
query = """
    SELECT key, struct(value.id * 2 AS twice, value.name AS name) AS value, headers FROM records WHERE value.id > 0
"""
[sink]
type = "topic"
topic = "out-3"
value.type = "json"
''',
    )
    work.run()
    found = consumed(bootstrap, "out-3", 3)
    assert [(each.key(), json.loads(each.value())) for each in found] == [
        (b"k%d" % number, {"twice": 2 * number, "name": ""}) for number in (1, 2, 3)
    ]
    assert found[0].headers() == [("trace", b"1")]


def test_a_row_of_a_step_that_cannot_be_written_is_a_dead_letter_with_all_it_has(
    spark: Any, bootstrap: str, tmp_path: Path
) -> None:
    for topic in ("in-7", "out-7", "bad-7"):
        create_topic(bootstrap, topic)
    produce(bootstrap, "in-7", [*orders(0, 2), b"no json"], headers=[("trace", b"1")])
    work = Work(
        spark,
        tmp_path,
        SOURCE.format(name="made", bootstrap=bootstrap, topic="in-7")
        + """
[[steps]]
kind = "sql"
query = "SELECT key, struct(value.id, nullif(value.name, 'n1') AS name) AS value, headers FROM records"
[sink]
type = "topic"
topic = "out-7"
value.type = "json"
value.schema = "id BIGINT, name STRING NOT NULL"
[errors]
tolerance = "all"
deadletterqueue.topic.name = "bad-7"
""",
    )
    work.run()
    assert [each.key() for each in consumed(bootstrap, "out-7", 1)] == [b"k0"]
    made, unread = consumed(bootstrap, "bad-7", 2)
    assert json.loads(made.value()) == {"key": "k1", "value": {"id": 1, "name": None}}
    assert made.headers() == [("trace", b"1")]
    assert (unread.key(), unread.value()) == (b"k2", b"no json")


def test_files_become_records_and_records_rows_of_a_table(spark: Any, bootstrap: str, tmp_path: Path) -> None:
    folder, database = tmp_path / "in", tmp_path / "orders.db"
    folder.mkdir()
    (folder / "a.csv").write_text("id,name\n1,ada\n2,bob\n")
    create_topic(bootstrap, "rows-4")
    (tmp_path / "in-job").mkdir()
    files = Work(
        spark,
        tmp_path / "in-job",
        f"""
name = "ingest"
"bootstrap.servers" = "{bootstrap}"
[source]
type = "files"
path = "{folder}"
format = "csv"
header = true
schema = "id BIGINT, name STRING"
[sink]
type = "topic"
topic = "rows-4"
value.type = "json"
""",
    )
    (tmp_path / "out-job").mkdir()
    table = Work(
        spark,
        tmp_path / "out-job",
        SOURCE.format(name="table", bootstrap=bootstrap, topic="rows-4")
        + f"""
[sink]
type = "jdbc"
url = "jdbc:sqlite:{database}"
table = "orders"
auto.create = true
""",
    )
    files.run()
    table.run()
    (folder / "b.csv").write_text("id,name\n3,cyd\n")
    files.run()
    table.run()
    with sqlite3.connect(database) as connection:
        assert sorted(connection.execute("SELECT id, name FROM orders")) == [(1, "ada"), (2, "bob"), (3, "cyd")]
    connection.close()


def test_a_continuous_job_writes_each_record_as_it_comes_until_it_is_stopped(
    spark: Any, bootstrap: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, "in-6")
    create_topic(bootstrap, "out-6")
    work = Work(
        spark,
        tmp_path,
        SOURCE.format(name="continuous", bootstrap=bootstrap, topic="in-6")
        + """
[sink]
type = "topic"
topic = "out-6"
value.type = "json"
[trigger]
continuous = "1 second"
""",
    )
    with started(work):
        for start in (0, 3):
            produce(bootstrap, "in-6", orders(start, start + 3))
            assert [json.loads(each.value())["id"] for each in consumed(bootstrap, "out-6", 3)] == [
                start,
                start + 1,
                start + 2,
            ]


def test_a_mirror_keeps_partitions_timestamps_and_headers_and_tells_which_offset_became_which(
    spark: Any, bootstrap: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, "in-5", partitions=3)
    for partition in range(3):
        values: list[bytes | None] = [b"%d/%d" % (partition, number) for number in range(4)]
        produce(bootstrap, "in-5", [*values, None], partition=partition, timestamp=EARLIER, headers=[("h", None)])
    work = Work(
        spark,
        tmp_path,
        f"""
name = "mirror"
[source]
type = "topic"
"bootstrap.servers" = "{bootstrap}"
topics = ["in-5"]
[sink]
type = "mirror"
"bootstrap.servers" = "{bootstrap}"
alias = "a"
topic.prefix = "a."
""",
    )
    work.run()
    there, here = (
        sorted(
            (each.partition(), each.offset(), each.key(), each.value(), each.timestamp(), each.headers())
            for each in consumed(bootstrap, topic, 15)
        )
        for topic in ("in-5", "a.in-5")
    )
    assert here == there
    syncs = {each.key(): each.value() for each in consumed(bootstrap, "mm2-offset-syncs.a.internal", 3)}
    assert syncs == {struct.pack(">h4si", 4, b"in-5", p): struct.pack(">qq", 4, 4) for p in range(3)}
    assert [progress.rows for progress in work.told if progress.rows] == [15]


def test_a_topic_that_is_deleted_ends_the_job_with_a_line_that_names_it(
    spark: Any, bootstrap: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, "in-10")
    produce(bootstrap, "in-10", orders(0, 1))
    sink = f'[sink]\ntype = "parquet"\npath = "{tmp_path / "out"}"\n'
    work = Work(spark, tmp_path, SOURCE.format(name="deleted", bootstrap=bootstrap, topic="in-10") + sink)
    with started(work) as run:
        wait_for(lambda: work.told)
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.delete_topics(["in-10"])["in-10"].result(120)
        with pytest.raises(JobFailedError) as error:
            run.result(120)
    assert str(error.value).startswith(f"{work.path}: ")
    assert str(error.value).endswith(f"{bootstrap} has no topic in-10")


def test_a_job_that_was_moved_reads_partitions_that_are_new_since_and_none_that_are_deleted(
    spark: Any, bootstrap: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, "in-11")
    produce(bootstrap, "in-11", orders(0, 3))
    sink = f'[sink]\ntype = "parquet"\npath = "{tmp_path / "out"}"\n'
    work = Work(spark, tmp_path, SOURCE.format(name="grown", bootstrap=bootstrap, topic="in-11") + sink)
    work.checkpoint.directory.mkdir()
    work.checkpoint.move({"in-11": {"0": 2}, "gone": {"0": 7}})
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_partitions({"in-11": 2})
    admin.close()
    produce(bootstrap, "in-11", orders(3, 5), partition=1)
    work.run()
    assert sorted(row.id for row in spark.read.parquet(str(tmp_path / "out")).collect()) == [2, 3, 4]


def test_the_first_batch_after_a_wait_is_told_and_shown_in_the_group(
    spark: Any, bootstrap: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, "in-12")
    sink = f'[sink]\ntype = "parquet"\npath = "{tmp_path / "out"}"\n'
    work = Work(spark, tmp_path, SOURCE.format(name="waiting", bootstrap=bootstrap, topic="in-12") + sink)
    interval = "spark.sql.streaming.noDataProgressEventInterval"
    spark.conf.set(interval, "1000")
    try:
        with started(work):
            # The first batch, without a record, and then that there is nothing to do.
            wait_for(lambda: len(work.told) > 1)
            produce(bootstrap, "in-12", orders(0, 3))
            wait_for(lambda: [(progress.rows, progress.lag) for progress in work.told if progress.rows] == [(3, 0)])
            wait_for(lambda: work.lags("in-12") == ["0"])
    finally:
        spark.conf.unset(interval)
