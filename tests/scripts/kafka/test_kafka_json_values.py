"""JSON files as Kafka's tools read them, and their error messages."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.scripts.kafka.face import JavaError
from ottla.scripts.kafka.flags import flag, parse
from ottla.scripts.kafka.java import json_values


def test_text_after_the_first_json_value_is_ignored() -> None:
    assert json_values.parse(' {"a": 1} }') == {"a": 1}


@pytest.mark.parametrize("text", ["", "{", "[NaN]", "no"])
def test_invalid_json_is_refused(text: str) -> None:
    with pytest.raises(JavaError) as raised:
        json_values.parse(text)
    assert raised.value.java_class == "com.fasterxml.jackson.core.JsonParseException"


@pytest.mark.parametrize(
    ("read", "value", "message"),
    [
        (json_values.as_int, "1", 'Expected `Integer` value, received "1"'),
        (json_values.as_int, True, "Expected `Integer` value, received true"),
        (json_values.as_int, 2**31, "Expected `Integer` value, received 2147483648"),
        (json_values.as_long, 1.5, "Expected `Long` value, received 1.5"),
        (json_values.as_text, {"a": [1]}, 'Expected `String` value, received {"a":[1]}'),
        (json_values.list_of, None, "Expected `JSON array` value, received null"),
        (json_values.as_array, {}, "Expected JSON array, received {}"),
        (json_values.as_object, [], "Expected JSON object, received []"),
    ],
)
def test_a_value_of_another_type_is_refused(read: Callable[[Any], Any], value: Any, message: str) -> None:
    with pytest.raises(JavaError) as raised:
        read(value)
    assert raised.value.message == message


def test_a_missing_file_is_reported_twice() -> None:
    with pytest.raises(JavaError) as raised:
        json_values.read_file("no-such.json")
    assert raised.value.trace() == [
        "java.io.IOException: Unable to read file no-such.json",
        "Caused by: java.nio.file.NoSuchFileException: no-such.json",
    ]


def test_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    assert json_values.read_file(str(tmp_path / "plan.json")) == "{}"


def test_an_argument_that_is_not_a_number_has_javas_causes() -> None:
    parsed = parse([flag("count", argument="count", type=int, help="A number.")], ["--count", "many"])
    with pytest.raises(JavaError) as raised:
        parsed.value("count")
    assert raised.value.trace() == [
        "joptsimple.OptionArgumentConversionException: Cannot parse argument 'many' of option count",
        'Caused by: joptsimple.internal.ReflectionException: java.lang.NumberFormatException: For input string: "many"',
        'Caused by: java.lang.NumberFormatException: For input string: "many"',
    ]
