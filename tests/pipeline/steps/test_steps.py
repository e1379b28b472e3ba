"""Steps on Spark: rows that are there at once, then streams of several batches with late and bad records."""

import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ottla.pipeline.settings import JobError, Settings
from ottla.pipeline.steps import Input, apply_steps
from tests.pipeline.steps import frames
from tests.pipeline.steps.frames import bad, record

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

NOON = datetime(2024, 1, 1, 12)
NOON_MS = 1704110400000
COUNTER = '''
import pandas
from pyspark.sql.streaming import StatefulProcessor


class Counter(StatefulProcessor):
    """Counts the records of a key; tells of a key that had none for a minute, and forgets it."""

    def init(self, handle):
        self.handle = handle
        self.count = handle.getValueState("count", "n BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        frame = pandas.concat(rows)
        count = (self.count.get()[0] if self.count.exists() else 0) + len(frame)
        self.count.update((count,))
        for timer in self.handle.listTimers():
            self.handle.deleteTimer(timer)
        self.handle.registerTimer(int(frame.timestamp.max().timestamp() * 1000) + 60_000)
        yield pandas.DataFrame({"who": [key[0]], "n": [count]})

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        self.count.clear()
        yield pandas.DataFrame({"who": [key[0]], "n": [-1]})

    def close(self):
        pass
'''


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_rows_go_through_queries_tables_and_deduplication(spark: Any, tmp_path: Path) -> None:
    records = frames.table(
        spark, tmp_path / "in", [record("a", 1), record("a", 1), record("b", 2), record("c", 3), bad(4)]
    )
    people = [record("a", 1, 10.0), record("b", 2, 20.0), record("a", 3, 30.0), record("b", 4, None)]
    customers = Input("customers", True, Settings({"type": "topic"}, "job.toml")).prepare(
        frames.table(spark, tmp_path / "customers", people)
    )
    read = frames.steps("""
        [[inputs]]
        name = "customers"
        as = "table"
        type = "topic"
        [[steps]]
        kind = "deduplicate"
        keys = ["value.id"]
        watermark = "1 hour"
        [[steps]]
        kind = "sql"
        name = "limits"
        query = "SELECT key AS who, value.amount AS `most, ever` FROM customers"
        [[steps]]
        kind = "join"
        with = "limits"
        type = "left"
        on = "key = who"
        select = ["key", "timestamp", "headers", "`most, ever`"]
    """)
    result = apply_steps(records, read, {"customers": customers})
    assert result.columns == [
        *("key", "value", "topic", "partition", "offset", "timestamp", "headers", "error", "original")
    ]
    found = sorted(result.collect(), key=lambda row: row.key or "z")
    # Of customers, a has a newer record and b a tombstone.
    assert [(row.key, row.value and row.value.asDict(), row.timestamp) for row in found] == [
        ("a", {"most, ever": 30.0}, after(1)),
        ("b", {"most, ever": None}, after(2)),
        ("c", {"most, ever": None}, after(3)),
        (None, None, after(4)),
    ]
    assert [row.error and row.error.message for row in found] == [None, None, None, "bad 4"]
    # Of each of the two files once for what is joined, and once more of the records for what is bad.
    assert result._jdf.queryExecution().optimizedPlan().toString().count("Relation [") == 3


def test_a_column_that_a_step_calls_error_is_its_own(spark: Any, tmp_path: Path) -> None:
    records = frames.table(spark, tmp_path / "in", [record("a", 1), bad(2)])
    read = frames.steps("""
        [[steps]]
        kind = "sql"
        query = "SELECT key, 'E1' AS error, 7 AS original FROM records"
    """)
    good, other = sorted(apply_steps(records, read, {}).collect(), key=lambda row: row.key or "z")
    assert (good.key, good.value.asDict(), good.error) == ("a", {"error": "E1", "original": 7}, None)
    assert other.error.message == "bad 2"


def test_a_table_with_a_bad_record_ends_who_reads_it(spark: Any, tmp_path: Path) -> None:
    table = Input("customers", True, Settings({"type": "topic"}, "job.toml"))
    with pytest.raises(Exception, match="offset 2: VALUE_CONVERTER: bad 2"):
        table.prepare(frames.table(spark, tmp_path / "in", [record("a", 1), bad(2)])).collect()


@pytest.mark.parametrize("is_session", [False, True])
def test_windowed_keys_are_those_of_kafka_streams(spark: Any, tmp_path: Path, is_session: bool) -> None:
    java = spark._jvm.org.apache.kafka
    size = "session_gap = '10 seconds'" if is_session else "size = '10 seconds'"
    rows = frames.table(spark, tmp_path / "in", [record("ädä", 3), record("ädä", 8), record("ädä", 31)])
    spans = [(3, 8), (31, 31)] if is_session else [(0, 10), (30, 40)]
    window = java.streams.kstream.internals.SessionWindow if is_session else java.streams.kstream.internals.TimeWindow
    wrapper = (
        java.streams.kstream.SessionWindowedSerializer if is_session else java.streams.kstream.TimeWindowedSerializer
    )
    cases = {
        "key": ("ädä", java.common.serialization.StringSerializer()),
        "encode(key, 'UTF-8')": (bytearray("ädä".encode()), java.common.serialization.ByteArraySerializer()),
        "length(key) - 8": (-5, java.common.serialization.IntegerSerializer()),
        "length(key) - 5000000000": (3 - 5_000_000_000, java.common.serialization.LongSerializer()),
    }
    for sql, (key, serializer) in cases.items():
        read = frames.steps(f"""
            [[steps]]
            kind = "window"
            {size}
            watermark = "0 seconds"
            group_by = ["key AS who"]
            aggregates.n = "count(*)"
            key = "{sql.replace("key", "who")}"
            value = "n"
            windowed_key = "kafka-streams"
        """)
        expected = [
            bytes(
                wrapper(serializer).serialize(
                    "any", java.streams.kstream.Windowed(key, window(NOON_MS + start * 1000, NOON_MS + end * 1000))
                )
            )
            for start, end in spans
        ]
        found = apply_steps(rows, read, {}).orderBy("value", ascending=False).collect()
        assert [(bytes(row.key), row.value) for row in found] == [(expected[0], 2), (expected[1], 1)], sql


def test_windows_tell_of_every_change_until_they_are_closed_and_bad_records_pass(spark: Any, tmp_path: Path) -> None:
    batches = [
        [record("a", 0, 2.0), record("b", 5), record("a", 9), bad(1)],
        [record("a", 12)],
        [record("a", 3, 4.0), record("b", 100)],  # late, and in time
        [record("c", 101)],
        [record("a", 4, 8.0), record("c", 102)],  # too late for its window
    ]
    read = frames.steps("""
        [[steps]]
        kind = "window"
        size = "10 seconds"
        watermark = "1 minute"
        group_by = ["key AS who"]
        aggregates = { n = "count(*)", total = "sum(value.amount)" }
        key = "who"
        value = "named_struct('n', n, 'total', total)"
    """)
    found = frames.run(frames.stream(spark, tmp_path / "in", batches), read, {}, tmp_path / "checkpoint")
    told = [
        sorted(
            (row.key.key, row.key.start, row.key.end, row.value.n, row.value.total, row.timestamp)
            for row in rows
            if row.error is None
        )
        for rows in found
    ]
    assert told == [
        [("a", NOON, after(10), 2, 3.0, after(9)), ("b", NOON, after(10), 1, 1.0, after(5))],
        [("a", after(10), after(20), 1, 1.0, after(12))],
        [("a", NOON, after(10), 3, 7.0, after(9)), ("b", after(100), after(110), 1, 1.0, after(100))],
        [("c", after(100), after(110), 1, 1.0, after(101))],
        [("c", after(100), after(110), 2, 2.0, after(102))],
    ]
    errors = [[row.error.message for row in rows if row.error] for rows in found]
    assert errors == [["bad 1"], [], [], [], []]


def test_sessions_are_told_once_and_windows_may_follow_them(spark: Any, tmp_path: Path) -> None:
    batches = [
        [record("a", 0), record("a", 4), record("a", 20)],
        [record("a", 8), record("b", 30)],
        [record("b", 200)],
        [record("b", 400)],
    ]
    read = frames.steps("""
        [[steps]]
        kind = "window"
        session_gap = "5 seconds"
        watermark = "10 seconds"
        group_by = ["key"]
        aggregates = { n = "count(*)" }
        [[steps]]
        kind = "window"
        size = "1 minute"
        advance = "30 seconds"
        emit = "final"
        group_by = ["key"]
        aggregates = { sessions = "count(*)", last = "max(window_end)", most = "max(n)" }
        windowed_key = "none"
    """)
    found = frames.run(frames.stream(spark, tmp_path / "in", batches), read, {}, tmp_path / "checkpoint")
    rows = sorted((row.value.window_start, row.key, *row.value[:3]) for rows in found for row in rows)
    assert rows == [
        (after(-30), "a", 2, after(20), 3),
        (NOON, "a", 2, after(20), 3),
        (NOON, "b", 1, after(30), 1),
        (after(30), "b", 1, after(30), 1),
        (after(150), "b", 1, after(200), 1),
        (after(180), "b", 1, after(200), 1),
    ]
    assert len(rows) == len(set(rows))


def test_streams_are_joined_within_a_time_once_each_and_told_of_what_found_nothing(spark: Any, tmp_path: Path) -> None:
    orders = [
        [record("a", 0, 1.0), record("b", 5, 2.0), record("a", 0, 1.0)],
        [record("a", 12, 3.0)],
        [record("c", 300, 4.0)],
        [record("c", 600, 5.0)],
    ]
    payments = [[record("a", 2, 10.0)], [record("b", 16, 20.0), bad(17)], [record("z", 300)], [record("z", 600)]]
    read = frames.steps("""
        [[inputs]]
        name = "payments"
        [[steps]]
        kind = "deduplicate"
        keys = ["key", "value.id"]
        watermark = "1 minute"
        [[steps]]
        kind = "join"
        with = "payments"
        type = "left"
        on = "records.key = payments.key"
        within = "10 seconds"
        watermark = "1 minute"
        select = ["records.key AS key", "records.value.amount AS ordered", "payments.value.amount AS paid"]
    """)
    inputs = {"payments": frames.stream(spark, tmp_path / "payments", payments)}
    found = frames.run(frames.stream(spark, tmp_path / "orders", orders), read, inputs, tmp_path / "checkpoint")
    rows = [row for rows in found for row in rows]
    assert sorted((row.key, *row.value) for row in rows if row.error is None) == [
        ("a", 1.0, 10.0),
        ("a", 3.0, 10.0),
        ("b", 2.0, None),
        ("c", 4.0, None),
    ]
    assert [row.error.message for row in rows if row.error] == ["bad 17"]


def test_a_class_beside_the_job_keeps_state_and_has_timers(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "counting.py").write_text(COUNTER)
    batches = [
        [record("A", 0), record("b", 1), record("a", 2)],
        [record("a", 3)],
        [record("b", 100)],
        [record("b", 110)],  # only now a minute is over: the watermark is that of the batch before
        [record("a", 111)],
    ]
    text = """
        [[steps]]
        kind = "state"
        class = "counting:Counter"
        group_by = ["lower(key)"]
        schema = "who STRING, n BIGINT"
        timers = "event"
        watermark = "10 seconds"
        key = "who"
        value = "n"
    """
    read = frames.steps(text, str(tmp_path / "job.toml"))
    found = frames.run(frames.stream(spark, tmp_path / "in", batches), read, {}, tmp_path / "checkpoint")
    assert [sorted((row.key, row.value) for row in rows) for rows in found] == [
        [("a", 2), ("b", 1)],
        [("a", 3)],
        [("b", 2)],
        [("a", -1), ("b", 3)],
        [("a", 1)],
    ]


def test_what_spark_finds_wrong_names_the_step(spark: Any, tmp_path: Path) -> None:
    records = frames.stream(spark, tmp_path / "in", [[record("a", 1)]])
    window = "kind = 'window'\nsize = '10 seconds'\nwatermark = '1 minute'\nemit = 'final'\ngroup_by = ['key']\n"
    counted = window + "aggregates.n = 'count(*)'\n"
    same = "kind = 'sql'\nquery = 'SELECT key, value FROM records'\n"
    state = "kind = 'state'\nclass = '{}'\ngroup_by = 'key'\nschema = 'n INT'"
    file = str(tmp_path / "job.toml")
    cases = {
        "kind = 'sql'\nquery = 'SELECT valeu FROM records'": r"steps\[0\]: .*UNRESOLVED_COLUMN.*`valeu`",
        "kind = 'sql'\nquery = 'SELEC 1'": r"steps\[0\]: .*PARSE_SYNTAX_ERROR",
        window + "aggregates.n = 'sum(amuont)'": r"steps\[0\]: .*UNRESOLVED_COLUMN.*`amuont`",
        counted + "[[steps]]\n" + counted: r"steps\[1\]\.watermark was said by an earlier step, and stays",
        counted.replace("['key']", "'topic'") + "windowed_key = 'struct'": r"steps\[0\]\.key is missing",
        same + "windowed_key = 'struct'": r"windowed_key finds no columns",
        same + "[[steps]]\n" + counted: r"watermark finds no column timestamp",
        counted
        + "key = 'struct(key)'\nwindowed_key = 'kafka-streams'": r"key is to be one of .*, not struct<key:string>",
        state.format("nowhere:A"): r"class cannot be found: .*nowhere",
        state.format("no_python:A"): r"class cannot be made: SyntaxError: .*no_python\.py, line 1",
        state.format("wants_more:A"): r"class cannot be made: TypeError: .*missing 1 required",
    }
    (tmp_path / "no_python.py").write_text("class A(:\n")
    (tmp_path / "wants_more.py").write_text("class A:\n    def __init__(self, more): ...\n")
    for text, line in cases.items():
        with pytest.raises(JobError, match=f"^{re.escape(file)}: (?s:.*){line}") as error:
            apply_steps(records, frames.steps("[[steps]]\n" + text, file), {})
        assert "\n" not in str(error.value), json.dumps(str(error.value))
