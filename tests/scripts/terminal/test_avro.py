"""Avro values are read by the writer's schema."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from ottla.scripts.terminal.records.avro import reader_of
from ottla.wire.config_def import ConfigError


def number(value: int) -> bytes:
    """Return a number in Avro's encoding."""
    rest = value << 1 if value >= 0 else ~(value << 1)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def text(value: str) -> bytes:
    return number(len(value.encode())) + value.encode()


def read(tmp_path: Path, schema: Any, data: bytes) -> Any:
    file = tmp_path / "schema.avsc"
    file.write_text(json.dumps(schema))
    return reader_of(file)(data)


@pytest.mark.parametrize(
    ("schema", "data", "expected"),
    [
        ("null", b"", None),
        ("boolean", b"\1", True),
        ("int", number(-64), -64),
        ("long", number(1 << 62), 1 << 62),
        ("float", struct.pack("<f", 0.5), 0.5),
        ("double", struct.pack("<d", float("inf")), "inf"),
        ("bytes", number(1) + b"\xff", {"base64": "/w=="}),
        ("string", text("é"), "é"),
        ({"type": "string", "logicalType": "uuid"}, text("u"), "u"),
        (["null", "string"], number(1) + text("x"), "x"),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab", "ab"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, number(1), "B"),
        ({"type": "array", "items": "int"}, number(2) + number(1) + number(2) + number(0), [1, 2]),
        ({"type": "array", "items": "int"}, number(-1) + number(1) + number(5) + number(0), [5]),
        ({"type": "map", "values": "int"}, number(1) + text("k") + number(7) + number(0), {"k": 7}),
    ],
)
def test_a_value_is_read(tmp_path: Path, schema: Any, data: bytes, expected: Any) -> None:
    assert read(tmp_path, schema, data) == expected


LIST = {
    "type": "record",
    "name": "Node",
    "namespace": "org.example",
    "fields": [{"name": "value", "type": "long"}, {"name": "next", "type": ["null", "Node"]}],
}


def test_a_type_may_contain_itself(tmp_path: Path) -> None:
    data = number(1) + number(1) + number(2) + number(0)
    assert read(tmp_path, LIST, data) == {"value": 1, "next": {"value": 2, "next": None}}


def test_the_schema_id_of_a_registry_is_skipped(tmp_path: Path) -> None:
    assert read(tmp_path, "string", b"\0\0\0\0\x07" + text("x")) == "x"
    assert read(tmp_path, "string", text("")) == ""


def test_bytes_that_are_not_a_value_of_the_schema_are_shown_as_they_are(tmp_path: Path) -> None:
    assert read(tmp_path, LIST, b"plain text") == "plain text"
    assert read(tmp_path, {"type": "array", "items": "null"}, number(1 << 40)) == {"base64": "gICAgIBA"}


@pytest.mark.parametrize("schema", ["nothing", {"type": "record"}, {"type": "record", "name": "R", "fields": [1]}, 5])
def test_an_invalid_schema_is_refused(tmp_path: Path, schema: Any) -> None:
    with pytest.raises(ConfigError):
        read(tmp_path, schema, b"")
