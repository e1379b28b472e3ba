"""Schemas in the languages of Connect and Spark, and what is said of those that are none."""

import json
import re
from typing import Any

import pytest

from ottla.pipeline.formats.avro_schema import parse_avro
from ottla.pipeline.formats.schema import Schema, from_spark, to_connect, to_connect_text
from ottla.pipeline.formats.schema_text import parse_schema

CONNECT = {
    "type": "struct",
    "fields": [
        {"type": "int64", "optional": False, "doc": "which", "field": "id"},
        {"type": "array", "items": {"type": "string", "optional": True}, "optional": True, "field": "tags"},
        {
            "type": "map",
            "keys": {"type": "int32", "optional": False},
            "values": {"type": "double", "optional": True},
            "optional": True,
            "field": "rates",
        },
        {
            "type": "bytes",
            "optional": True,
            "name": "org.apache.kafka.connect.data.Decimal",
            "version": 1,
            "parameters": {"scale": "2", "connect.decimal.precision": "10"},
            "field": "price",
        },
        {
            "type": "struct",
            "fields": [
                {"type": "int32", "optional": True, "name": "org.apache.kafka.connect.data.Date", "version": 1}
                | {"field": "d y"}
            ],
            "optional": True,
            "field": "at",
        },
    ],
    "optional": True,
}
DDL = """
    id BIGINT NOT NULL COMMENT 'which', tags ARRAY<STRING>, rates map<int,double>, price: DECIMAL(10, 2),
    at STRUCT<`d y`: DATE>
"""
SPARK = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": False, "metadata": {}},
        {
            "name": "tags",
            "type": {"type": "array", "elementType": "string", "containsNull": True},
            "nullable": True,
            "metadata": {},
        },
        {
            "name": "rates",
            "type": {"type": "map", "keyType": "integer", "valueType": "double", "valueContainsNull": True},
            "nullable": True,
            "metadata": {},
        },
        {"name": "price", "type": "decimal(10,2)", "nullable": True, "metadata": {}},
        {
            "name": "at",
            "type": {"type": "struct", "fields": [{"name": "d y", "type": "date", "nullable": True, "metadata": {}}]},
            "nullable": True,
            "metadata": {},
        },
    ],
}


def test_the_three_languages_of_schemas_say_the_same() -> None:
    connect = parse_schema(json.dumps(CONNECT))
    assert to_connect(connect) == CONNECT
    assert parse_schema(DDL) == connect
    without_doc = [{key: value for key, value in each.items() if key != "doc"} for each in CONNECT["fields"]]  # type: ignore[attr-defined]
    assert to_connect(parse_schema(json.dumps(SPARK))) == {**CONNECT, "fields": without_doc}
    assert connect.spark_type == (
        "STRUCT<`id`: BIGINT, `tags`: ARRAY<STRING>, `rates`: MAP<INT, DOUBLE>, `price`: DECIMAL(10,2),"
        " `at`: STRUCT<`d y`: DATE>>"
    )


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("BIGINT", "int64"),
        ('"long"', "int64"),
        ('{"type": "int64", "optional": true}', "int64"),
        ("decimal(38,6)", "bytes"),
        ("ARRAY<STRUCT<a: INT, b: MAP<STRING, ARRAY<BINARY>>>>", "array"),
        ("varchar(10)", "string"),
    ],
)
def test_a_schema_may_be_one_type(text: str, kind: str) -> None:
    assert parse_schema(text).type == kind


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("id BIGINT,", "ends too early"),
        ("id BIGINT name STRING", "is no schema at 'name'"),
        ("id BIGINTEGER", "has a type that records cannot have: biginteger"),
        ("id INTERVAL", "has a type that records cannot have: interval"),
        ("id ARRAY<INT", "is no schema at '': > is missing"),
        ("id MAP<INT>", "is no schema at '>': , is missing"),
        ("id $", "is no schema at '$'"),
        ("id INT NOT", "is no schema at '': null is missing"),
        ("a INT, A INT", "has two fields named a"),
        ("DECIMAL(39,2)", "has a decimal of 39 digits"),
        ("DECIMAL(5,6)", "has a decimal of 5 digits with 6"),
        ('{"type":', "is no JSON: "),
        ('"timestampp"', "has a type that records cannot have: timestampp"),
        ('{"type": "int65"}', "has a type that Connect does not know: int65"),
        ('{"type": "array"}', "has a schema without a type"),
        ('{"type": "map", "keyType": "string"}', "has a map that is not as Spark tells them"),
        ('{"type": "struct", "fields": [{"field": 1, "type": "int8"}]}', "has a field without a name"),
        ('{"type": "struct"}', "has a struct without fields"),
        ('{"type": "int32", "default": "x"}', 'has a default that is no INT32: "x"'),
        ('{"type": "int8", "default": 128}', "has a default that is no INT8: 128"),
        ('{"type": "bytes", "default": "?"}', "has a default that is no BYTES"),
        ('{"type": "array", "items": {"type": "int8"}, "default": [null]}', "has a default that is no ARRAY"),
        ('{"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal"}', "has a decimal without the parameter"),
        ('{"type": "int64", "name": "org.apache.kafka.connect.data.Date"}', "that is no int32"),
        ('{"type": "int8", "parameters": {"a": 1}}', "has parameters that are no texts"),
    ],
)
def test_what_is_no_schema_is_told(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match="^.*" + re.escape(reason)):
        parse_schema(text)


def test_defaults_of_all_types_are_known() -> None:
    cases: list[tuple[dict[str, Any], Any]] = [
        ({"type": "boolean"}, False),
        ({"type": "double"}, 1),
        ({"type": "bytes"}, "AQI="),
        ({"type": "map", "keys": {"type": "string"}, "values": {"type": "int8"}}, {"a": 1}),
        ({"type": "map", "keys": {"type": "int8"}, "values": {"type": "string"}}, [[1, "a"]]),
        ({"type": "struct", "fields": [{"field": "a", "type": "int8", "optional": True}]}, {}),
        ({"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "1"}}, 1.5),
    ]
    for schema, default in cases:
        node = {**schema, "default": default}
        assert parse_schema(json.dumps(node)).default == default


def test_names_and_versions_of_spark_s_metadata_become_those_of_schemas() -> None:
    metadata = {"connect.name": "Order", "connect.version": 2}
    struct = {"type": "struct", "fields": [{"name": "a", "type": "date", "nullable": False, "metadata": metadata}]}
    schema = from_spark(struct, optional=False, metadata=metadata)
    assert to_connect_text(schema) == (
        '{"type":"struct","fields":[{"type":"int32","optional":false,"name":"org.apache.kafka.connect.data.Date",'
        '"version":1,"field":"a"}],"optional":false,"name":"Order","version":2}'
    )


def test_schemas_of_avro_are_known_in_connect_s_types() -> None:
    node, schema = parse_avro(
        json.dumps(
            {
                "type": "record",
                "name": "a.Order",
                "fields": [
                    {"name": "id", "type": {"type": "long", "logicalType": "timestamp-millis"}},
                    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
                    {"name": "other", "type": ["null", "Kind", "a.Kind"], "default": None},
                    {"name": "sum", "type": [{"type": "bytes", "logicalType": "decimal", "precision": 9}, "null"]},
                    {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
                    {"name": "more", "type": {"type": "map", "values": {"type": "array", "items": "Hash"}}},
                ],
            }
        )
    )
    assert node["name"] == "a.Order"
    assert schema.spark_type == (
        "STRUCT<`id`: TIMESTAMP, `kind`: STRING, `other`: STRUCT<`member0`: STRING, `member1`: STRING>,"
        " `sum`: DECIMAL(9,0), `hash`: BINARY, `more`: MAP<STRING, ARRAY<BINARY>>>"
    )
    assert [each.optional for _, each in schema.fields] == [False, False, True, True, False, False]
    assert dict(schema.fields)["hash"] == Schema("bytes", optional=False, size=4)
    assert parse_avro("long")[1].type == "int64"


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("text", "has a type that Avro does not know: text"),
        ({"type": "record", "fields": []}, "has a record without a name"),
        ({"type": "record", "name": "A"}, "has a record without fields: A"),
        ({"type": "record", "name": "A", "fields": [{"name": "b"}]}, "has a field without a name or a type: A"),
        ({"type": "record", "name": "A", "fields": [{"name": "b", "type": ["null", "A"]}]}, "holds itself"),
        ({"type": "enum", "name": "A", "symbols": []}, "has an enum without symbols: A"),
        ({"type": "fixed", "name": "A"}, "has a fixed without a size: A"),
        ({"type": "array"}, "has a type that Avro does not know: null"),
        (["null"], "has a union of nothing"),
        ({"type": "bytes", "logicalType": "decimal"}, "has a decimal without a precision"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 40}, "has a decimal of 40 digits"),
    ],
)
def test_what_is_no_schema_of_avro_is_told(schema: object, reason: str) -> None:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    with pytest.raises(ValueError, match=re.escape(reason)):
        parse_avro(text)
