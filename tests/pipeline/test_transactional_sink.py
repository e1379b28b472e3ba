"""Spark's batches go to a topic once: on Apache Kafka, with replays of batches and kills of the whole job."""

import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from compat_tests.support.brokers import Broker
from compat_tests.support.clients import PATIENCE_S, create_topic
from tests.pipeline.committed import committed, messages

pytestmark = [pytest.mark.once, pytest.mark.slow]

# An hour ago, in milliseconds; what is older than a week may be deleted at any time.
EARLIER = int(time.time()) * 1000 - 3_600_000
PARTITIONS = 3
PATIENCE_OF_A_JOB_S = 300
ROWS_OF_A_BATCH = 1000
_names = itertools.count()


@pytest.fixture
def topics(apache_kafka: Broker) -> tuple[str, str]:
    """Return two topics of some partitions."""
    number = next(_names)
    names = f"sink-from-{number}", f"sink-to-{number}"
    for name in names:
        create_topic(apache_kafka.bootstrap, name, PARTITIONS)
    return names


def fill(broker: Broker, topic: str, count: int, first: int = 0) -> None:
    """Write records of all kinds, in turn to each partition."""
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(first, first + count):
        key = b"%d" % number if number % 5 else None
        headers: Any = [("number", b"%d" % number), ("empty", b"")] if number % 3 else None
        value = b"value %d" % number if number % 7 else None
        while True:
            with contextlib.suppress(BufferError):
                when = EARLIER + number
                producer.produce(topic, value, key, number % PARTITIONS, headers=headers, timestamp=when)
                break
            producer.poll(0.1)
    assert producer.flush(PATIENCE_S) == 0


def seen(broker: Broker, topic: str) -> list[Any]:
    """Return what a reader of committed records sees, with times."""
    return [(m.partition(), m.key(), m.value(), m.headers(), m.timestamp()) for m in messages(broker, topic)]


def start_over(folder: Path, batch: int) -> None:
    """Have a checkpoint forget that a batch was done, as if the job had ended before it could be said."""
    for name in (f"{batch}", f".{batch}.crc"):
        (folder / "commits" / name).unlink(missing_ok=True)


def test_a_topic_is_copied_and_a_batch_that_spark_does_again_changes_nothing(
    spark: Any, apache_kafka: Broker, topics: tuple[str, str], tmp_path: Path
) -> None:
    from tests.pipeline.transactional_job import copy

    source, target = topics
    fill(apache_kafka, source, 3000)

    def run() -> list[int]:
        writer = copy(spark, 1500, apache_kafka.bootstrap, source, target, str(tmp_path))
        query = writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(PATIENCE_S)
            return [progress["batchId"] for progress in query.recentProgress if progress["numInputRows"]]
        finally:
            query.stop()

    assert run() == [0, 1]
    assert seen(apache_kafka, target) == seen(apache_kafka, source)
    start_over(tmp_path, 1)
    fill(apache_kafka, source, 300, first=3000)
    assert run() == [1, 2]
    assert seen(apache_kafka, target) == seen(apache_kafka, source)


def test_the_frames_of_foreach_batch_are_written_once_too(
    spark: Any, apache_kafka: Broker, topics: tuple[str, str], tmp_path: Path
) -> None:
    from ottla.pipeline.transactional_sink import FORMAT, register, spread

    register(spark)
    fill(apache_kafka, topics[0], 300)
    options = {"kafka.bootstrap.servers": apache_kafka.bootstrap, "query": topics[1], "tasks": "2", "topic": "nowhere"}

    def write_twice(frame: Any, _: int) -> None:
        records = spread(frame, 2, "topic", "partition").selectExpr("'" + topics[1] + "' AS topic", "string(value)")
        for _ in range(2):
            records.write.format(FORMAT).options(**{**options, "topic": topics[1]}).mode("append").save()

    read = spark.readStream.format("kafka").options(**options).option("subscribe", topics[0])
    stream = read.option("startingOffsets", "earliest").load()
    query = stream.writeStream.foreachBatch(write_twice).trigger(availableNow=True)
    query = query.option("checkpointLocation", str(tmp_path)).start()
    assert query.awaitTermination(PATIENCE_S)
    expected = [record.value for record in committed(apache_kafka, topics[0])]
    found = [record.value for record in committed(apache_kafka, topics[1])]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_what_cannot_be_written_is_said_in_one_line(spark: Any, apache_kafka: Broker) -> None:
    from pyspark.errors import PySparkException

    from ottla.pipeline.transactional_sink import FORMAT, register, spread

    register(spark)

    def refusal(columns: str, **options: str) -> str:
        options = {"kafka.bootstrap.servers": "nowhere:1", "topic": "t", "query": "q", "tasks": "2", **options}
        options = {key.replace("_", "."): text for key, text in options.items() if text}
        writer = spark.range(1).selectExpr(columns).write.format(FORMAT).options(**options)
        with pytest.raises(PySparkException) as failure:
            writer.mode("append").save()
        return str(failure.value)

    assert "JobError: ottla-transactional: the column values (bigint) is not a record's" in refusal("id AS values")
    wrong = refusal("id AS value")
    assert "JobError: ottla-transactional: the column value (bigint) is to be binary or string or void" in wrong
    assert "JobError: ottla-transactional: there is no column value" in refusal("'a' AS key")
    assert "JobError: ottla-transactional: tasks is to be at least 1, not 0" in refusal("'a' AS value", tasks="0")
    assert "JobError: ottla-transactional: query is missing" in refusal("'a' AS value", query="")
    assert "JobError: ottla-transactional: taks is unknown; did you mean tasks?" in refusal("'a' AS value", taks="1")
    assert "JobError: option kafka.acks is unknown, or not to be chosen" in refusal("'a' AS value", kafka_acks="1")
    assert "JobError: ottla-transactional writes the batches of streaming queries, and this is none" in refusal(
        "'a' AS value"
    )
    with pytest.raises(ValueError, match="rows are spread by columns"):
        spread(spark.range(1), 2)


@pytest.mark.trials(few=2, soak=20)
def test_a_job_that_is_killed_again_and_again_writes_each_record_once_and_in_order(
    apache_kafka: Broker,
    topics: tuple[str, str],
    tmp_path: Path,
    trials: int,
    seed: int,
    tell: Callable[[str], None],
    spark: Any,
) -> None:
    chance = random.Random(seed)
    count = 10 * trials * ROWS_OF_A_BATCH
    fill(apache_kafka, topics[0], count)

    def job_of(rows_of_a_batch: int) -> list[str]:
        command = [sys.executable, "-m", "tests.pipeline.transactional_job", str(rows_of_a_batch)]
        return [*command, apache_kafka.bootstrap, *topics, str(tmp_path)]

    for _ in range(trials):
        # A process group of its own, so that its JVM goes with it; Spark's workers of Python are in yet another.
        with subprocess.Popen(job_of(ROWS_OF_A_BATCH), stdout=subprocess.PIPE, start_new_session=True) as job:
            assert job.stdout
            for _ in range(chance.randint(1, 3)):
                assert job.stdout.readline().startswith(b"batch"), "it did not go on"
            with contextlib.suppress(subprocess.TimeoutExpired):
                job.wait(chance.uniform(0, 1.5))
            assert job.poll() is None, "it was done before it was killed"
            os.killpg(job.pid, signal.SIGKILL)
    # The batch that was begun last is done again as it was; what is left is one.
    subprocess.run(job_of(count), check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_OF_A_JOB_S)
    assert seen(apache_kafka, topics[1]) == seen(apache_kafka, topics[0])
    tell(f"transactional sink: {trials} kills of a job")
