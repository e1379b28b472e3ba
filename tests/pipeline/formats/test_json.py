"""Plain JSON with a schema: what is read, what is not, and what is written."""

import datetime
import json
from decimal import Decimal
from typing import Any

import pytest

from tests.pipeline.frames import made, records, seen

pytestmark = pytest.mark.slow

SCHEMA = (
    "id BIGINT NOT NULL, name STRING, tiny TINYINT, price DECIMAL(10,2), at TIMESTAMP, day DATE, tags ARRAY<STRING>"
)
GOOD = (
    b'{"id":1,"name":"\xc3\xa4","tiny":-1,"price":1.50,"at":"2024-01-02T03:04:05.123456Z","day":"2024-01-02","tags":[]}'
)
BAD = [
    b"",
    b"  ",
    b"{",
    b"x",
    b"5",
    b"[1]",
    b'[{"id":1}]',
    b'{"id":1} x',
    b'{"id":1},{"id":2}',
    b'{"id":1},"payload":{"id":2}',
    b'{"id":"1"}',
    b'{"id":1.5}',
    b'{"id":9223372036854775808}',
    b"{'id':1}",
    b'{"id":1,"tiny":200}',
    b'{"id":1,"price":123456789.00}',
    b'{"id":1,"at":"yesterday"}',
    b'{"id":1,"tags":5}',
    b'{"id":1,"name":"\xff"}',
    b'{"name":"x"}',
    b'{"id":null}',
]


def test_json_is_read_strictly_and_nulls_are_no_errors(spark: Any) -> None:
    form = made(type="json", schema=SCHEMA)
    frame = form.decode(records(spark, [GOOD, None, b"null", b' {"id":2,"name":{"a":[1]}} ', *BAD]), "value")
    assert frame.schema["value"].dataType.simpleString() == (
        "struct<id:bigint,name:string,tiny:tinyint,price:decimal(10,2),at:timestamp,day:date,tags:array<string>>"
    )
    read = seen(frame)
    at = datetime.datetime(2024, 1, 2, 3, 4, 5, 123456)
    assert tuple(read[0][0]) == (1, "\u00e4", -1, Decimal("1.50"), at, at.date(), [])
    assert read[1:3] == [(None, None), (None, None)]
    assert (read[3][0].id, read[3][0].name) == (2, '{"a":[1]}')
    good = [data for data, (_, message) in zip(BAD, read[4:], strict=True) if message is None]
    assert good == []
    assert all(value is None for value, _ in read[4:])
    written = form.encode(frame, "value").where("offset IN (0, 1)")
    back = seen(written)
    assert bytes(back[0][0]) == GOOD
    assert back[1] == (None, None)


def test_an_error_says_what_was_done_and_is_kept(spark: Any) -> None:
    strict = made(type="json", schema="BIGINT")
    frame = strict.decode(records(spark, [b"x", b"1", b"2"], key=b"1"), "value")
    frame = strict.encode(made(type="json", schema="STRING").decode(frame, "key"), "value")
    rows = sorted(frame.collect(), key=lambda row: int(row.offset))
    assert rows[0].error.asDict() == {
        "stage": "VALUE_CONVERTER",
        "executing": "org.apache.kafka.connect.json.JsonConverter",
        "class": "org.apache.kafka.connect.errors.DataException",
        "message": "Converting byte[] to Kafka Connect data failed due to serialization error: no JSON of the schema",
    }
    assert (rows[0].key, rows[0].value) == (None, None)
    assert [row.error for row in rows[1:]] == [None, None]
    assert [bytes(row.value) for row in rows[1:]] == [b"1", b"2"]
    assert (bytes(rows[0].original.key), bytes(rows[0].original.value)) == (b"1", b"x")
    keys = strict.decode(records(spark, [b"1"], key=b"x"), "key").first()
    assert keys.error.stage == "KEY_CONVERTER"


def test_without_a_schema_any_value_is_written_as_json(spark: Any) -> None:
    from pyspark.sql import functions

    value = functions.expr("named_struct('a', map('k', 1), 'b', X'0102', 'c', CAST(NULL AS INT), 'd', float('NaN'))")
    frame = records(spark, [b""]).withColumn("value", value)
    ((written, message),) = seen(made(type="json").encode(frame, "value"))
    assert message is None
    assert bytes(written) == b'{"a":{"k":1},"b":"AQI=","c":null,"d":"NaN"}'


def test_a_time_without_a_zone_is_written_as_one_of_utc_with_all_its_digits(spark: Any) -> None:
    from pyspark.sql import functions

    sql = "named_struct('at', TIMESTAMP_NTZ '2024-01-02 03:04:05.123456')"
    in_all = f"named_struct('one', {sql}, 'many', array({sql}), 'by', map('a', {sql}))"
    frame = records(spark, [b""]).withColumn("value", functions.expr(in_all))
    plain, connect = made(type="json"), made(type="JsonConverter", schemas_enable="false")
    for form, time in ((plain, "2024-01-02T03:04:05.123456Z"), (connect, 1704164645123)):
        ((written, message),) = seen(form.encode(frame, "value"))
        assert message is None
        at = {"at": time}
        assert json.loads(written) == {"one": at, "many": [at], "by": {"a": at}}
