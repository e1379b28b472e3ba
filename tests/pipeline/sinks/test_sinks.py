"""Keys of sinks: what is wrong with them is said before Spark starts."""

import re
from pathlib import Path
from typing import Any

import pytest

from ottla.pipeline.settings import JobError
from ottla.pipeline.sinks import read_sink
from tests.pipeline.jobs import keys

TABLE = {"type": "jdbc", "url": "jdbc:sqlite:here.db", "table": "t"}


@pytest.mark.parametrize(
    "values",
    [
        {"type": "parquet", "path": "here", "partition_by": "a,b", "compression": "zstd"},
        {"type": "files", "path": "s3a://bucket/x/y", "format": "csv", "header": True, "delimiter": ";"},
        {"type": "files", "path": "here", "format": "parquet"},
        {"type": "delta", "path": "here", "partition_by": ["a"]},
        {"type": "iceberg", "table": "lake.db.t"},
        TABLE,
        {**TABLE, "insert_mode": "UPSERT", "pk_fields": "a,b", "auto_create": "true"},
        {**TABLE, "url": "jdbc:postgresql://somewhere/x", "user": "u", "password": "p"},
        {"type": "console", "numRows": 5, "truncate": False},
    ],
)
def test_what_is_right_is_taken(values: dict[str, Any]) -> None:
    read_sink(keys("sink", **values))


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"type": "stdout"}, "sink.type is to be one of console, delta, files, iceberg, jdbc, parquet, not 'stdout'"),
        ({"type": "parquet"}, "sink.path is missing"),
        ({"type": "parquet", "path": "x", "format": "csv"}, "sink.format is unknown"),
        ({"type": "files", "path": "x"}, "sink.format is missing"),
        ({"type": "files", "path": "x", "format": "avro"}, "sink.format is to be one of parquet, json, csv, text"),
        ({"type": "files", "path": "x", "format": "json", "header": "true"}, "sink.header is unknown"),
        ({"type": "delta", "table": "t"}, "sink.path is missing"),
        ({"type": "iceberg", "path": "t"}, "sink.table is missing"),
        ({"type": "jdbc", "url": "jdbc:sqlite:x.db"}, "sink.table is missing"),
        ({**TABLE, "insert_mode": "update"}, "sink.insert.mode is to be one of insert, upsert, not 'update'"),
        ({**TABLE, "insert_mode": "upsert"}, "sink.pk.fields is missing"),
        ({**TABLE, "insert_mode": "upsert", "pk_fields": ""}, "sink.pk.fields is to name the columns"),
        (
            {**TABLE, "url": "jdbc:h2:x", "driver": "org.h2.Driver"},
            "sink.url is to begin with jdbc:sqlite: or jdbc:postgresql:",
        ),
        ({**TABLE, "auto_create": "maybe"}, "sink.auto.create is to be true or false, not 'maybe'"),
        ({"type": "console", "numRows": 0}, "sink.numRows is to be at least 1, not 0"),
    ],
)
def test_what_is_wrong_is_one_line_with_file_and_key(values: dict[str, Any], line: str) -> None:
    with pytest.raises(JobError, match=re.escape(f"job.toml: {line}")):
        read_sink(keys("sink", **values))


@pytest.mark.parametrize("kind", ["parquet", "delta"])
@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_a_path_has_a_folder_to_lie_in(tmp_path: Path, kind: str, scheme: str) -> None:
    line = f"job.toml: sink.path is to lie in {tmp_path}/none, which is not there"
    with pytest.raises(JobError, match=re.escape(line)):
        read_sink(keys("sink", type=kind, path=f"{scheme}{tmp_path}/none/x"))
    read_sink(keys("sink", type=kind, path=f"{scheme}{tmp_path}/x"))


def test_a_sink_says_which_jars_it_needs() -> None:
    assert list(read_sink(keys("sink", type="delta", path="x")).needs) == ["delta"]
    assert list(read_sink(keys("sink", **TABLE)).needs) == ["sqlite"]
