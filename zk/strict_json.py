"""JSON of znodes, read with a check of every type and range, because any program may have written it.

PURE. Owns the checks of numbers, texts and lists of brokers. Must not know which znode the JSON is from.
Counterpart in Kafka: kafka.utils.json.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, TypeVar

T = TypeVar("T")

_MAX_INT: Final = 0x7FFFFFFF
# The longest string of any request or response.
_MAX_TEXT_BYTES: Final = 0x7FFF
_SHOWN: Final = 100


class ZnodeError(ValueError):
    """A znode's data is not what Kafka writes there."""


def shown(data: object) -> str:
    """Return data for an error message, cut to _SHOWN bytes or characters."""
    if isinstance(data, bytes) and len(data) > _SHOWN:
        return f"{data[:_SHOWN]!r} and {len(data) - _SHOWN} bytes more"
    text = repr(data)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def decode_object(data: bytes) -> dict[str, Any]:
    """Return a JSON object."""
    try:
        found = json.loads(data)
        if b"\\u" in data:
            # An escape may spell half a surrogate pair, which no UTF-8 can write.
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ZnodeError(f"not JSON: {shown(data)}") from error
    if not isinstance(found, dict):
        raise ZnodeError(f"not a JSON object: {shown(data)}")
    return found


def member(found: Mapping[str, Any], key: str, kind: type[T]) -> T:
    """Return a member of exactly this type. ZnodeError: a number beyond 32 bits, a text beyond _MAX_TEXT_BYTES."""
    value = found.get(key)
    if type(value) is not kind:
        raise ZnodeError(f"{key} is missing or no {kind.__name__}: {shown(found)}")
    if isinstance(value, int) and not -_MAX_INT <= value <= _MAX_INT:
        raise ZnodeError(f"{key} is out of range: {shown(value)}")
    if isinstance(value, str) and len(value.encode()) > _MAX_TEXT_BYTES:
        raise ZnodeError(f"{key} is too long: {shown(value)}")
    return value


def objects(found: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Return a member that is a list of objects."""
    values = member(found, key, list)
    if not all(isinstance(each, dict) for each in values):
        raise ZnodeError(f"{key} holds something else than objects: {shown(values)}")
    return values


def broker_ids(value: object) -> tuple[int, ...]:
    """Return a list of broker ids."""
    if not isinstance(value, list) or not all(type(each) is int and -_MAX_INT <= each <= _MAX_INT for each in value):
        raise ZnodeError(f"not a list of brokers: {shown(value)}")
    return tuple(value)


def number(text: str) -> int:
    """Return the number in a path or a key, below the largest of 32 bits, because it is incremented."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) < _MAX_INT):
        raise ZnodeError(f"not a number: {shown(text)}")
    return int(text)
