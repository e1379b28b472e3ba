"""Batches in folders: once each, wherever it was that writing them ended."""

from pathlib import Path
from typing import Any

import pytest

from ottla.pipeline.settings import JobError
from ottla.pipeline.sinks import Sink, read_sink
from tests.pipeline.jobs import keys

pytestmark = [pytest.mark.once, pytest.mark.slow]


def sink(path: Path, kind: str = "parquet", **values: object) -> Sink:
    return read_sink(keys("sink", type=kind, path=str(path), **values))


def numbers(spark: Any, start: int, end: int) -> Any:
    """Rows in two files, with a value by which they can be partitioned."""
    return spark.range(start, end, 1, 2).selectExpr("id", "CAST(id % 3 AS STRING) AS part")


def ids(spark: Any, path: Path) -> list[int]:
    return sorted(row.id for row in spark.read.parquet(str(path)).collect())


def visible(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("[!_.]*.*") if "_ottla" not in file.parts}


def test_a_batch_is_written_once_however_often_it_comes(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "data"
    sink(path).write(numbers(spark, 0, 10), "q", 0)
    sink(path).write(numbers(spark, 10, 20), "q", 1)
    written = visible(path)
    assert len(written) == 4
    assert ids(spark, path) == list(range(20))
    # The last one comes again after a kill, with whatever rows; an earlier one does not, but would change nothing.
    sink(path).write(numbers(spark, 100, 110), "q", 1)
    sink(path).write(numbers(spark, 200, 210), "q", 0)
    assert visible(path) == written
    sink(path).write(numbers(spark, 20, 30), "another", 0)
    assert ids(spark, path) == list(range(30))


def test_of_a_batch_that_fails_while_it_is_written_nothing_is_there(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "data"
    sink(path).write(numbers(spark, 0, 10), "q", 0)
    failing = numbers(spark, 10, 20).where("id < 19 OR raise_error('killed') IS NULL")
    with pytest.raises(JobError, match=r"job.toml: sink.path was not written: .*killed"):
        sink(path).write(failing, "q", 1)
    assert ids(spark, path) == list(range(10))
    # What a killed attempt left behind.
    (path / "_ottla" / "q" / "staging-left").mkdir()
    (path / "_ottla" / "q" / "staging-left" / "part-0.parquet").write_text("half a file")
    sink(path).write(numbers(spark, 10, 20), "q", 1)
    assert ids(spark, path) == list(range(20))
    assert [each.name for each in (path / "_ottla" / "q").iterdir()] == ["done-1"]


def test_a_batch_of_which_some_files_were_moved_is_moved_to_its_end(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.mkdir()
    # What stands in the way ends the attempt at the second of three folders.
    (path / "part=1").write_text("in the way")
    with pytest.raises(JobError, match=r"job.toml: sink.path was not written: .*part=1"):
        sink(path, partition_by="part").write(numbers(spark, 0, 12), "q", 0)
    moved = visible(path) - {"part=1"}
    assert {name.partition("/")[0] for name in moved} == {"part=0"}
    (path / "part=1").unlink()
    # The rows are those that were complete, even if the batch has others by now.
    sink(path, partition_by="part").write(numbers(spark, 100, 112), "q", 0)
    assert ids(spark, path) == list(range(12))
    assert moved < visible(path)
    assert spark.read.parquet(str(path)).where("part = 1").count() == 4
    # The same once more, as if it had been killed when all was moved and not yet noted.
    (path / "_ottla" / "q" / "done-0").rename(path / "_ottla" / "q" / "complete-0")
    sink(path, partition_by="part").write(numbers(spark, 100, 112), "q", 0)
    assert ids(spark, path) == list(range(12))


@pytest.mark.parametrize("column", ["_day", ".day"])
def test_a_column_by_which_rows_are_partitioned_may_be_called_as_hidden_files_are(
    spark: Any, tmp_path: Path, column: str
) -> None:
    path = tmp_path / "data"
    for batch in range(2):
        rows = numbers(spark, batch * 10, batch * 10 + 10).withColumnRenamed("part", column)
        sink(path, partition_by=column).write(rows, "q", batch)
    assert sum(spark.read.parquet(str(each)).count() for each in path.glob(f"{column}=*")) == 20


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"format": "json"}, '{"id":1,"name":"x"}\n'),
        ({"format": "csv", "header": "true", "delimiter": ";"}, "id;name\n1;x\n"),
        ({"format": "text"}, "x\n"),
    ],
)
def test_files_are_what_they_are_called(spark: Any, tmp_path: Path, options: dict[str, str], wanted: str) -> None:
    batch = spark.sql("SELECT 1 AS id, 'x' AS name")
    if options["format"] == "text":
        batch = batch.select("name")
    sink(tmp_path / "data", "files", **options).write(batch, "q", 0)
    assert [file.read_text() for file in (tmp_path / "data").glob("batch-q-0-part-*")] == [wanted]


def test_rows_that_do_not_fit_are_one_line(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"^job.toml: sink.path was not written: .*[^\n]*$"):
        sink(tmp_path / "data", "files", format="text").write(spark.range(1), "q", 0)
