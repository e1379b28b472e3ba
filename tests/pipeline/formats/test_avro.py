"""Avro, alone and behind the id of a schema."""

import json
from decimal import Decimal
from typing import Any

import pytest

from ottla.pipeline.settings import JobError
from tests.pipeline.frames import made, records, seen

pytestmark = pytest.mark.slow

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "name", "type": ["null", "string"], "default": None},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        ],
    }
)
# By the specification: zigzag numbers, lengths before texts and bytes, the number of a union's type before its value.
GOOD = bytes([2, 2, 4]) + b"hi" + bytes([2, 48, 2])


def test_avro_is_read_whole_or_not_at_all(spark: Any) -> None:
    form = made(type="avro", schema=SCHEMA)
    frame = form.decode(
        records(spark, [GOOD, None, b"", GOOD[:-1], GOOD + b"\0", b"\xff" * 9, b"\2\0\2\x30\6"]), "value"
    )
    read = seen(frame)
    assert tuple(read[0][0]) == (1, "hi", Decimal("0.48"), "B")
    assert read[1] == (None, None)
    assert read[2:] == [(None, "Failed to deserialize data to Avro")] * 5
    back = seen(form.encode(frame, "value"))
    assert bytes(back[0][0]) == GOOD
    assert back[1:] == [(None, message) for _, message in read[1:]]


def test_a_null_of_avro_is_no_error(spark: Any) -> None:
    optional = made(type="avro", schema=json.dumps(["null", "int"]))
    fields = {"type": "record", "name": "A", "fields": [{"name": "a", "type": ["null", "int"]}]}
    assert seen(optional.decode(records(spark, [b"\0", b"\2\4", b"\0\0", b"\4"]), "value")) == [
        (None, None),
        (2, None),
        (None, "Failed to deserialize data to Avro"),
        (None, "Failed to deserialize data to Avro"),
    ]
    ((value, message),) = seen(made(type="avro", schema=json.dumps(fields)).decode(records(spark, [b"\0"]), "value"))
    assert (value.a, message) == (None, None)


def test_records_stand_behind_their_schema_s_id(spark: Any) -> None:
    form = made(type="avro", schema=SCHEMA, use_schema_id="258")
    framed = bytes([0, 0, 0, 1, 2]) + GOOD
    data = [framed, None, b"\1" + framed[1:], framed[:4], b"\0\0\0\1\3" + GOOD, framed[:-1]]
    frame = form.decode(records(spark, data), "value")
    read = seen(frame)
    assert read[0][0].name == "hi"
    assert [message for _, message in read] == [
        None,
        None,
        "Unknown magic byte, or no schema id behind it",
        "Unknown magic byte, or no schema id behind it",
        "The record's schema has the id 259, which use.schema.id=258 is not",
        "Failed to deserialize data to Avro",
    ]
    assert bytes(seen(form.encode(frame, "value"))[0][0]) == framed
    plain = made(type="avro", schema=SCHEMA)
    hint = "Failed to deserialize data to Avro; if it stands behind a schema's id, set use.schema.id to 258"
    assert seen(plain.decode(records(spark, [framed]), "value")) == [(None, hint)]


def test_what_does_not_fit_a_schema_of_avro_is_an_error(spark: Any) -> None:
    from pyspark.sql import functions

    value = (
        "named_struct('kind', IF(offset = 0, 'C', 'A'), 'id', IF(offset = 1, NULL, offset), 'price', 1.005 * offset)"
    )
    frame = records(spark, [b"0", b"1", b"2", b"200"]).withColumn("value", functions.expr(value))
    written = made(type="avro", schema=SCHEMA).encode(frame, "value")
    assert [message for _, message in seen(written)] == [
        "is no STRING at kind: C",
        "Conversion error: null value for field that is required and has no default value: id",
        None,
        "is no DECIMAL(9,2) at price: 3.015",
    ]
    with pytest.raises(JobError, match=r"value\.schema needs a field id, which is not there"):
        made(type="avro", schema=SCHEMA).encode(
            frame.withColumn("value", functions.expr("named_struct('a', 1)")), "value"
        )
