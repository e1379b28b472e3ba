"""Files as streams: those that a folder gets more of, and those that grow."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from ottla.pipeline.settings import JobError
from ottla.pipeline.sources import read_source
from tests.pipeline.jobs import batches, keys

pytestmark = [pytest.mark.once, pytest.mark.slow]


def load(spark: Any, path: Path | str, *, streaming: bool = True, **values: object) -> Any:
    return read_source(keys("source", type="files", path=str(path), **values)).load(spark, streaming=streaming)


def read(spark: Any, path: Path | str, *, streaming: bool = True, **values: object) -> Any:
    """What is wrong with rows that are none, before the columns of all."""
    from pyspark.sql import functions

    frame = read_source(keys("source", type="files", path=str(path), **values)).records(spark, streaming=streaming)
    return frame.select(functions.coalesce(frame.error.message, functions.lit("")).alias("message"), "value.*")


def fail() -> None:
    raise RuntimeError("killed")


def test_lines_that_are_added_to_files_are_read_once_also_when_their_batch_is_replayed(
    spark: Any, tmp_path: Path
) -> None:
    logs, checkpoint = tmp_path / "logs", tmp_path / "checkpoint"
    logs.mkdir()
    (logs / "a.log").write_text("a0\na1\nunfin")
    (logs / "b.txt").write_text("not meant\n")
    frame = load(spark, logs / "*.log")
    assert batches(frame, checkpoint) == [[("a0",), ("a1",)]]
    with (logs / "a.log").open("a") as file:
        file.write("ished\n")
    (logs / "c.log").write_text("c0\n")
    with pytest.raises(Exception, match="killed"):
        batches(frame, checkpoint, fail)
    (logs / "d.log").write_text("d0\n")
    assert batches(frame, checkpoint) == [[("c0",), ("unfinished",)], [("d0",)]]
    assert batches(frame, checkpoint) == []


def test_a_file_that_vanishes_before_it_is_read_fails_the_batch_unless_that_is_to_be_ignored(
    spark: Any, tmp_path: Path
) -> None:
    logs, checkpoint = tmp_path / "logs", tmp_path / "checkpoint"
    logs.mkdir()
    (logs / "a.log").write_text("a0\n")
    (logs / "b.log").write_text("b0\n")
    with pytest.raises(Exception, match="killed"):
        batches(load(spark, logs), checkpoint, fail)
    (logs / "a.log").unlink()
    with pytest.raises(Exception, match=r"No such file or directory: .*a\.log"):
        batches(load(spark, logs), checkpoint)
    assert batches(load(spark, logs, ignoreMissingFiles="true"), checkpoint) == [[("b0",)]]


def test_rows_of_csv_and_json_files_that_grow_are_parsed(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id;name\n1;'x;y'\n")
    options: dict[str, Any] = {"schema": "id int, name string", "header": "TRUE", "delimiter": ";", "quote": "'"}
    frame = read(spark, tmp_path / "*.csv", format="csv", follow=True, **options)
    assert batches(frame, tmp_path / "csv") == [[("", 1, "x;y")]]
    with (tmp_path / "a.csv").open("a") as file:
        file.write("\n2;z\n")
    assert batches(frame, tmp_path / "csv") == [[("", 2, "z")]]
    (tmp_path / "a.json").write_text('{"id": 1, "name": "x"}\n\n{"name": "y"}\n{"id')
    frame = read(spark, tmp_path / "*.json", format="json", follow=True, schema="id int, name string")
    assert frame.dtypes[1:] == [("id", "int"), ("name", "string")]
    found = batches(frame.selectExpr("name", "id"), tmp_path / "json")
    assert found == [[("x", 1), ("y", None)]]


def test_files_that_appear_whole_are_read_so_many_at_a_time(spark: Any, tmp_path: Path) -> None:
    data = tmp_path / "data"
    spark.range(6).coalesce(1).write.option("maxRecordsPerFile", 2).parquet(str(data))
    frame = load(spark, data, format="parquet", maxFilesPerTrigger=1)
    assert sorted(batches(frame, tmp_path / "checkpoint")) == [[(0,), (1,)], [(2,), (3,)], [(4,), (5,)]]
    assert load(spark, data, format="parquet", streaming=False).count() == 6
    (data / "b.csv").write_text("id,name\n1,x\n")
    csv = read(spark, data / "*.csv", format="csv", streaming=False, schema="id int, name string", header="true")
    assert csv.collect() == [("", 1, "x")]
    assert load(spark, data / "*.csv", streaming=False).count() == 2


def test_a_file_that_appears_is_read_however_old_it_is(spark: Any, tmp_path: Path) -> None:
    data, checkpoint = tmp_path / "data", tmp_path / "checkpoint"
    data.mkdir()
    (data / "a.txt").write_text("a\n")
    assert batches(load(spark, data, follow=False), checkpoint) == [[("a",)]]
    (tmp_path / "b.txt").write_text("b\n")
    weeks_ago = time.time() - 30 * 86_400
    os.utime(tmp_path / "b.txt", (weeks_ago, weeks_ago))
    (tmp_path / "b.txt").rename(data / "b.txt")
    assert batches(load(spark, data, follow=False), checkpoint) == [[("b",)]]


CSV = """\
\ufeffid,name,price
1,x,9.99
2
3,y,1,z
x,y,1
4,"a
b",1

5,"q,r",
6,"x""y",1
7,"u\\"v",999.99
8,z,99999
99999999999,z,1
"""
CSV_ROWS = [(1, "x", 9.99), (5, "q,r", None), (7, 'u"v', 999.99)]
CSV_WRONG = {
    "2": "no row of the schema",
    "3,y,1,z": "no row of the schema",
    "x,y,1": "no row of the schema",
    '4,"a': "quotes that do not end where a field ends",
    'b",1': "no row of the schema",
    '6,"x""y",1': "quotes that do not end where a field ends",
    "8,z,99999": "no row of the schema",
    "99999999999,z,1": "no row of the schema",
}
JSON = """\
\ufeff{"id": 1, "name": "x", "price": 9.99}
{"id": 2
"name": "y"}
{"id": "3"}
{"id": 4} {}
[{"id": 5}]
{"id": 07}

{"id": 8}
"""
JSON_ROWS = [(1, "x", 9.99), (8, None, None)]
NO_JSON = "Converting byte[] to Kafka Connect data failed due to serialization error: no JSON of the schema"
JSON_WRONG = dict.fromkeys(
    ['{"id": 2', '"name": "y"}', '{"id": "3"}', '{"id": 4} {}', '[{"id": 5}]', '{"id": 07}'], NO_JSON
)


@pytest.mark.parametrize(
    ("form", "text", "rows", "wrong"), [("csv", CSV, CSV_ROWS, CSV_WRONG), ("json", JSON, JSON_ROWS, JSON_WRONG)]
)
def test_a_line_that_is_no_row_has_an_error_that_names_its_file(
    spark: Any, tmp_path: Path, form: str, text: str, rows: list[Any], wrong: dict[str, str]
) -> None:
    (tmp_path / "in").mkdir()
    file = tmp_path / "in" / f"a.{form}"
    file.write_text(text)
    options: dict[str, Any] = {"format": form, "schema": "id INT, name STRING, price DECIMAL(5,2)"}
    options |= {"header": True} if form == "csv" else {}
    growing = batches(read(spark, file, follow=True, **options), tmp_path / "checkpoint")
    for uri, found in (
        ("", [row for batch in growing for row in batch]),
        ("file:", read(spark, file, streaming=False, **options).collect()),
    ):
        assert sorted((row[1], row[2], row[3] and float(row[3])) for row in found if not row[0]) == rows
        told = [f"file {uri}{file}, line {line}: {why}" for line, why in wrong.items()]
        assert sorted(row[0] for row in found if row[0]) == sorted(told)
    # Each file has its header.
    (tmp_path / "in" / f"b.{form}").write_text(text)
    both = read(spark, tmp_path / "in", streaming=False, **options)
    assert both.where("message = ''").count() == 2 * len(rows)


def test_what_spark_cannot_read_is_one_line(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"^job.toml: source.path cannot be read: [^\n]*infer schema[^\n]*$"):
        load(spark, tmp_path, format="parquet")
