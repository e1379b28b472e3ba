"""Texts, bytes and numbers, beside Connect's own converters."""

from functools import reduce
from typing import Any

import pytest

from ottla.pipeline.settings import JobError
from tests.pipeline.connect_converters import ConnectConverters, ConnectRefused
from tests.pipeline.frames import made, records, seen

pytestmark = pytest.mark.slow

CONVERTERS = "org.apache.kafka.connect.converters."
STRING = "org.apache.kafka.connect.storage.StringConverter"
DATA: list[bytes | None] = [None, b"", b"\0", b"\1", b"\2", b"\xff", b"\x80\0", b"\x7f\xff", b"\xff\xff\xff\xfe"]
DATA += [b"\x3f\x8c\xcc\xcd", b"\x80" + bytes(7), b"\x7f" + 7 * b"\xff", b"\x3f\xb9\x99\x99\x99\x99\x99\x9a", bytes(9)]
TEXTS: list[bytes | None] = [b"a\xc3\xa4\xf0\x9f\x98\x80", b"a\xffb", b"\xe2\x82"]
KINDS = ["Long", "Integer", "Short", "Double", "Float", "Boolean", "ByteArray"]


def connects(connect: ConnectConverters, converter: str, data: bytes | None) -> tuple[Any, ...]:
    try:
        return connect.read(converter, data)
    except ConnectRefused:
        return ()


def test_all_plain_converters_read_and_write_what_connect_s_do(spark: Any) -> None:
    names = [STRING] + [f"{CONVERTERS}{kind}Converter" for kind in KINDS]
    frame = records(spark, DATA + TEXTS)
    frames = []
    for name in names:
        form = made(type=name)
        read = form.decode(frame, "value")
        kind = name.rpartition(".")[2]
        text = {"FloatConverter": "string(double(value))", "ByteArrayConverter": "hex(value)"}.get(
            kind, "string(value)"
        )
        both = form.encode(read.withColumn("key", _expr(text)), "value")
        frames.append(both.selectExpr(f"'{name}' AS name", "offset", "key AS text", "value", "error.message"))
    rows = reduce(lambda one, other: one.union(other), frames).collect()
    assert len(rows) == len(names) * len(DATA + TEXTS)
    found = {(row.name, row.offset): row for row in rows}
    with ConnectConverters() as connect:
        for name in names:
            for offset, data in enumerate(DATA + TEXTS):
                row = found[name, offset]
                expected = connects(connect, name, data)
                assert (row.message is None) == bool(expected), (name, data)
                if expected and not name.endswith("ByteArrayConverter"):
                    value = row.value if row.value is None else bytes(row.value)
                    shown = _shown(row.text, expected[0])
                    # Of the many NaNs there are, Java's double is always the same one.
                    is_same = str(shown) == "nan" == str(expected[0]) or (shown, value) == expected
                    assert is_same, (name, data, shown, value, expected)
                elif expected:
                    assert row.value == data


def _expr(text: str) -> Any:
    from pyspark.sql import functions

    return functions.expr(text)


def _shown(text: str | None, like: object) -> object:
    if text is None or isinstance(like, str):
        return text
    return text == "true" if isinstance(like, bool) else type(like)(text)  # type: ignore[call-arg]


def test_what_does_not_fit_a_number_is_an_error_and_another_type_is_refused(spark: Any) -> None:
    frame = records(spark, [b"1", b"2", b"3"]).withColumn("value", _expr("offset * 2147483647L"))
    read = seen(made(type="IntegerConverter").encode(frame, "value"))
    assert [message for _, message in read] == [None, None, "Failed to serialize to integer: 4294967294"]
    assert [bytes(value) for value, _ in read[:2]] == [bytes(4), b"\x7f\xff\xff\xff"]
    structs = frame.withColumn("value", _expr("struct(offset)"))
    for name in ("string", "bytes", "LongConverter", "BooleanConverter"):
        with pytest.raises(JobError, match=r"value\.type cannot write struct<offset:bigint>"):
            made(type=name).encode(structs, "value")
