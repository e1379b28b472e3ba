"""PostgreSQL as source and as sink: what it wants to be told otherwise than SQLite."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ottla.pipeline.settings import JobError
from ottla.pipeline.sinks import read_sink
from ottla.pipeline.sources import read_source
from tests.pipeline import postgres
from tests.pipeline.jobs import batches, keys

pytestmark = [pytest.mark.once, pytest.mark.slow]


@pytest.fixture(scope="module")
def database() -> Iterator[postgres.Postgres]:
    with postgres.running() as server:
        yield server


def test_times_with_and_without_a_zone_are_read_up_to_the_clock(
    spark: Any, database: postgres.Postgres, tmp_path: Path
) -> None:
    database.run(
        "CREATE TABLE items (id bigserial, zoned timestamptz, plain timestamp)",
        "INSERT INTO items (zoned, plain) SELECT at, at AT TIME ZONE current_setting('timezone')"
        " FROM (VALUES (now()), (now() + interval '1 hour')) AS times (at)",
    )
    for column in ("zoned", "plain"):
        part = {"type": "jdbc", "url": database.url, "table": "items", "mode": "timestamp+incrementing"}
        columns = {"timestamp_column_name": column, "incrementing_column_name": "id"}
        source = read_source(keys("source", **part, **columns))
        frame = source.load(spark, streaming=True, checkpoint=str(tmp_path / column))
        assert [[row[0] for row in rows] for rows in batches(frame, tmp_path / column)] == [[1]]


def test_batches_are_written_once_by_several_connections(spark: Any, database: postgres.Postgres) -> None:
    values = {"url": database.url, "table": "public.copies", "auto_create": "true"}
    upsert = {"insert_mode": "upsert", "pk_fields": "id"}
    sink = read_sink(keys("sink", type="jdbc", **values, **upsert))
    sink.check(spark)
    columns = [
        "id",
        "concat('row ', id) AS name",
        "now() AS at",
        "X'00FF' AS raw",
        "id % 2 = 0 AS even",
        "id / 2 AS half",
    ]
    batch = spark.range(0, 1000, 1, 4).selectExpr(*columns)
    sink.write(batch, "q", 0)
    # Rows of one key in one batch, of which the last counts.
    twice = spark.range(3).coalesce(1).selectExpr("0 AS id", "concat('again ', id) AS name")
    failing = "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''killed''; END'"
    database.run(failing, "CREATE TRIGGER failing AFTER UPDATE ON ottla_batches FOR EACH ROW EXECUTE FUNCTION fail()")
    with pytest.raises(JobError, match=r"^job.toml: sink.table failed: PSQLException: ERROR: killed$"):
        sink.write(twice, "q", 1)
    summary = "SELECT count(*), min(name), max(name), min(half), bool_and(even = (id % 2 = 0)) FROM copies"
    assert database.run(summary) == ["1000|row 0|row 999|0|t"]
    database.run("DROP TRIGGER failing ON ottla_batches")
    for _ in range(2):
        sink.write(twice, "q", 1)
    assert database.run(summary) == ["1000|again 2|row 999|0|t"]
    assert database.run("SELECT * FROM ottla_batches") == ["q|1"]
    assert database.run("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'ottla_staging%'") == ["0"]


def test_several_jobs_may_be_the_first_at_once(spark: Any, database: postgres.Postgres) -> None:
    database.run("DROP TABLE IF EXISTS ottla_batches")

    def write(number: int) -> None:
        values = {"url": database.url, "table": f"first_{number}", "auto_create": "true"}
        read_sink(keys("sink", type="jdbc", **values)).write(spark.range(3), f"q{number}", 0)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write, range(6)))
    assert database.run("SELECT count(*) FROM ottla_batches") == ["6"]


def test_a_large_answer_is_fetched_piece_by_piece(spark: Any, database: postgres.Postgres) -> None:
    database.run("CREATE SEQUENCE pulled")
    query = "SELECT number, nextval('pulled') FROM generate_series(1, 100000) AS numbers (number)"
    source = read_source(keys("source", type="jdbc", url=database.url, query=query, mode="bulk"))
    assert len(source.load(spark, streaming=False).take(1)) == 1
    assert int(database.run("SELECT last_value FROM pulled")[0]) < 10_000


def test_a_clock_that_goes_back_has_no_row_read_twice(spark: Any, database: postgres.Postgres, tmp_path: Path) -> None:
    database.run("CREATE TABLE late (id bigserial, at timestamptz)")

    def polled(age: str, delay_ms: int) -> list[list[int]]:
        database.run(f"INSERT INTO late (at) VALUES (now() - interval '{age}')")
        part = {"type": "jdbc", "url": database.url, "table": "late", "mode": "timestamp+incrementing"}
        columns = {"timestamp_column_name": "at", "incrementing_column_name": "id"}
        source = read_source(keys("source", **part, **columns, timestamp_delay_interval_ms=delay_ms))
        frame = source.load(spark, streaming=True, checkpoint=str(tmp_path))
        return [[row[0] for row in rows] for rows in batches(frame, tmp_path)]

    assert polled("1 minute", 0) == [[1]]
    assert polled("2 hours", 3_600_000) == [[2]]
    assert polled("2 hours", 0) == [[3]]


def test_a_database_that_is_down_is_one_line(spark: Any) -> None:
    sink = read_sink(keys("sink", type="jdbc", url="jdbc:postgresql://127.0.0.1:1/x", table="t", password="secret"))
    with pytest.raises(JobError, match=r"^job.toml: sink.url leads to no database: .*refused[^\n]*$") as caught:
        sink.check(spark)
    assert "secret" not in str(caught.value)
