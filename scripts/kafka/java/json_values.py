"""JSON files as Kafka's tools read them, with their error messages.

PURE but for `read_file`. Counterparts: org.apache.kafka.server.util.Json, org.apache.kafka.server.util.json.*, Jackson.
"""

import json
from pathlib import Path
from typing import Any, Final

from ottla.scripts.kafka.face import JavaError

_INT: Final = range(-(2**31), 2**31)
_LONG: Final = range(-(2**63), 2**63)
_MAPPING: Final = "com.fasterxml.jackson.databind.JsonMappingException"
_PARSING: Final = "com.fasterxml.jackson.core.JsonParseException"


def read_file(path: str) -> str:
    """Return the text of a file. JavaError if it does not exist."""
    try:
        return Path(path).read_text("utf-8")
    except (OSError, ValueError) as error:
        cause = JavaError("java.nio.file.NoSuchFileException", path) if isinstance(error, FileNotFoundError) else None
        raise JavaError("java.io.IOException", f"Unable to read file {path}", cause) from None


def parse(text: str) -> Any:
    """Return the first value in a text. JavaError if there is none."""
    if not text:
        raise JavaError(_PARSING, "The input string shouldn't be empty\n at [Source: UNKNOWN; byte offset: #UNKNOWN]")
    try:
        value, _ = json.JSONDecoder(parse_constant=_refuse).raw_decode(text.lstrip())
    except ValueError as error:
        raise JavaError(_PARSING, str(error)) from None
    return value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def encode(value: Any) -> str:
    """Return JSON without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def as_object(value: Any) -> dict[str, Any]:
    """Return an object. JavaError for anything else."""
    if not isinstance(value, dict):
        raise JavaError(_MAPPING, f"Expected JSON object, received {encode(value)}")
    return value


def as_array(value: Any) -> list[Any]:
    """Return an array. JavaError for anything else."""
    if not isinstance(value, list):
        raise JavaError(_MAPPING, f"Expected JSON array, received {encode(value)}")
    return value


def field(value: dict[str, Any], name: str) -> Any:
    """Return a field of an object. JavaError if it has none."""
    if name not in value:
        raise JavaError(_MAPPING, f"No such field exists: `{name}`")
    return value[name]


def as_int(value: Any) -> int:
    """Return a number of 32 bits. JavaError for anything else."""
    if _is_int(value, _INT):
        return int(value)
    raise _unexpected("Integer", value)


def as_long(value: Any) -> int:
    """Return a number of 64 bits. JavaError for anything else."""
    if _is_int(value, _LONG):
        return int(value)
    raise _unexpected("Long", value)


def as_text(value: Any) -> str:
    """Return a string. JavaError for anything else."""
    if isinstance(value, str):
        return value
    raise _unexpected("String", value)


def list_of(value: Any) -> list[Any]:
    """Return the elements of a list that Kafka decodes as a whole. JavaError for anything else."""
    if isinstance(value, list):
        return value
    raise _unexpected("JSON array", value)


def _is_int(value: Any, numbers: range) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in numbers


def _unexpected(expected: str, value: Any) -> JavaError:
    return JavaError(_MAPPING, f"Expected `{expected}` value, received {encode(value)}")
