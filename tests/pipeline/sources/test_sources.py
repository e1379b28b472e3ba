"""Keys of sources: what is wrong with them is said before Spark starts."""

import re
from pathlib import Path
from typing import Any

import pytest

from ottla.pipeline.settings import JobError
from ottla.pipeline.sources import read_source
from tests.pipeline.jobs import keys

MEMORY = "jdbc:sqlite:here.db"
CSV = {"type": "files", "path": ".", "format": "csv", "schema": "a int"}
TABLE = {"type": "jdbc", "url": MEMORY, "table": "t"}


@pytest.mark.parametrize(
    "values",
    [
        {"type": "files", "path": "."},
        {"type": "Files", "path": "./*", "format": "csv", "schema": "a int", "header": True, "maxFilesPerTrigger": 3},
        {"type": "files", "path": ".", "format": "json", "schema": "a int", "follow": "true"},
        {"type": "files", "path": "s3a://bucket/logs", "ignoreMissingFiles": "true"},
        {"type": "files", "path": ".", "format": "parquet"},
        {"type": "files", "path": "./{a,b}.log", "follow": False},
        {**CSV, "cleanSource": "ARCHIVE", "sourceArchiveDir": "/done"},
        {**TABLE, "mode": "bulk", "poll_interval_ms": "100", "user": "u", "password": "p"},
        {**TABLE, "mode": "incrementing", "incrementing_column_name": "id"},
        {**TABLE, "mode": "timestamp", "timestamp_column_name": "at", "timestamp_delay_interval_ms": 10},
        {"type": "jdbc", "url": "jdbc:h2:x", "driver": "org.h2.Driver", "query": "SELECT 1", "mode": "bulk"},
        {"type": "rate", "rowsPerSecond": "5"},
        {"type": "datagen", "columns": {"a": "id"}, "rowsPerSecond": 5, "numberOfRows": 7},
        {"type": "datagen", "columns_a": "id", "numberOfRows": "7"},
    ],
)
def test_what_is_right_is_taken(values: dict[str, Any]) -> None:
    read_source(keys("source", **values))


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"type": "file"}, "source.type is to be one of datagen, files, jdbc, rate, not 'file'"),
        ({}, "source.type is missing"),
        ({"type": "files"}, "source.path is missing"),
        ({"type": "files", "path": "nowhere/*.log"}, "source.path names nowhere, which is not there"),
        ({"type": "files", "path": ".", "format": "xml"}, "source.format is to be one of text, csv, json, parquet"),
        ({"type": "files", "path": ".", "format": "csv"}, "source.schema is missing"),
        ({"type": "files", "path": ".", "header": "true"}, "source.header is unknown"),
        ({"type": "files", "path": "./{a,b}.log"}, "source.path has braces, which are for files that are read whole"),
        ({**CSV, "maxFilesPerTrigger": "many"}, "source.maxFilesPerTrigger is to be a whole number, not 'many'"),
        ({**CSV, "cleanSource": "burn"}, "source.cleanSource is to be one of off, delete, archive, not 'burn'"),
        ({**CSV, "cleanSource": "archive"}, "source.sourceArchiveDir is missing"),
        ({**CSV, "cleanSource": "delete", "follow": True}, "source.cleanSource is unknown"),
        ({**CSV, "header": "yes"}, "source.header is to be true or false, not 'yes'"),
        ({**CSV, "mode": "FAILFAST"}, "source.mode is unknown"),
        ({**CSV, "format": "json", "schema": "id BIGNT"}, "source.schema has a type that records cannot have: bignt"),
        ({"type": "files", "path": ".", "maxFilesPerTrigger": "1"}, "source.maxFilesPerTrigger is unknown"),
        ({"type": "files", "path": ".", "format": "parquet", "follow": "true"}, "source.follow is for files of lines"),
        ({"type": "files", "path": "s3a://b/c", "follow": "true"}, "source.follow is for files on disks"),
        (
            {**TABLE, "mode": "some"},
            "source.mode is to be one of bulk, incrementing, timestamp, timestamp+incrementing",
        ),
        (TABLE, "source.mode is missing"),
        ({**TABLE, "query": "SELECT 1", "mode": "bulk"}, "source.table or query is to be there, one of both"),
        ({"type": "jdbc", "url": MEMORY, "mode": "bulk"}, "source.table or query is to be there, one of both"),
        ({**TABLE, "mode": "incrementing"}, "source.incrementing.column.name is missing"),
        ({**TABLE, "mode": "timestamp"}, "source.timestamp.column.name is missing"),
        (
            {**TABLE, "mode": "bulk", "timestamp_column_name": "at"},
            "source.timestamp.column.name is unknown",
        ),
        ({**TABLE, "mode": "bulk", "poll_interval_ms": "0"}, "source.poll.interval.ms is to be at least 1, not 0"),
        ({**TABLE, "url": "sqlite:x", "mode": "bulk"}, "source.url is to begin with jdbc:"),
        ({**TABLE, "url": "jdbc:h2:x", "mode": "bulk"}, "source.driver is missing"),
        (
            {**TABLE, "url": "jdbc:h2:x", "driver": "d", "mode": "timestamp", "timestamp_column_name": "at"},
            "source.mode is to be bulk or incrementing where the clock is unknown, not timestamp",
        ),
        ({**TABLE, "url": "jdbc:sqlite::memory:", "mode": "bulk"}, "source.url is to name a file"),
        ({"type": "rate", "rowsPerSecond": "0"}, "source.rowsPerSecond is to be at least 1, not 0"),
        ({"type": "datagen", "numberOfRows": "1"}, "source.columns is missing"),
        ({"type": "datagen", "columns": {"a": "id"}}, "source.numberOfRows is missing, and so is rowsPerSecond"),
    ],
)
def test_what_is_wrong_is_one_line_with_file_and_key(values: dict[str, Any], line: str) -> None:
    with pytest.raises(JobError, match=re.escape(f"job.toml: {line}")):
        read_source(keys("source", **values))


def test_a_database_file_has_a_folder_to_lie_in(tmp_path: Path) -> None:
    values = {**TABLE, "url": f"jdbc:sqlite:{tmp_path}/none/x.db?date_class=text", "mode": "bulk"}
    with pytest.raises(JobError, match=re.escape(f"source.url is to lie in {tmp_path}/none, which is not there")):
        read_source(keys("source", **values))


def test_a_source_says_which_jars_it_needs() -> None:
    values = {"type": "jdbc", "url": "jdbc:postgresql://localhost/x", "table": "t", "mode": "bulk"}
    assert list(read_source(keys("source", **values)).needs) == ["postgresql"]
    assert list(read_source(keys("source", type="rate")).needs) == []
