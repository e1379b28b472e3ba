"""JSON as Connect has it, beside Connect's own converter: all types, envelopes, defaults, and what is refused."""

import datetime
import json
from collections.abc import Iterator
from decimal import Decimal
from functools import reduce
from typing import Any

import pytest

from ottla.pipeline.settings import JobError
from tests.pipeline.connect_converters import ConnectConverters, ConnectRefused
from tests.pipeline.frames import made, records, seen

pytestmark = pytest.mark.slow

CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
LOGICAL = "org.apache.kafka.connect.data."


def optional(kind: str, **others: object) -> dict[str, object]:
    return {"type": kind, "optional": True, **others}


def required(kind: str, **others: object) -> dict[str, object]:
    return {"type": kind, "optional": False, **others}


def logical(kind: str, name: str, **parameters: str) -> dict[str, object]:
    return optional(kind, name=LOGICAL + name, version=1, **({"parameters": parameters} if parameters else {}))


def struct(**fields: dict[str, object]) -> dict[str, object]:
    return required("struct", fields=[{**each, "field": name} for name, each in fields.items()])


MONEY = logical("bytes", "Decimal", scale="2")
DAY = logical("int32", "Date")
TIME = logical("int32", "Time")
MOMENT = logical("int64", "Timestamp")
# Each type, with values as they stand in JSON.
TYPES: list[tuple[dict[str, object], list[str]]] = [
    (required("boolean"), ["true", "false"]),
    (required("int8"), ["-128", "0", "127"]),
    (optional("int16"), ["-32768", "32767"]),
    (required("int32"), ["-2147483648", "2147483647"]),
    (required("int64"), ["-9223372036854775808", "9223372036854775807"]),
    (required("float"), ["1.1", "3.4028235E38", "1.0E10", "16777216", "1.4E-45"]),
    (required("double"), ["0.1", "1.0E-7", "1.7976931348623157E308", "123456789.0"]),
    (required("bytes"), ['""', '"AQIDBA=="', '"/+8="']),
    (required("string"), ['""', '"a\\"\\\\\\n\\u0001\\u001f/"', '"\u00e4\u20ac"', '"\\u00e4 \\u2028"']),
    (MONEY, ['"AA=="', '"MA=="', '"0A=="', '"AIA="', '"gA=="', '"/38="', "12.34", "-0.05", "7.00", '"Ev+c"']),
    (
        logical("bytes", "Decimal", scale="0"),
        ['"SztMqFqGxHoJiiJAAAA="', '"SzsMqFqGxHoJiiI//////w=="', '"tMTzV6V5O4X2dd3AAAAAAQ=="', "0"],
    ),
    (logical("bytes", "Decimal", scale="18"), ['"AQ=="', '"DeC2s6dkAAA="', '"AA=="']),
    (DAY, ["0", "-1", "20000"]),
    (TIME, ["0", "86399999"]),
    (MOMENT, ["0", "-1", "1700000000123"]),
    (required("array", items=required("int32")), ["[]", "[1,2]"]),
    (required("array", items=MONEY), ['["MA==",null]']),
    (required("map", keys=required("string"), values=optional("int64")), ["{}", '{"a":1}', '{"a":null}']),
    (required("map", keys=required("int32"), values=DAY), ["[]", "[[1,5]]", "[[-1,null]]"]),
    (required("map", keys=struct(a=required("int8")), values=struct(b=MONEY)), ['[[{"a":1},{"b":"MA=="}]]']),
    (required("map", keys=DAY, values=required("string")), ['[[3,"x"]]']),
    (struct(a=optional("int32"), b=struct(c=MOMENT)), ['{"a":1,"b":{"c":5}}', '{"b":{}}', '{"a":null,"b":{"c":null}}']),
    (
        struct(a=optional("int32", default=5), b=required("string", default="x"), c={**MONEY, "default": "MA=="}),
        ['{"a":1,"b":"y","c":"MQ=="}', "{}", '{"a":null,"b":null,"c":null}'],
    ),
    (
        optional("struct", fields=[], name="Empty", version=3, doc="nothing", parameters={"b": "1", "a": "2"}),
        ["{}", '{"more":1}'],
    ),
]

ALL = struct(**{f"f{number}": {**schema, "optional": True} for number, (schema, _) in enumerate(TYPES)})
FIELDS = [f'{{"f{number}":{each}}}' for number, (_, payloads) in enumerate(TYPES) for each in payloads]
# One query for all types as fields; as the root of a record some of them will do.
CASES: list[tuple[dict[str, object], list[str]]] = [(ALL, FIELDS), TYPES[4], TYPES[9], TYPES[18]]


@pytest.fixture(scope="module")
def connect() -> Iterator[ConnectConverters]:
    with ConnectConverters() as converters:
        yield converters


def envelope(schema: object, payload: str) -> bytes:
    return f'{{"schema":{json.dumps(schema)},"payload":{payload}}}'.encode()


def round_trips(spark: Any, cases: list[tuple[dict[str, object], list[bytes]]], **config: str) -> list[bytes]:
    """Read and write records of several schemas; one query for all."""
    frames = []
    for number, (schema, data) in enumerate(cases):
        form = made(type=CONVERTER, schema=json.dumps(schema), **config)
        frame = form.encode(form.decode(records(spark, data), "value"), "value")
        frames.append(frame.selectExpr(f"{number} AS number", "offset", "value", "error.message"))
    rows = reduce(lambda one, other: one.union(other), frames).collect()
    rows.sort(key=lambda row: (row.number, row.offset))
    assert [row for row in rows if row.message] == []
    return [bytes(row.value) for row in rows]


def test_records_of_all_types_are_read_and_written_as_connect_does(spark: Any, connect: ConnectConverters) -> None:
    cases = [(schema, [envelope(schema, each) for each in payloads]) for schema, payloads in CASES]
    written = [[connect.read(CONVERTER, each)[1] or b"" for each in data] for _, data in cases]
    # What Connect writes, and what others write of the same; what follows an envelope is not looked at.
    both = [
        (schema, [*data, *theirs, theirs[0] + b" x"]) for (schema, data), theirs in zip(cases, written, strict=True)
    ]
    assert round_trips(spark, both) == [each for data in written for each in (*data, *data, data[0])]


def test_payloads_alone_are_read_and_written_as_those_in_envelopes(spark: Any, connect: ConnectConverters) -> None:
    cases = [(schema, [each.encode() for each in payloads]) for schema, payloads in CASES]
    written = [connect.read(CONVERTER, envelope(schema, each))[1] for schema, payloads in CASES for each in payloads]
    texts = [each.decode() for each in written if each]
    payloads = [text[text.index(',"payload":') + len(',"payload":') : -1].encode() for text in texts]
    assert round_trips(spark, cases, schemas_enable="false") == payloads


def test_decimals_as_numbers_and_nulls_without_defaults(spark: Any, connect: ConnectConverters) -> None:
    schema = struct(a=MONEY, b=optional("int32", default=5), c=logical("bytes", "Decimal", scale="18"))
    payloads = ['{"a":"MA==","b":null,"c":"AA=="}', '{"a":-1234.50,"c":"AQ=="}', '{"a":100000000000000000000.25}']
    config = {"decimal_format": "NUMERIC", "replace_null_with_default": "false"}
    data = [envelope(schema, each) for each in payloads]
    expected = [connect.read(CONVERTER, each, **config)[1] for each in data]
    assert round_trips(spark, [(schema, data)], **config) == expected


def shown(value: Any) -> Any:
    """What the Java program makes of values."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime.datetime):
        return round(value.replace(tzinfo=datetime.UTC).timestamp() * 1000)
    if isinstance(value, datetime.date):
        return (value - datetime.date(1970, 1, 1)).days * 86_400_000
    if isinstance(value, dict):
        return sorted([shown(key), shown(each)] for key, each in value.items())
    if isinstance(value, list):
        return [shown(each) for each in value]
    if hasattr(value, "asDict"):
        return {name: shown(each) for name, each in value.asDict().items()}
    return bytes(value).hex() if isinstance(value, bytes | bytearray) else value


def test_what_is_read_is_what_connect_reads(spark: Any, connect: ConnectConverters) -> None:
    schema = struct(
        flag=optional("boolean"),
        tiny=optional("int8"),
        large=optional("int64"),
        real=optional("float"),
        price=MONEY,
        day=DAY,
        time=TIME,
        moment=MOMENT,
        texts=optional("map", keys=required("string"), values=optional("string")),
        days=optional("map", keys=required("int64"), values=optional("array", items=DAY)),
        more=optional("array", items=struct(a=optional("double"), b=MONEY)),
    )
    payload = (
        '{"flag":true,"tiny":-7,"large":12,"real":1.1,"price":"MA==","day":19000,"time":3600000,"moment":1700000000123,'
        '"texts":{"b":"y","a":null},"days":[[2,[1,null]],[1,[]]],"more":[{"a":0.5,"b":12.50},{}]}'
    )
    data = envelope(schema, payload)
    ((value, message),) = seen(made(type=CONVERTER, schema=json.dumps(schema)).decode(records(spark, [data]), "value"))
    assert message is None
    assert value.price == Decimal("0.48")
    assert value.day == datetime.date(2022, 1, 8)
    assert value.moment == datetime.datetime(2023, 11, 14, 22, 13, 20, 123000)
    expected, _ = connect.read(CONVERTER, data)
    expected["days"].sort()
    expected["texts"].sort()
    assert shown(value) == expected


THE_SCHEMA = struct(
    id=required("int64"),
    tiny=optional("int8"),
    price=MONEY,
    time=TIME,
    counts=optional("map", keys=required("int32"), values=required("int32")),
    tags=optional("array", items=required("string")),
)
BAD = {
    "": "requires",
    "{": "requires",
    "[1]": "requires",
    '{"id":1}': "requires",
    '{"schema":%s}': "requires",
    '{"schema":%s,"payload":{"id":1},"more":1}': "requires",
    '{"schema":%s,"payload":null}': "Invalid null value for required STRUCT field",
    '{"schema":%s,"payload":{}}': "Invalid null value for required INT64 field",
    '{"schema":%s,"payload":{"id":null}}': "Invalid null value for required INT64 field",
    '{"schema":%s,"payload":[1]}': "no JSON of the schema",
    '{"schema":%s,"payload":{"id":1,"price":"?"}}': "Invalid bytes or number for DECIMAL(38,2) field price",
    '{"schema":%s,"payload":{"id":1,"price":[]}}': "Invalid bytes or number for DECIMAL(38,2) field price",
    '{"schema":%s,"payload":{"id":1,"time":86400001}}': "Time values must use number of milliseconds",
    '{"schema":%s,"payload":{"id":1,"counts":{"a":1}}}': "no JSON of the schema",
    '{"schema":%s,"payload":{"id":1,"counts":[[1]]}}': "expected length 2 but found :1",
    '{"schema":%s,"payload":{"id":1,"counts":[[1,null]]}}': "for required INT32 field counts[].value",
    '{"schema":%s,"payload":{"id":1,"tags":["a",null]}}': "Invalid null value for required STRING field tags[]",
    '{"schema":"int64","payload":1}': "no JSON of the schema",
    '{"schema":{"type":"int65"},"payload":1}': "The record's schema is not the one that is expected: it is int65",
}
# What Connect reads, most of it as something that was never written.
BAD_HERE = {
    '{"schema":%s,"payload":{"id":"1"}}': "no JSON of the schema",
    '{"schema":%s,"payload":{"id":1.5}}': "no JSON of the schema",
    '{"schema":%s,"payload":{"id":007}}': "requires",
    '{"schema":%s,"payload":{"id":1,"tiny":200}}': "200 is out of the range of INT8 tiny",
    '{"schema":%s,"payload":{"id":1,"counts":[[1,2],[1,3]]}}': "Found one key of a map twice counts",
    '{"schema":{"type":"int64"},"payload":1}': "The record's schema is not the one that is expected: it is int64",
}


def test_what_connect_refuses_is_a_bad_record_and_some_more(spark: Any, connect: ConnectConverters) -> None:
    # With blanks and without: the schema as others write it, and as Connect does.
    wide, narrow = json.dumps(THE_SCHEMA), json.dumps(THE_SCHEMA, separators=(",", ":"))
    texts = [text.replace("%s", wide).encode() for text in (*BAD, *BAD_HERE)]
    for text in texts[: len(BAD)]:
        with pytest.raises(ConnectRefused, match="DataException"):
            connect.read(CONVERTER, text)
    for text in texts[len(BAD) :]:
        connect.read(CONVERTER, text)
    good = envelope(THE_SCHEMA, '{"id":1,"more":2}')
    form = made(type=CONVERTER, schema=json.dumps(THE_SCHEMA))
    read = seen(form.decode(records(spark, [*texts, b"\xff", None, good]), "value"))
    for (value, message), expected in zip(read, [*BAD.values(), *BAD_HERE.values()], strict=False):
        assert value is None
        assert message is not None
        assert expected in message
    usual = [text.replace("%s", narrow).encode() for text in (*BAD, *BAD_HERE)]
    assert all(message for _, message in seen(form.decode(records(spark, usual), "value")))
    assert read[-3][1] is not None
    assert read[-2] == (None, None)
    assert read[-1][1] is None
    assert read[-1][0].id == 1


def test_a_record_s_schema_may_differ_in_what_does_not_matter(spark: Any) -> None:
    expected = struct(id=required("int64"), price=MONEY, days=optional("map", keys=required("int32"), values=DAY))
    scale = logical("bytes", "Decimal", scale="3")
    days = optional("map", keys=required("int32"), values=DAY)
    same = [
        {**struct(price={**MONEY, "doc": "x"}, id=optional("int32"), more=optional("string")), "name": "Order"},
        struct(id=required("int8"), days=days),
        None,
    ]
    other = {
        "id is missing": struct(price=MONEY),
        "id is string, not int64": struct(id=required("string")),
        f"id is {LOGICAL}Timestamp, not int64": struct(id=MOMENT),
        "price is bytes, not " + LOGICAL + "Decimal": struct(id=required("int64"), price=optional("bytes")),
        "the scale of price is 3, not 2": struct(id=required("int64"), price=scale),
        "days[] is int32, not " + LOGICAL + "Date": struct(
            id=required("int64"), days=optional("map", keys=required("int32"), values=required("int32"))
        ),
    }
    data = [envelope(each, '{"id":1}') for each in [*same, *other.values()]]
    read = seen(made(type=CONVERTER, schema=json.dumps(expected)).decode(records(spark, data), "value"))
    assert [message for _, message in read[: len(same)]] == [None] * len(same)
    expected_texts = ["The record's schema is not the one that is expected: " + text for text in other]
    assert [message for _, message in read[len(same) :]] == expected_texts


def test_an_envelope_without_a_given_schema_tells_the_column_s(spark: Any, connect: ConnectConverters) -> None:
    frame = records(spark, [b"1", None]).selectExpr(
        "topic",
        "partition",
        "offset",
        "timestamp",
        "key",
        "IF(value IS NULL, NULL, named_struct('a', 1, 'b', DATE'1970-01-03', 'c', CAST(1.5 AS DECIMAL(5,2)))) AS value",
        "headers",
        "error",
        "original",
    )
    named = frame.withMetadata("value", {"connect.name": "Order", "connect.version": 2})
    (value, _), nothing = seen(made(type=CONVERTER).encode(named, "value"))
    assert nothing == (None, None)
    found = json.loads(value)
    assert found["payload"] == {"a": 1, "b": 2, "c": "AJY="}
    assert (found["schema"]["name"], found["schema"]["version"], found["schema"]["optional"]) == ("Order", 2, True)
    assert [each["field"] for each in found["schema"]["fields"]] == ["a", "b", "c"]
    assert connect.read(CONVERTER, bytes(value))[0] == {"a": 1, "b": 172_800_000, "c": "1.50"}


def test_values_are_made_to_fit_a_given_schema(spark: Any) -> None:
    schema = struct(b=required("int8"), a=optional("string"), c=optional("int32", default=7), d=optional("double"))
    values = ["named_struct('a', 5, 'b', 300L, 'd', 1)", "named_struct('a', 5, 'b', 3L, 'd', 2)"]
    values += ["named_struct('a', 5, 'b', CAST(NULL AS BIGINT), 'd', 2)"]
    frame = records(spark, [b"0", b"1", b"2"])
    frame = frame.withColumn("value", _case(values))
    read = seen(made(type="json", schema=json.dumps(schema)).encode(frame, "value"))
    assert read[0][1] == "is no TINYINT at b: 300"
    assert bytes(read[1][0]) == b'{"b":3,"a":"5","c":7,"d":2.0}'
    assert read[2][1] == "Conversion error: null value for field that is required and has no default value: b"
    for given, reason in {
        "STRUCT<e: INT NOT NULL>": "needs a field e, which is not there",
        "STRUCT<a: STRUCT<x: INT>>": "has no place for INT at a",
        "ARRAY<INT>": "has no place for STRUCT<",
    }.items():
        with pytest.raises(JobError, match=f"value.schema {reason}"):
            made(type="json", schema=given).encode(frame, "value")
    with pytest.raises(JobError, match="cannot write a value that has a type that records cannot have: variant"):
        made(type="JsonConverter").encode(frame.selectExpr("*").withColumn("value", _case(["1::variant"])), "value")


def _case(values: list[str]) -> Any:
    from pyspark.sql import functions

    return functions.expr(
        f"CASE {' '.join(f'WHEN offset = {number} THEN {each}' for number, each in enumerate(values))} END"
    )
