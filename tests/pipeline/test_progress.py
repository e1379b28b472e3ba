"""What is told of a query, in whatever words PySpark has its offsets."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.pipeline.checkpoint import Checkpoint
from ottla.pipeline.job import Job
from ottla.pipeline.job_file import of_texts, read_settings
from ottla.pipeline.running import Progress, Running, _rows

JOB = {
    "bootstrap.servers": "localhost:9092",
    "source.type": "topic",
    "source.topics": "orders",
    "sink.type": "parquet",
    "sink.path": "/tmp",
}
NOW = "2026-01-31T12:00:00.000Z"
END, LATEST = {"orders": {"0": 5, "1": 7}}, {"orders": {"0": 9, "1": 7}}


class Told(dict[str, Any]):
    """PySpark's StreamingQueryProgress: what Spark says as JSON, and as keys with offsets in words of its own."""

    def __init__(self, in_words: Any) -> None:
        said = {"batchId": 3, "timestamp": NOW, "numInputRows": 12, "processedRowsPerSecond": 2.5}
        source = {"description": "KafkaV2[Subscribe[orders]]", "numInputRows": 12, "startOffset": None}
        self.json = json.dumps({**said, "sources": [{**source, "endOffset": END, "latestOffset": LATEST}]})
        kept = {**source, "endOffset": in_words(END), "latestOffset": in_words(LATEST)}
        super().__init__({**said, "sources": [kept]})


# The first is PySpark 4.2, the other is 4.0 and 4.1.
@pytest.mark.parametrize("in_words", [json.dumps, str])
def test_the_lag_is_told_whatever_words_pyspark_has_for_offsets(in_words: Any, tmp_path: Path) -> None:
    told: list[Progress] = []
    spark: Any = None
    running = Running(Job(of_texts(JOB, "job")), Checkpoint(tmp_path), spark, told.append)
    query: Any = SimpleNamespace(recentProgress=[Told(in_words)])
    positions: Any = object()
    assert running._tell_since(query, positions, (-1, "")) == (3, NOW)
    assert told == [Progress(batch=3, rows=12, rows_per_second=2.5, lag=4)]


def source(read: int, start: Any, end: Any, description: str = "KafkaV2[Subscribe[orders]]") -> dict[str, Any]:
    offsets = {"startOffset": start, "endOffset": end, "latestOffset": end}
    return {"description": description, "numInputRows": read, **offsets}


def test_rows_that_spark_reads_twice_count_once() -> None:
    start = {"orders": {"0": 2, "1": 7}}
    assert _rows({"sources": [source(6, start, END)]}) == 3
    assert _rows({"sources": [source(24, None, END)]}) == 12
    # Some of the offsets are no records.
    assert _rows({"sources": [source(2, start, END)]}) == 2
    files = source(6, {"logOffset": 1}, {"logOffset": 2}, "FileStreamSource[file:/in]")
    assert _rows({"sources": [files], "observedMetrics": {"source.rows": {"rows": 3}}}) == 3
    both = {"sources": [source(6, start, END), files], "observedMetrics": {"inputs[0].rows": {"rows": 2}}}
    assert _rows(both) == 5


FILES = """
[source]
type = "files"
path = "{folder}/in"
format = "csv"
header = true
follow = {follow}
schema = "id BIGINT, name STRING"
{steps}
[sink]
type = "parquet"
path = "{folder}/out"
"""
WINDOW = """
[[steps]]
kind = "window"
size = "10 seconds"
watermark = "1 minute"
group_by = ["value.id"]
aggregates.n = "count(*)"
emit = "final"
"""
JOIN = """
[[inputs]]
name = "others"
type = "files"
path = "{folder}/others"
format = "csv"
schema = "id BIGINT"
[[steps]]
kind = "deduplicate"
keys = ["value.id"]
watermark = "1 hour"
name = "unique"
[[steps]]
kind = "join"
from = "unique"
with = "others"
within = "1 hour"
on = "unique.value.id = others.value.id"
watermark = "1 hour"
select = ["others.value.id AS value"]
"""
STATE = """
[[steps]]
kind = "state"
class = "forgetting:Forgetting"
group_by = "value.id"
schema = "n INT"
"""
FORGETTING = """
import pandas
from pyspark.sql.streaming import StatefulProcessor


class Forgetting(StatefulProcessor):
    def init(self, handle):
        pass

    def handleInputRows(self, key, rows, timerValues):
        yield pandas.DataFrame({"n": [sum(map(len, rows))]})

    def close(self):
        pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("follow", ["true", "false"])
@pytest.mark.parametrize(
    ("steps", "rows"), [("", 3), (WINDOW, 3), (JOIN, 5), (STATE, 3)], ids=["none", "window", "join", "state"]
)
def test_a_row_of_a_file_counts_once_though_steps_have_spark_read_the_file_twice(
    spark: Any, tmp_path: Path, steps: str, rows: int, follow: str
) -> None:
    for folder, text in (("in", "id,name\n1,a\n2,b\n\n3,c\n"), ("others", "1\n2\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.csv").write_text(text)
    (tmp_path / "forgetting.py").write_text(FORGETTING)
    path = tmp_path / "job.toml"
    path.write_text(FILES.format(folder=tmp_path, follow=follow, steps=steps.format(folder=tmp_path)))
    told: list[Progress] = []
    Running(Job(read_settings(path)), Checkpoint(tmp_path / "checkpoint"), spark, told.append).run(once=True)
    assert [progress.rows for progress in told if progress.rows] == [rows]
    assert all(progress.rows_per_second > 0 for progress in told if progress.rows)
