"""Tables as streams: which rows each poll takes, and that each is in one batch whatever happens."""

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ottla.pipeline.checkpoint import Checkpoint
from ottla.pipeline.job import Job
from ottla.pipeline.job_file import read_settings
from ottla.pipeline.running import Running
from ottla.pipeline.settings import JobError
from ottla.pipeline.sources import Source, read_source
from tests.pipeline.jobs import Rows, batches, keys

pytestmark = [pytest.mark.once, pytest.mark.slow]


class Table:
    """A table `items` in a SQLite database, and the source that reads it."""

    def __init__(self, folder: Path) -> None:
        self.url = f"jdbc:sqlite:{folder}/items.db"
        self._path = folder / "items.db"
        self.run("CREATE TABLE items (id INTEGER, name TEXT, changed TEXT)")

    def run(self, *statements: str) -> None:
        with closing(sqlite3.connect(self._path)) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    def add(self, *rows: tuple[int | None, str, str]) -> None:
        with closing(sqlite3.connect(self._path)) as connection, connection:
            connection.executemany("INSERT INTO items VALUES (?, ?, ?)", rows)

    def source(self, mode: str, **values: object) -> Source:
        what = {} if "query" in values else {"table": "items"}
        columns = {}
        if "incrementing" in mode:
            columns["incrementing_column_name"] = "id"
        if "timestamp" in mode:
            columns["timestamp_column_name"] = "changed"
        part = {"type": "jdbc", "url": self.url, "mode": mode, "poll_interval_ms": 1, **what, **columns, **values}
        return read_source(keys("source", **part))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def names(found: list[Rows]) -> list[list[str]]:
    return [sorted(row[1] for row in rows) for rows in found]


def test_new_numbers_are_read_once_and_a_replayed_batch_has_the_rows_of_its_poll(
    spark: Any, table: Table, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"

    def stream(and_then: Callable[[], None] = lambda: None) -> list[list[str]]:
        frame = table.source("incrementing").load(spark, streaming=True, checkpoint=str(checkpoint))
        return names(batches(frame.where("id IS NULL OR id > 0"), checkpoint, and_then))

    def fail() -> None:
        raise RuntimeError("killed")

    assert stream() == []
    table.add((1, "a", ""), (3_000_000_000, "b", ""))
    assert stream() == [["a", "b"]]
    table.add((3_000_000_003, "c", ""), (None, "no number", ""), (3_000_000_004, "d", ""))
    with pytest.raises(Exception, match="killed"):
        stream(fail)
    # Whatever becomes of them, the batch had them and has them again; what is new is in the next one.
    table.run("DELETE FROM items WHERE id = 3000000003", "UPDATE items SET name = 'other' WHERE id = 3000000004")
    table.add((3_000_000_005, "e", ""))
    assert stream() == [["c", "d"], ["e"]]
    assert stream() == []


def test_times_are_read_up_to_the_database_s_clock(spark: Any, table: Table, tmp_path: Path) -> None:
    past, soon = "strftime('%Y-%m-%d %H:%M:%S', 'now', '-1 hour')", "CURRENT_TIMESTAMP"
    future = "strftime('%Y-%m-%d %H:%M:%S', 'now', '+1 hour')"
    table.run(f"INSERT INTO items VALUES (1, 'past', {past}), (2, 'future', {future}), (3, 'never', NULL)")
    sources = {mode: table.source(mode) for mode in ("timestamp", "timestamp+incrementing")}
    found: dict[str, list[str]] = {mode: [] for mode in sources}
    queries = []
    for mode, source in sources.items():
        frame = source.load(spark, streaming=True, checkpoint=str(tmp_path / mode))

        def note(batch: Any, _: int, into: list[str] = found[mode]) -> None:
            into.extend(row.name for row in batch.collect())

        writer = frame.writeStream.foreachBatch(note).option("checkpointLocation", str(tmp_path / mode))
        queries.append(writer.start())
    # In one transaction: who sees the last one could have seen all of them.
    late = f"INSERT INTO items VALUES (5, 'late', {past}), (1, 'late, old number', {past})"
    try:
        for query in queries:
            query.processAllAvailable()
        table.run(late, f"UPDATE items SET name = 'changed', changed = {soon} WHERE id = 1 AND name = 'past'")
        deadline = time.monotonic() + 60
        while not all("changed" in each for each in found.values()) and time.monotonic() < deadline:
            for source, query in zip(sources.values(), queries, strict=True):
                source.poll()
                query.processAllAvailable()
    finally:
        for query in queries:
            query.stop()
    # What comes late is missed but for a new number.
    assert found["timestamp"] == ["past", "changed"]
    assert found["timestamp+incrementing"][0] == "past"
    assert sorted(found["timestamp+incrementing"][1:]) == ["changed", "late"]


def test_times_that_jdbc_wrote_and_queries_are_read_and_a_delay_keeps_off_what_is_young(
    spark: Any, table: Table, tmp_path: Path
) -> None:
    now_ms = int(time.time()) * 1000
    table.run("CREATE TABLE numbers (id BIGINT, changed TIMESTAMP)")
    table.run(f"INSERT INTO numbers VALUES (1, {now_ms - 60_000}), (2, {now_ms - 1_000}), (3, {now_ms + 60_000})")
    query = "SELECT id, changed FROM numbers WHERE id <> 7"

    def polled(delay_ms: int) -> list[Rows]:
        source = table.source("timestamp", query=query, timestamp_delay_interval_ms=delay_ms)
        checkpoint = tmp_path / str(delay_ms)
        frame = source.load(spark, streaming=True, checkpoint=str(checkpoint)).select("id")
        return batches(frame, checkpoint)

    assert polled(0) == [[(1,), (2,)]]
    assert polled(30_500) == [[(1,)]]
    assert table.source("timestamp", query=query).load(spark, streaming=False).count() == 3


def test_in_bulk_each_poll_has_all_rows(spark: Any, table: Table, tmp_path: Path) -> None:
    table.add((1, "a", ""))
    source = table.source("bulk")
    frame = source.load(spark, streaming=True, checkpoint=str(tmp_path / "checkpoint"))
    table.run("UPDATE items SET name = 'b'")
    source.poll()
    assert names(batches(frame, tmp_path / "checkpoint")) == [["a"], ["b"]]


def test_a_poll_waits_for_its_time_and_for_the_batches_before_it(
    spark: Any, table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.pipeline.sources.jdbc._MOST_WAITING", 3)
    table.add((1, "a", ""))
    patient = table.source("bulk", poll_interval_ms=3_600_000)
    frame = patient.load(spark, streaming=True, checkpoint=str(tmp_path / "patient"))
    patient.poll()
    assert len(names(batches(frame, tmp_path / "patient"))) == 1
    eager = table.source("bulk")
    eager.load(spark, streaming=True, checkpoint=str(tmp_path / "eager"))
    for _ in range(5):
        eager.poll()
    assert spark.read.parquet(f"{tmp_path}/eager/jdbc/rows/*").count() == 3


def test_rows_that_spark_did_not_remove_do_not_keep_new_ones_away(
    spark: Any, table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.pipeline.sources.jdbc._MOST_WAITING", 3)
    checkpoint, rows = tmp_path / "checkpoint", tmp_path / "checkpoint" / "jdbc" / "rows"
    kept: dict[Path, bytes] = {}
    for number in range(6):
        table.add((number, f"row {number}", ""))
        frame = table.source("incrementing").load(spark, streaming=True, checkpoint=str(checkpoint))
        kept |= {file: file.read_bytes() for file in rows.glob("*/*.parquet")}
        assert names(batches(frame, checkpoint)) == [[f"row {number}"]]
        # Killed before it was removed, the file of every other poll stays.
        for file, content in kept.items():
            if int(file.parent.name) % 2:
                file.parent.mkdir(exist_ok=True)
                file.write_bytes(content)


@pytest.mark.parametrize("name", ["[ab]", "{a,b}", "*", "a\\b", "a b"])
def test_a_checkpoint_may_be_called_as_a_pattern(spark: Any, table: Table, tmp_path: Path, name: str) -> None:
    table.add((1, "of another job", ""))
    # What a pattern would match.
    batches(table.source("bulk").load(spark, streaming=True, checkpoint=f"{tmp_path}/a"), tmp_path / "a")
    table.run("UPDATE items SET name = 'a'")
    frame = table.source("bulk").load(spark, streaming=True, checkpoint=f"{tmp_path}/{name}")
    assert names(batches(frame, tmp_path / "spark")) == [["a"]]


def test_how_far_one_table_was_read_says_nothing_of_another(spark: Any, table: Table, tmp_path: Path) -> None:
    table.add((7, "a", ""))
    table.run("CREATE TABLE others AS SELECT 1 AS id, 'b' AS name")
    checkpoint = tmp_path / "checkpoint"
    batches(table.source("incrementing").load(spark, streaming=True, checkpoint=str(checkpoint)), checkpoint)
    with pytest.raises(JobError, match=r"^job.toml: source.table was items when the job ran before: reset the job"):
        table.source("incrementing", table="others").load(spark, streaming=True, checkpoint=str(checkpoint))


def test_a_clock_that_goes_back_and_a_longer_delay_have_no_row_read_twice(
    spark: Any, table: Table, tmp_path: Path
) -> None:
    def polled(delay_ms: int) -> list[list[str]]:
        source = table.source("timestamp+incrementing", timestamp_delay_interval_ms=delay_ms)
        frame = source.load(spark, streaming=True, checkpoint=str(tmp_path / "checkpoint"))
        return names(batches(frame, tmp_path / "checkpoint"))

    times = {seconds: f"strftime('%Y-%m-%d %H:%M:%S', 'now', '-{seconds} seconds')" for seconds in (60, 7200)}
    table.run(f"INSERT INTO items VALUES (1, 'first', {times[60]})")
    assert polled(0) == [["first"]]
    # Too late for its time; an hour's delay has the source look further back than it has read.
    table.run(f"INSERT INTO items VALUES (2, 'late', {times[7200]})")
    assert polled(3_600_000) == [["late"]]
    assert polled(0) == []


def test_a_table_may_be_a_stream_beside_the_source_of_a_job(spark: Any, table: Table, tmp_path: Path) -> None:
    table.add((1, "a", ""))
    (tmp_path / "in.log").write_text("b\n")
    (tmp_path / "job.toml").write_text(f"""
[source]
type = "files"
path = "{tmp_path}/in.log"
[[inputs]]
name = "items"
type = "jdbc"
url = "{table.url}"
table = "items"
mode = "incrementing"
"incrementing.column.name" = "id"
[[steps]]
kind = "sql"
query = "SELECT value.value AS name FROM records UNION ALL SELECT value.name FROM items"
[sink]
type = "files"
format = "text"
path = "{tmp_path}/out"
""")

    def written() -> list[str]:
        job = Job(read_settings(tmp_path / "job.toml"))
        Running(job, Checkpoint(tmp_path / "checkpoint"), spark, lambda _: None).run(once=True)
        return sorted(line for file in (tmp_path / "out").glob("*.txt") for line in file.read_text().split())

    assert written() == ["a", "b"]
    table.add((2, "c", ""))
    assert written() == ["a", "b", "c"]
    assert (tmp_path / "checkpoint" / "spark" / "inputs" / "items" / "jdbc").is_dir()


def test_what_a_database_says_is_one_line(spark: Any, table: Table, tmp_path: Path) -> None:
    def load(**values: object) -> str:
        with pytest.raises(JobError) as caught:
            table.source("bulk", **values).load(spark, streaming=True, checkpoint=str(tmp_path))
        return str(caught.value)

    assert load(query="SELECT * FROM none").startswith("job.toml: source.url failed: SQLiteException: [SQLITE_ERROR]")
    missing = load(url="jdbc:postgresql://127.0.0.1:1/x", driver="org.example.Driver")
    assert missing == "job.toml: source.url needs org.example.Driver, which is in none of Spark's jars"
    wrong = load(url="jdbc:postgresql://127.0.0.1:1/x", driver="org.sqlite.JDBC")
    assert wrong == "job.toml: source.url is none that org.sqlite.JDBC understands"
