"""Columns become Arrow's, nulls and odd values among them."""

import datetime
import random
from collections.abc import Sequence
from typing import Any

import pytest

from ottla.pipeline.log_source_columns import BatchWalk, Columns
from ottla.wire.records.batch import HEADER_SIZE, NewRecord, TimestampType, build_batch, iter_records, parse_header
from tests.log.building import NOW_MS

pytest.importorskip("pyarrow")


def table(*batches: bytes | bytearray, start: int = 0, end: int = 1 << 40) -> Any:
    from ottla.pipeline.log_source_arrow import record_batch

    columns = Columns(start, end)
    for batch in batches:
        columns.take(bytes(batch[HEADER_SIZE:]), BatchWalk(parse_header(batch)))
    found = record_batch(columns, "orders", 3)
    found.validate(full=True)
    return found


def batch_of(records: Sequence[NewRecord], **how: Any) -> bytearray:
    return build_batch(records, **how)


@pytest.mark.trials(few=10, soak=50)
def test_any_records_are_the_same_in_arrow(seed: int, trials: int) -> None:
    choose = random.Random(seed)
    for _ in range(trials):
        kinds = [None, b"", b"x", choose.randbytes(300)]
        batches = []
        for base_offset in range(0, 1000, 100):
            records = [
                NewRecord(
                    choose.choice(kinds),
                    choose.choice(kinds),
                    NOW_MS + choose.randrange(1000),
                    tuple((choose.choice("abü"), choose.choice(kinds)) for _ in range(choose.choice([0, 0, 1, 4]))),
                )
                for _ in range(choose.randint(1, 100))
            ]
            batches.append(batch_of(records, base_offset=base_offset))
        start, end = sorted(choose.sample(range(1001), 2))
        expected = [each for batch in batches for each in iter_records(batch) if start <= each.offset < end]
        if expected:
            rows = table(*batches, start=start, end=end).to_pylist()
            assert [(row["offset"], row["key"], row["value"]) for row in rows] == [
                (each.offset, each.key, each.value) for each in expected
            ]
            headers = [tuple((each["key"], each["value"]) for each in row["headers"] or ()) for row in rows]
            assert headers == [each.headers for each in expected]
            assert [row["headers"] is None for row in rows] == [not each.headers for each in expected]
            assert [row["timestamp"].timestamp() * 1000 for row in rows] == [each.timestamp for each in expected]
            assert {(row["topic"], row["partition"], row["timestampType"]) for row in rows} == {("orders", 3, 0)}


def test_records_that_the_broker_stamped_have_its_time(seed: int) -> None:
    records = [NewRecord(None, b"v", NOW_MS), NewRecord(None, b"v", NOW_MS + 1000)]
    rows = table(batch_of(records, timestamp_type=TimestampType.LOG_APPEND_TIME)).to_pylist()
    assert {(row["timestampType"], row["timestamp"].timestamp() * 1000) for row in rows} == {(1, NOW_MS + 1000)}


def test_a_time_that_spark_cannot_tell_is_null() -> None:
    times = [-1, 2**63 - 1, -(2**62), 0]
    column = table(*(batch_of([NewRecord(None, None, time)]) for time in times)).column("timestamp")
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert column.to_pylist() == [epoch - datetime.timedelta(milliseconds=1), None, None, epoch]


def test_a_header_whose_key_is_no_text_is_read_as_kafkas_consumer_reads_it() -> None:
    batch = batch_of([NewRecord(None, None, NOW_MS, (("Kxy", b"v"), ("sound", None)))])
    batch[batch.index(b"Kxy")] = 0xFF
    assert table(batch).to_pylist()[0]["headers"] == [
        {"key": "\ufffdxy", "value": b"v"},
        {"key": "sound", "value": None},
    ]
