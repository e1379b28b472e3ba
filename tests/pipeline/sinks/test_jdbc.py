"""Batches in tables of a database: once each, whichever step failed."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ottla.pipeline.settings import JobError
from ottla.pipeline.sinks import Sink, read_sink
from ottla.pipeline.sinks.jdbc import JdbcSink
from tests.pipeline.jobs import keys

pytestmark = [pytest.mark.once, pytest.mark.slow]
UPSERT = {"insert_mode": "upsert", "pk_fields": "id", "auto_create": "true"}


class Database:
    """A SQLite database, and sinks into its table `items`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "items.db"
        self.url = f"jdbc:sqlite:{self._path}"

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self._path)) as connection, connection:
            return [row for statement in statements for row in connection.execute(statement).fetchall()]

    def items(self) -> list[tuple[Any, ...]]:
        return self.run("SELECT * FROM items ORDER BY 1, 2")

    def left(self) -> list[str]:
        """Staging tables that are there."""
        return [name for (name,) in self.run("SELECT name FROM sqlite_master WHERE name LIKE 'ottla_staging%'")]

    def sink(self, **values: object) -> Sink:
        return read_sink(keys("sink", type="jdbc", url=self.url, table="items", **values))


class Again(JdbcSink):
    """As if Spark lost sight of tasks that had committed their rows, and ran them again."""

    def _stage(self, batch: Any, staging: str) -> None:
        super()._stage(batch, staging)
        super()._stage(batch, staging)


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path)


def rows(spark: Any, *found: tuple[int, str], parts: int = 1) -> Any:
    return spark.createDataFrame(list(found), "id bigint, name string").repartitionByRange(parts, "id")


def test_rows_are_added_once_whichever_step_failed(spark: Any, database: Database) -> None:
    sink = database.sink()
    database.run("CREATE TABLE items (Id BIGINT, name TEXT, added TEXT DEFAULT 'now')")
    sink.check(spark)
    sink.write(rows(spark, (1, "a"), (2, "b"), parts=2), "q", 0)
    batch = rows(spark, (3, "c"), (4, "d"), parts=2)
    failing = batch.where("id < 4 OR raise_error('killed') IS NULL")
    with pytest.raises(JobError, match=r"job.toml: sink.table failed: .*killed"):
        sink.write(failing, "q", 1)
    again = Again(keys("sink", type="jdbc", url=database.url, table="items"))
    with pytest.raises(JobError, match=r"job.toml: sink.table failed: .*UNIQUE constraint failed"):
        again.write(batch, "q", 1)
    for when in ("AFTER INSERT ON items", "BEFORE UPDATE ON ottla_batches", "AFTER UPDATE ON ottla_batches"):
        database.run(f"CREATE TRIGGER failing {when} BEGIN SELECT RAISE(ABORT, 'killed'); END")
        with pytest.raises(JobError, match=r"job.toml: sink.table failed: .*killed"):
            sink.write(batch, "q", 1)
        database.run("DROP TRIGGER failing")
        assert database.items() == [(1, "a", "now"), (2, "b", "now")]
        # What is left is of the last attempt alone.
        assert len(database.left()) == 1
    wanted = [(1, "a", "now"), (2, "b", "now"), (3, "c", "now"), (4, "d", "now")]
    for batch_id in (1, 1, 0):
        sink.write(batch, "q", batch_id)
        assert database.items() == wanted
    assert database.left() == []
    sink.write(rows(spark, (5, "e")), "another", 0)
    assert database.run("SELECT * FROM ottla_batches ORDER BY 1") == [("another", 0), ("q", 1)]
    assert len(database.items()) == 5


def test_of_rows_with_the_same_key_the_last_one_counts(spark: Any, database: Database) -> None:
    sink = database.sink(**UPSERT)
    sink.check(spark)
    for _ in range(2):
        sink.write(rows(spark, (1, "a"), (2, "b"), (1, "a again")), "q", 0)
    sink.write(rows(spark, (2, "b again"), (3, "c"), (3, "c again")), "q", 1)
    sink.write(rows(spark, (1, "late")), "q", 0)
    assert database.items() == [(1, "a again"), (2, "b again"), (3, "c again")]
    only_keys = database.sink(**UPSERT)
    only_keys.write(rows(spark, (3, ""), (4, "")).select("id"), "q", 2)
    assert database.items()[2:] == [(3, "c again"), (4, None)]


def test_a_table_is_made_for_columns_of_all_kinds(spark: Any, database: Database) -> None:
    kinds = ["TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(9, 2)", "STRING", "BOOLEAN"]
    columns = [f'CAST(1 AS {kind}) AS `a {number} "`' for number, kind in enumerate(kinds)]
    batch = spark.sql(f"SELECT {', '.join(columns)}, X'00FF' AS bytes, DATE'2024-01-01' AS day, NULL :: INT AS none")
    database.sink(auto_create="true").write(batch, "q", 0)
    assert database.items() == [(1, 1, 1, 1, 1.0, 1.0, 1, "1", 1, b"\x00\xff", 1704067200000, None)]


def test_what_does_not_fit_is_one_line(spark: Any, database: Database) -> None:
    sink = database.sink()
    with pytest.raises(JobError, match=r"^job.toml: sink.table failed: SQLiteException: .*no such table: items\)$"):
        sink.check(spark)
    database.run("CREATE TABLE items (id BIGINT NOT NULL, name TEXT)")
    with pytest.raises(JobError, match=r"^job.toml: sink.table items has no column other$"):
        sink.write(spark.sql("SELECT 1 AS id, 2 AS other"), "q", 0)
    with pytest.raises(JobError, match=r"^job.toml: sink.pk.fields names id, which rows have not: name$"):
        database.sink(insert_mode="upsert", pk_fields="id").write(spark.sql("SELECT 'a' AS name"), "q", 0)
    with pytest.raises(JobError, match=r"^job.toml: sink.table failed: .*NOT NULL constraint failed: items.id"):
        sink.write(spark.sql("SELECT CAST(NULL AS BIGINT) AS id, 'a' AS name"), "q", 0)
    assert database.items() == []
