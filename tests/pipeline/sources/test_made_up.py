"""Rows that are made up, by time and by number."""

import time
from pathlib import Path
from typing import Any

import pytest

from ottla.pipeline.settings import JobError
from ottla.pipeline.sources import read_source
from tests.pipeline.jobs import batches, keys

pytestmark = pytest.mark.slow
COLUMNS = {"n": "id", "name": "concat('user-', id % 10)"}


def test_datagen_makes_so_many_rows_once(spark: Any, tmp_path: Path) -> None:
    source = read_source(keys("source", type="datagen", columns=COLUMNS, numberOfRows=25))
    wanted = [(number, f"user-{number % 10}") for number in range(25)]
    assert batches(source.load(spark, streaming=True), tmp_path) == [wanted]
    assert batches(source.load(spark, streaming=True), tmp_path) == []
    assert source.load(spark, streaming=False).collect() == wanted


def test_many_rows_are_made_by_several_tasks(spark: Any) -> None:
    # Not above: it needs PySpark.
    from ottla.pipeline.sources import counter

    reader = counter.CounterReader(2_000_001)
    parts = reader.partitions(reader.initialOffset(), reader.latestOffset())
    assert [part.value for part in parts] == [(0, 1_000_000), (1_000_000, 2_000_000), (2_000_000, 2_000_001)]
    ids = [number for batch in reader.read(parts[1]) for number in batch.column("id").to_pylist()]
    assert ids == list(range(1_000_000, 2_000_000))


def test_rows_come_by_the_second(spark: Any, tmp_path: Path) -> None:
    paced = read_source(keys("source", type="datagen", columns=COLUMNS, rowsPerSecond=1000, numberOfRows=3))
    rate = read_source(keys("source", type="rate", rowsPerSecond=1000))
    both = paced.load(spark, streaming=True).union(rate.load(spark, streaming=True).selectExpr("value", "'rate'"))
    found: list[Any] = []
    writer = both.writeStream.foreachBatch(lambda batch, _: found.extend(map(tuple, batch.collect())))
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    try:
        deadline = time.monotonic() + 60
        while len(found) < 1003 and time.monotonic() < deadline:
            query.processAllAvailable()
    finally:
        query.stop()
    assert sorted(row for row in found if row[1] != "rate") == [(0, "user-0"), (1, "user-1"), (2, "user-2")]
    assert {(number, "rate") for number in range(1000)} <= set(found)


def test_without_a_number_there_is_no_end_to_read_up_to(spark: Any) -> None:
    paced = read_source(keys("source", type="datagen", columns=COLUMNS, rowsPerSecond=1))
    with pytest.raises(JobError, match=r"job.toml: source.numberOfRows is missing"):
        paced.load(spark, streaming=False)
    with pytest.raises(JobError, match=r"job.toml: source.type rate only streams"):
        read_source(keys("source", type="rate")).load(spark, streaming=False)


@pytest.mark.parametrize("expression", ["nope", "concat("])
def test_an_expression_that_is_none_is_one_line(spark: Any, expression: str) -> None:
    source = read_source(keys("source", type="datagen", columns={"a": expression}, numberOfRows=1))
    with pytest.raises(JobError, match=r"^job.toml: source.columns cannot be computed: [^\n]+$"):
        source.load(spark, streaming=True)
