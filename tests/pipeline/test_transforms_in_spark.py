"""What transforms do to a record frame beyond what Connect does to a record, and what a frame's schema forbids."""

import datetime
from typing import Any

import pytest

from ottla.pipeline.record_frame import ERROR
from ottla.pipeline.settings import JobError, Settings
from ottla.pipeline.transforms import apply_transforms, read_transforms

pytestmark = pytest.mark.slow

FRAME = (
    "topic string, partition int, offset bigint, timestamp timestamp, key string,"
    " value struct<n: string, i: int, raw: binary, at: timestamp, part: struct<x: int>, m: map<string,string>>,"
    " headers array<struct<key: string, value: binary>>,"
    f" error {ERROR}, original struct<key: binary, value: binary>"
)
AT = datetime.datetime(2024, 2, 29, 12, 0, tzinfo=datetime.UTC)
BAD = {"stage": "FORMAT", "executing": "Format", "class": "Bad", "message": "is bad"}
VALUE: tuple[Any, ...] = ("1", 1, b"x", AT, (1,), {})


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    """Make a row as it should be, one with an error, one that cannot become a number, one without a time."""
    bad = tuple(BAD.values())
    rows = [
        ("a", 0, 0, AT, "k", VALUE, None, None, (b"k", b"v")),
        ("a", 0, 1, AT, "k", VALUE, None, bad, (b"k", b"v")),
        ("a", 0, 2, AT, "k", ("x", 2, b"", AT, None, None), None, None, None),
        ("b", 0, 3, None, None, VALUE, [("h", b"1")], None, None),
    ]
    return spark.createDataFrame(rows, FRAME)


def applied(frame: Any, config: dict[str, str], predicate: dict[str, str] | None = None) -> Any:
    """Apply a transform; `_` in keys stands for a dot."""
    keys = {f"transforms.t.{key.replace('_', '.')}": value for key, value in config.items()}
    named = {f"predicates.p.{key}": value for key, value in (predicate or {}).items()}
    names = {"transforms": "t", "predicates": "p" if named else ""}
    return apply_transforms(frame, read_transforms(Settings({**names, **keys, **named}, "job.toml")))


def column(frame: Any, name: str) -> list[Any]:
    return [row[name] for row in frame.sort("offset").select(name).collect()]


def test_rows_with_an_error_pass_untouched(frame: Any) -> None:
    masked = applied(frame, {"type": "MaskField$Value", "fields": "n,i", "replacement": "7"})
    assert [value["n"] for value in column(masked, "value")] == ["7", "1", "7", "7"]
    assert column(masked, "error")[1].asDict() == BAD
    routed = applied(frame, {"type": "RegexRouter", "regex": ".*", "replacement": "x"})
    assert column(routed, "topic") == ["x", "a", "x", "x"]
    assert column(applied(frame, {"type": "InsertHeader", "header": "h", "value_literal": "1"}), "headers")[:2] == [
        [("h", b"1")],
        None,
    ]
    assert column(applied(frame, {"type": "Filter"}), "offset") == [1]
    assert column(applied(frame, {"type": "TimestampRouter", "topic_format": "t"}), "error")[1]["message"] == "is bad"
    assert column(masked, "original") == column(frame, "original")


def test_a_row_that_cannot_be_converted_gets_its_error_and_no_other_row(frame: Any) -> None:
    cast = applied(frame, {"type": "Cast$Value", "spec": "n:int32"})
    assert [error and error.asDict() for error in column(cast, "error")] == [
        None,
        BAD,
        {
            "stage": "TRANSFORMATION",
            "executing": "org.apache.kafka.connect.transforms.Cast$Value",
            "class": "org.apache.kafka.connect.errors.DataException",
            "message": "Value (x) was out of range for requested data type",
        },
        None,
    ]
    assert [value and value["n"] for value in column(cast, "value")] == [1, None, None, 1]
    timed = applied(frame, {"type": "TimestampRouter"})
    assert column(timed, "topic") == ["a-20240229", "a", "a-20240229", "b"]
    assert column(timed, "error")[3]["message"] == "Timestamp missing on record of topic b"
    required = applied(frame, {"type": "InsertField$Value", "timestamp_field": "t!", "partition_field": "p?"})
    assert column(required, "error")[3]["message"] == (
        'Invalid value: null used for required field: "t", schema type: INT64'
    )
    assert [field.nullable for field in required.schema["value"].dataType.fields[-2:]] == [True, False]


def test_rows_that_a_predicate_leaves_out_lack_the_new_fields(frame: Any) -> None:
    only_a = {"type": "TopicNameMatches", "pattern": "a"}
    inserted = applied(
        frame, {"type": "InsertField$Value", "static_field": "s", "static_value": "x", "predicate": "p"}, only_a
    )
    assert [value["s"] for value in column(inserted, "value")] == ["x", None, "x", None]
    assert [value["n"] for value in column(inserted, "value")] == ["1", "1", "x", "1"]
    dropped = applied(frame, {"type": "ReplaceField$Value", "exclude": "n", "predicate": "p", "negate": "true"}, only_a)
    assert [value["n"] for value in column(dropped, "value")] == ["1", "1", "x", None]
    with pytest.raises(
        JobError, match=r"^job.toml: transforms.t.predicate leaves rows whose value is of another type: "
    ):
        applied(frame, {"type": "ExtractField$Value", "field": "n", "predicate": "p"}, only_a)


def test_schemas_have_names_until_another_schema_takes_their_place(frame: Any) -> None:
    named = applied(
        frame, {"type": "SetSchemaMetadata$Value", "schema_name": "com.example.Order", "schema_version": "3"}
    )
    kept = applied(named, {"type": "MaskField$Value", "fields": "n"})
    for each in (named, kept):
        assert each.schema["value"].metadata == {"connect.name": "com.example.Order", "connect.version": 3}
    assert applied(named, {"type": "ExtractField$Value", "field": "part"}).schema["value"].metadata == {}
    assert applied(named, {"type": "HoistField$Value", "field": "w"}).schema["value"].dataType["w"].metadata != {}


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({"type": "ExtractField$Value", "field": "no"}, "field names no, which the value has not"),
        (
            {"type": "ExtractField$Value", "field": "i.x", "field_syntax_version": "V2"},
            "field names i.x, which the value",
        ),
        ({"type": "ExtractField$Key", "field": "n"}, "type needs a key that is a struct or a map, not string"),
        ({"type": "ValueToKey", "fields": "n,no"}, "fields names no, which the value has not"),
        ({"type": "HeaderFrom$Value", "fields": "no", "headers": "h", "operation": "copy"}, "fields names no, which"),
        ({"type": "InsertField$Value", "offset_field": "n"}, "offset.field makes two fields of the name n"),
        ({"type": "ReplaceField$Value", "renames": "i:n"}, "renames makes two fields of the name n"),
        ({"type": "Flatten$Value"}, "type needs a value that is without maps in it (m), not struct<"),
        (
            {"type": "Cast$Value", "spec": "part:string"},
            "spec cannot be: part of type struct<x:int> cannot become string",
        ),
        ({"type": "Cast$Value", "spec": "raw:int8"}, "spec cannot be: raw of type binary cannot become int8"),
        ({"type": "Cast$Key", "spec": "n:int8"}, "type needs a key that is a struct, not string"),
        (
            {"type": "MaskField$Value", "fields": "part"},
            "fields names part, but what is struct<x:int> cannot be masked",
        ),
        ({"type": "MaskField$Value", "fields": "i", "replacement": "x"}, "replacement is no number, but i is int: 'x'"),
        (
            {"type": "MaskField$Value", "fields": "at", "replacement": "0"},
            "replacement cannot take the place of at, which",
        ),
        ({"type": "TimestampConverter$Value", "field": "i", "target_type": "unix"}, "field is no timestamp, but int"),
        (
            {"type": "TimestampConverter$Value", "field": "n", "target_type": "unix"},
            "format is missing for n, which is a",
        ),
        (
            {"type": "TimestampConverter$Value", "field": "n", "target_type": "unix", "format": "yyyy G"},
            "format has G, which can be written but not read: yyyy G",
        ),
        (
            {"type": "RegexRouter", "regex": "[b-a]", "replacement": "x"},
            "regex is no regular expression of Java: '[b-a]'",
        ),
        (
            {"type": "RegexRouter", "regex": "(a)", "replacement": "$2"},
            "replacement refers to a group that regex has not",
        ),
    ],
)
def test_what_the_schema_forbids_is_named_before_any_row(frame: Any, config: dict[str, str], line: str) -> None:
    with pytest.raises(JobError) as error:
        applied(frame, config)
    assert str(error.value).startswith(f"job.toml: transforms.t.{line}")


def test_what_is_done_does_not_depend_on_the_zone_of_the_session(spark: Any, frame: Any) -> None:
    config = {
        "type": "TimestampConverter$Value",
        "field": "at",
        "target_type": "string",
        "format": "yyyy-MM-dd HH:mm z",
    }
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        there = applied(frame, config)
        back = applied(there, {**config, "target_type": "unix"})
        assert column(there, "value")[0]["at"] == "2024-02-29 12:00 UTC"
        assert column(back, "value")[0]["at"] == int(AT.timestamp() * 1000)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
