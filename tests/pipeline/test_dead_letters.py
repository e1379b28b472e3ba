"""What a job says of bad records, and what becomes of them."""

import logging
import re
from contextlib import closing, nullcontext
from typing import Any

import pytest

from ottla import Broker
from ottla.pipeline.dead_letters import ErrorPolicy, bad_record_in, read_errors
from ottla.pipeline.job import Job
from ottla.pipeline.job_file import of_texts
from ottla.pipeline.positions import Positions
from ottla.pipeline.settings import JobError, Settings
from tests.pipeline.connect_converters import ConnectConverters
from tests.pipeline.frames import made, records

DATA = [b"1", b"two", b"3", b"four", None]


def policy(**values: str) -> ErrorPolicy:
    return read_errors(Settings({key.replace("_", "."): each for key, each in values.items()}, "job.toml", "errors."))


def test_without_a_word_no_error_is_tolerated() -> None:
    assert policy() == ErrorPolicy(
        tolerates_all=False,
        topic=None,
        replication_factor=3,
        has_context_headers=False,
        logs=False,
        logs_messages=False,
    )


def test_tables_and_keys_of_connect_mean_the_same() -> None:
    table = {
        "tolerance": "all",
        "deadletterqueue": {
            "topic": {"name": "letters", "replication": {"factor": 1}},
            "context": {"headers": {"enable": True}},
        },
        "log": {"enable": True, "include": {"messages": True}},
    }
    keys = policy(
        tolerance="all",
        deadletterqueue_topic_name=" letters ",
        deadletterqueue_topic_replication_factor="1",
        deadletterqueue_context_headers_enable="true",
        log_enable="true",
        log_include_messages="true",
    )
    assert read_errors(Settings(table, "job.toml", "errors.")) == keys
    assert (keys.topic, keys.replication_factor, keys.tolerates_all) == ("letters", 1, True)


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("tolerance", "some", "errors.tolerance is to be one of none, all, not 'some'"),
        ("tolerence", "all", "errors.tolerence is unknown; did you mean errors.tolerance?"),
        ("deadletterqueue_topic_nam", "x", "errors.deadletterqueue.topic.nam is unknown"),
        ("deadletterqueue_topic_replication_factor", "0", "factor is to be at least 1, or -1"),
        ("log_enable", "maybe", "errors.log.enable is to be true or false, not 'maybe'"),
    ],
)
def test_what_is_wrong_with_errors_is_said_in_one_line(key: str, value: str, line: str) -> None:
    with pytest.raises(JobError, match=re.escape(line)):
        policy(**{key: value})


@pytest.mark.parametrize(
    ("source", "is_read"),
    [
        ({"topics": "orders, letters"}, True),
        ({"topics": "orders"}, False),
        ({"topics.regex": "let+ers"}, True),
        ({"topics.regex": "letter"}, False),
        ({"partitions": '{"letters": [0]}'}, True),
        ({"topics": "letters", "bootstrap.servers": "other:9092"}, False),
    ],
)
def test_they_do_not_go_where_the_job_would_read_them_again(source: dict[str, str], is_read: bool) -> None:
    errors = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "letters"}
    keys = {"source.type": "topic", "sink.type": "console", "bootstrap.servers": "here:9092", **errors}
    keys |= {f"source.{key}": each for key, each in source.items()}
    expected = r"^job: errors\.deadletterqueue\.topic\.name is letters, which the job reads"
    with pytest.raises(JobError, match=expected) if is_read else nullcontext():
        Job(of_texts(keys, "job"))


@pytest.mark.slow
def test_their_topic_is_created_as_connect_does_or_a_line_says_why_it_cannot_be() -> None:
    with Broker() as broker:

        def job(topic: str, factor: int) -> Job:
            topics = {"source.type": "rate", "sink.type": "topic", "sink.topic": "any"}
            errors = {"tolerance": "all", "deadletterqueue.topic.name": topic}
            errors["deadletterqueue.topic.replication.factor"] = str(factor)
            texts = {"bootstrap.servers": broker.bootstrap, **topics}
            return Job(of_texts({**texts, **{f"errors.{key}": each for key, each in errors.items()}}, "job"))

        job("letters", 1).check()
        # What is there stays, whatever it is like.
        job("letters", 3).check()
        with pytest.raises(
            JobError,
            match=r"errors\.deadletterqueue.* names more, which is missing and cannot be made: .*ReplicationFactor",
        ) as error:
            job("more", 3).check()
        assert "\n" not in str(error.value)
        with closing(Positions(broker.bootstrap)) as positions:
            assert positions.partitions(["letters"]) == [("letters", 0)]
            assert "more" not in positions.topics()


def batch(spark: Any, data: list[bytes | None] = DATA) -> Any:
    return made(type="json", schema="BIGINT").decode(records(spark, data, key=b"k"), "value")


@pytest.mark.slow
def test_the_first_bad_record_ends_the_job_in_one_line(spark: Any) -> None:
    def write(data: list[bytes | None]) -> None:
        with policy().split(batch(spark, data)) as (good, bad):
            assert bad is None
            good.write.format("noop").mode("overwrite").save()

    line = "topic orders, partition 3, offset 1: VALUE_CONVERTER: Converting byte[] to Kafka Connect data failed due to"
    with pytest.raises(Exception, match="bad-record") as error:
        write(DATA)
    assert str(bad_record_in(error.value)) == f"{line} serialization error: no JSON of the schema"
    write([b"1", None])
    assert bad_record_in(ValueError("another")) is None


def plan(frame: Any) -> str:
    return str(frame.select("topic", "value")._jdf.queryExecution().optimizedPlan().toString())


@pytest.mark.slow
def test_bad_records_are_left_out_and_nobody_pays_for_looking_at_them(spark: Any) -> None:
    frame = batch(spark)
    with policy(tolerance="all").split(frame) as (good, bad):
        assert bad is None
        assert plan(good).count("from_json") == 1
        assert [row.value for row in good.sort("offset").collect()] == [1, 3, None]
    with policy(tolerance="all", log_enable="true").split(frame) as (good, bad):
        assert bad is not None
        assert "InMemoryRelation" in plan(good)
        assert (good.count(), bad.count()) == (3, 2)
    assert "InMemoryRelation" not in plan(good)


@pytest.mark.slow
def test_dead_letters_are_those_of_connect(spark: Any) -> None:
    from pyspark.sql import functions

    all_of_it = policy(
        tolerance="all", deadletterqueue_topic_name="letters", deadletterqueue_context_headers_enable="true"
    )
    # Whatever became of the record before it failed, the letter has what came from the topic.
    moved = batch(spark).withColumn("topic", functions.lit("routed")).withColumn("headers", functions.array())
    with all_of_it.split(moved) as (_, bad):
        rows = all_of_it.dead_letters(bad, "job", task=2).collect()
        plain = policy(tolerance="all", deadletterqueue_topic_name="letters").dead_letters(bad, "job")
        assert [[(h.key, bytes(h.value)) for h in row.headers] for row in plain.collect()] == [[("from", b"test")]] * 2
    assert [(row.topic, bytes(row.key), bytes(row.value)) for row in rows] == [
        ("letters", b"k", b"two"),
        ("letters", b"k", b"four"),
    ]
    headers = [(header.key, bytes(header.value)) for header in rows[0].headers]
    message = dict(headers)["__connect.errors.exception.message"].decode()
    with ConnectConverters() as connect:
        stage = ("VALUE_CONVERTER", "org.apache.kafka.connect.json.JsonConverter")
        expected = connect.headers("orders", 3, 1, "job", 2, *stage, message)
    assert headers[0] == ("from", b"test")
    name, trace = expected[-1]
    assert name == "__connect.errors.exception.stacktrace"
    assert trace is not None
    first_line = trace.split(b"\tat ")[0]
    assert headers[1:] == [*expected[:-1], (name, first_line)]


@pytest.mark.slow
def test_bad_records_are_logged_in_connect_s_words(spark: Any, caplog: pytest.LogCaptureFixture) -> None:
    asked = policy(tolerance="all", log_enable="true", log_include_messages="true")
    with caplog.at_level(logging.ERROR), asked.split(batch(spark)) as (_, bad):
        asked.log(bad, "job")
        policy(tolerance="all").log(bad, "job")
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert lines[0].startswith(
        "Error encountered in task job-0. Executing stage 'VALUE_CONVERTER' with class"
        " 'org.apache.kafka.connect.json.JsonConverter', where consumed record is {topic='orders', partition=3, offset="
    )
    assert "DataException: Converting byte[]" in lines[0]
