"""How record frames are made."""

import datetime
import json
from typing import Any

import pytest

from ottla.pipeline.record_frame import COLUMNS, ERROR, ORIGINAL, from_kafka, from_values
from tests.pipeline.frames import records

pytestmark = pytest.mark.slow


def test_a_frame_has_the_same_columns_wherever_its_rows_come_from(spark: Any) -> None:
    values = from_values(spark.sql("SELECT 1 AS id, 'x' AS `a b`, CAST(NULL AS DATE) AS topic"), "rows")
    kafka = records(spark, [b"v"], key=b"k")
    bare = from_kafka(spark.sql("SELECT X'01' key, X'02' value, 't' topic, 0 partition, 5L offset, now() timestamp"))
    for frame in (values, kafka, bare):
        assert tuple(frame.columns) == COLUMNS
        types = {field.name: field.dataType.simpleString() for field in frame.schema}
        assert types["error"] == ERROR.replace(", ", ",").replace(": ", ":")
        assert types["original"] == ORIGINAL.replace(", ", ",").replace(": ", ":")
    row = kafka.first()
    assert (row.topic, row.partition, row.offset, bytes(row.key), bytes(row.value)) == ("orders", 3, 0, b"k", b"v")
    assert [(header.key, bytes(header.value)) for header in row.headers] == [("from", b"test")]
    assert (bytes(row.original.key), bytes(row.original.value), row.original.topic) == (b"k", b"v", "orders")
    assert row.original.headers == row.headers
    assert bare.first().headers == []


def test_a_row_of_no_topic_is_a_value(spark: Any) -> None:
    frame = from_values(spark.sql("SELECT 1 AS id, 'x' AS `a b`, CAST(NULL AS DATE) AS topic"), "rows")
    row = frame.first()
    assert row.value.asDict() == {"id": 1, "a b": "x", "topic": None}
    assert (row.topic, row.partition, row.offset, row.key, row.headers, row.error) == (
        "rows",
        None,
        None,
        None,
        [],
        None,
    )
    assert abs((datetime.datetime.now(datetime.UTC).replace(tzinfo=None) - row.timestamp).total_seconds()) < 600
    assert json.loads(bytes(row.original.value)) == {"id": 1, "a b": "x", "topic": None}
