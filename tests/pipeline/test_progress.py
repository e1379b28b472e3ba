"""What is told of a query, in whatever words PySpark has its offsets."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.pipeline.checkpoint import Checkpoint
from ottla.pipeline.job import Job
from ottla.pipeline.job_file import of_texts
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
    assert _rows(source(6, start, END)) == 3
    assert _rows(source(24, None, END)) == 12
    # Some of the offsets are no records.
    assert _rows(source(2, start, END)) == 2
    assert _rows(source(6, {"logOffset": 1}, {"logOffset": 2}, "FileStreamSource[file:/in]")) == 6
