"""Tables that have transactions of their own: Delta; Iceberg where there is none; and the terminal."""

from pathlib import Path
from typing import Any

import pytest

from ottla.pipeline.settings import JobError
from ottla.pipeline.sinks import read_sink
from tests.pipeline.jobs import keys

pytestmark = [pytest.mark.once, pytest.mark.slow]


def test_delta_takes_a_batch_once(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "table"
    sink = read_sink(keys("sink", type="delta", path=str(path), partition_by="part"))
    sink.check(spark)
    rows = [spark.range(start, start + 10).selectExpr("id", "id % 2 AS part") for start in (0, 10, 20)]
    failing = rows[0].where("id < 9 OR raise_error('killed') IS NULL")
    with pytest.raises(JobError, match=r"job.toml: sink.path was not written: .*killed"):
        sink.write(failing, "q", 0)
    for batch, query_id, batch_id in ((0, "q", 0), (0, "q", 0), (1, "q", 1), (0, "q", 0), (2, "r", 0)):
        sink.write(rows[batch], query_id, batch_id)
    assert sorted(row.id for row in spark.read.format("delta").load(str(path)).collect()) == list(range(30))
    assert (path / "part=1").is_dir()
    with pytest.raises(JobError, match=r"job.toml: sink.path was not written: .*"):
        sink.write(spark.sql("SELECT 'text' AS id, 'text' AS other"), "q", 2)


def test_iceberg_is_refused_where_its_jar_is_not(spark: Any) -> None:
    sink = read_sink(keys("sink", type="iceberg", table="lake.db.t"))
    line = rf"job.toml: sink.type needs Iceberg for Spark {spark.version}, which is in none of Spark's jars"
    with pytest.raises(JobError, match=line):
        sink.check(spark)


def test_the_terminal_shows_some_rows(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    sink = read_sink(keys("sink", type="console", numRows=2, truncate=False))
    sink.write(spark.range(3).selectExpr("concat('row ', id, repeat('.', 30)) AS text"), "q", 7)
    shown = capsys.readouterr().out
    assert shown.startswith("batch 7\n")
    assert f"row 1{'.' * 30}" in shown
    assert "row 2" not in shown


def test_a_row_that_the_terminal_does_not_show_is_read_too(spark: Any) -> None:
    sink = read_sink(keys("sink", type="console", numRows=2))
    rows = spark.range(0, 10, 1, 2).selectExpr("if(id < 9, id, raise_error('the last one')) AS id")
    with pytest.raises(Exception, match="the last one"):
        sink.write(rows, "q", 8)
