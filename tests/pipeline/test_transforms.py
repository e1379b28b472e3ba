"""Transforms and predicates as a job names them, and what is said of those that cannot stand, without Spark."""

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.pipeline.predicates import TopicNameMatches
from ottla.pipeline.settings import JobError, Settings
from ottla.pipeline.transform_docs import document
from ottla.pipeline.transforms import TRANSFORMS, Transform, read_transforms
from ottla.pipeline.transforms.field_path import steps
from ottla.pipeline.transforms.java_dates import tokens
from ottla.pipeline.transforms.mask_field import MaskField

MASK = {"type": "MaskField$Value", "fields": "card"}


def read(values: dict[str, object]) -> list[Transform]:
    job = Settings(values, "job.toml")
    found = read_transforms(job)
    job.finish()
    return found


def read_one(**config: str) -> Transform:
    """Read a transform; `_` in keys stands for a dot."""
    keys = {f"transforms.t.{key.replace('_', '.')}": value for key, value in config.items()}
    (found,) = read({"transforms": "t", **keys})
    return found


def test_a_job_without_transforms_has_none() -> None:
    assert read({}) == []


def test_transforms_are_listed_as_in_connect_or_are_tables() -> None:
    flat = {f"transforms.{name}.{key}": value for name in "ab" for key, value in MASK.items()}
    jobs: list[dict[str, object]] = [
        {"transforms": "b, a", **flat},
        {"transforms": ["b", "a"], **flat},
        {"transforms": {"b": MASK, "a": MASK}},
        {"transforms": ["b", "a"], "transforms.a": MASK, "transforms.b": MASK},
    ]
    for job in jobs:
        found = read(job)
        assert [each.settings.prefix for each in found] == ["transforms.b.", "transforms.a."]
        assert all(isinstance(each, MaskField) and each.part == "value" for each in found)


def test_every_transform_is_known_by_its_short_and_its_full_name() -> None:
    for package in ("", "org.apache.kafka.connect.transforms."):
        for name, cls in TRANSFORMS.items():
            needed = {
                "Cast": {"spec": "int8"},
                "DropHeaders": {"headers": "h"},
                "HeaderFrom": {"fields": "f", "headers": "h", "operation": "move"},
                "InsertField": {"topic_field": "t"},
                "InsertHeader": {"header": "h", "value_literal": "v"},
                "MaskField": {"fields": "f"},
                "RegexRouter": {"regex": "r", "replacement": "r"},
                "SetSchemaMetadata": {"schema_name": "n"},
                "TimestampConverter": {"target_type": "unix"},
                "ValueToKey": {"fields": "f"},
            }
            fields = {"field": "f"} if name.startswith(("ExtractField", "HoistField")) else {}
            assert type(read_one(type=package + name, **needed.get(name.split("$")[0], fields))) is cls


def test_a_transform_has_its_predicate() -> None:
    predicates = {
        "predicates": "orders",
        "predicates.orders.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        "predicates.orders.pattern": "orders-.*",
    }
    for negate in ("true", "false"):
        drop = {"type": "Filter", "predicate": "orders", "negate": negate}
        (found,) = read(
            {"transforms": "t", **{f"transforms.t.{key}": value for key, value in drop.items()}, **predicates}
        )
        assert isinstance(found.predicate, TopicNameMatches)
        assert found.predicate.pattern == "orders-.*"
        assert found.negate is (negate == "true")


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({}, "t.type is missing"),
        ({"type": "MaskFeild$Value"}, "t.type is unknown: MaskFeild$Value; did you mean MaskField$Value?"),
        ({"type": "com.example.Own"}, "t.type is unknown: com.example.Own"),
        ({"type": "MaskField", "fields": "a"}, "t.type is to be MaskField$Key or MaskField$Value"),
        ({**MASK, "feilds": "a"}, "t.feilds is unknown; did you mean transforms.t.fields?"),
        ({**MASK, "replacement": ""}, "t.replacement is empty"),
        ({**MASK, "replace_null_with_default": "no"}, "t.replace.null.with.default is to be true or false, not 'no'"),
        ({**MASK, "predicate": "p"}, "t.predicate names p, which is not among predicates"),
        ({**MASK, "negate": "true"}, "t.negate stands without a predicate"),
        ({"type": "MaskField$Key", "fields": ""}, "t.fields names nothing"),
        ({"type": "ValueToKey"}, "t.fields is missing"),
        ({"type": "Cast$Value", "spec": ""}, "t.spec names nothing"),
        (
            {"type": "Cast$Value", "spec": "a:b"},
            "t.spec is to be field:type or a type, of int8, int16, int32, int64, float32, float64, boolean, "
            "string, not a:b",
        ),
        ({"type": "Cast$Value", "spec": "a:int8,string"}, "t.spec names a type for the whole and more beside it"),
        ({"type": "ExtractField$Value", "field": ""}, "t.field is empty"),
        (
            {"type": "ExtractField$Value", "field": "a.`b", "field_syntax_version": "V2"},
            "t.field has a backtick without another at position 2: a.`b",
        ),
        (
            {"type": "ExtractField$Value", "field": "a", "field_syntax_version": "V3"},
            "t.field.syntax.version is to be one of V1, V2, not 'V3'",
        ),
        (
            {"type": "HeaderFrom$Value", "fields": "a,b", "headers": "a", "operation": "copy"},
            "t.headers names 1 for 2 fields",
        ),
        (
            {"type": "HeaderFrom$Value", "fields": "a", "headers": "a", "operation": "drop"},
            "t.operation is to be one of move, copy, not 'drop'",
        ),
        ({"type": "InsertField$Value"}, "t.topic.field is missing, and so is every other field to insert"),
        ({"type": "InsertField$Value", "static_field": "a"}, "t.static.value is missing for static.field"),
        (
            {"type": "RegexRouter", "regex": "a(b", "replacement": "x"},
            "t.regex is no regular expression: missing ), unterminated subpattern at position 1",
        ),
        (
            {"type": "RegexRouter", "regex": "*", "replacement": "x"},
            "t.regex is no regular expression: nothing to repeat at position 0",
        ),
        ({"type": "ReplaceField$Value", "renames": "a:b:c"}, "t.renames is to be a list of old:new, not a:b:c"),
        ({"type": "ReplaceField$Value", "renames": "a:"}, "t.renames is to be a list of old:new, not a:"),
        ({"type": "SetSchemaMetadata$Key"}, "t.schema.name is missing, and so is schema.version"),
        (
            {"type": "SetSchemaMetadata$Key", "schema_version": "new"},
            "t.schema.version is to be a whole number, not 'new'",
        ),
        (
            {"type": "SetSchemaMetadata$Key", "schema_name": "a", "predicate": "p"},
            "t.predicate cannot be: all rows of a column have one schema name",
        ),
        (
            {"type": "TimestampConverter$Value", "target_type": "epoch"},
            "t.target.type is to be one of string, unix, Date, Time, Timestamp, not 'epoch'",
        ),
        ({"type": "TimestampConverter$Value", "target_type": "string"}, "t.format is missing for target.type=string"),
        (
            {"type": "TimestampConverter$Value", "target_type": "unix", "format": "yyyy-MM-ddTHH"},
            "t.format has T, which SimpleDateFormat does not know: yyyy-MM-ddTHH",
        ),
        (
            {"type": "TimestampConverter$Value", "target_type": "unix", "unix_precision": "hours"},
            "t.unix.precision is to be one of nanoseconds, microseconds, milliseconds, seconds, not 'hours'",
        ),
        ({"type": "TimestampRouter", "timestamp_format": "y'W"}, "t.timestamp.format has a quote without another: y'W"),
        (
            {"type": "TimestampRouter", "timestamp_format": "yyyyww"},
            "t.timestamp.format has w, which depends on where a worker runs: yyyyww",
        ),
        ({"type": "TimestampRouter", "timestamp_format": "XXXX"}, "t.timestamp.format has XXXX, which"),
    ],
)
def test_what_cannot_stand_is_named_with_its_file_and_key(config: dict[str, str], line: str) -> None:
    with pytest.raises(JobError) as error:
        read_one(**config)
    assert str(error.value).startswith(f"job.toml: transforms.{line}")


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"transforms": "a,b,a"}, "transforms names a twice"),
        ({"transforms": "a", "transforms.b.type": "Filter"}, "transforms.a.type is missing"),
        ({"transforms": 5}, "transforms is to be a table, not 5"),
        ({"transforms": {"a": 5}}, "transforms.a is to be a table, not 5"),
        ({"predicates": "p", "predicates.p.type": "IsTombstone"}, "predicates.p.type is unknown: IsTombstone"),
        ({"predicates": "p", "predicates.p.type": "HasHeaderKey"}, "predicates.p.name is missing"),
        (
            {"predicates": "p", "predicates.p.type": "HasHeaderKey", "predicates.p.name": ""},
            "predicates.p.name is empty",
        ),
        (
            {"predicates": "p", "predicates.p.type": "TopicNameMatches", "predicates.p.pattern": "a)"},
            "predicates.p.pattern is no regular expression: unbalanced parenthesis at position 1",
        ),
        (
            {"predicates": "p", "predicates.p.type": "RecordIsTombstone", "predicates.p.name": "x"},
            "predicates.p.name is unknown",
        ),
        ({"predicates.p.type": "RecordIsTombstone"}, "predicates.p.type is unknown"),
    ],
)
def test_names_that_cannot_stand_are_refused(values: dict[str, object], line: str) -> None:
    with pytest.raises(JobError) as error:
        read(values)
    assert str(error.value).startswith(f"job.toml: {line}")


@pytest.mark.parametrize(
    "pattern", [r"\p{Alpha}+", r"[a-z&&[^b]]+", r"\Qa(b\E", r"(?<name>a)", r"[[a](]", r"^*", r"a++"]
)
def test_an_expression_that_only_java_knows_is_left_to_java(pattern: str) -> None:
    assert read_one(type="RegexRouter", regex=pattern, replacement="x").values["regex"] == pattern


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("a", ["a"]),
        ("a.b.c", ["a", "b", "c"]),
        ("`a.b`.c", ["a.b", "c"]),
        ("a.`b.c`", ["a", "b.c"]),
        ("`a`b.c`.d", ["a`b.c", "d"]),
        ("`a\\`.b`", ["a`.b"]),
        ("a`b.c", ["a`b", "c"]),
        ("a..b.", ["a", "", "b", ""]),
        ("``", [""]),
    ],
)
def test_paths_lead_through_fields(path: str, names: list[str]) -> None:
    assert steps(path, "V2") == names
    assert steps(path, "V1") == [path]


def test_a_pattern_of_dates_is_taken_to_pieces_as_java_does() -> None:
    pieces = [(token.letter, token.text) for token in tokens("yyyy-MM'T'HH''' o''clock'z")]
    assert pieces == [
        ("y", "yyyy"), ("", "-"), ("M", "MM"), ("", "T"), ("H", "HH"), ("", "'"), ("", " o'clock"), ("z", "z"),
    ]  # fmt: skip


def test_jobs_are_read_without_pyspark() -> None:
    code = "import sys; sys.modules['pyspark'] = None; import ottla.pipeline.transforms as t; print(len(t.TRANSFORMS))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{len(TRANSFORMS)}\n"


def test_the_documents_say_what_the_code_declares() -> None:
    page = Path(__file__).parents[2] / "docs/transforms.md"
    assert page.read_text() == document()
