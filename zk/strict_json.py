"""JSON that anybody may have written into a znode, taken apart with every type and range looked at.

PURE. Owns what counts as a number, a text, a list of brokers. Must not know which znode it is from.
Counterpart in Kafka: kafka.utils.json.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, TypeVar

T = TypeVar("T")

_MAX_INT: Final = 0x7FFFFFFF
# What fits into any message to clients and brokers.
_MAX_TEXT_BYTES: Final = 0x7FFF
_SHOWN: Final = 100


class ZnodeError(ValueError):
    """A znode's data is not what Kafka writes there."""


def shown(data: object) -> str:
    """Return what an operator recognises data by, and no more of it."""
    if isinstance(data, bytes) and len(data) > _SHOWN:
        return f"{data[:_SHOWN]!r} and {len(data) - _SHOWN} bytes more"
    text = repr(data)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def decode_object(data: bytes) -> dict[str, Any]:
    """Return a JSON object."""
    try:
        found = json.loads(data)
        if b"\\u" in data:
            # Half a surrogate pair can be spelt, and never be written again.
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ZnodeError(f"not JSON: {shown(data)}") from error
    if not isinstance(found, dict):
        raise ZnodeError(f"not a JSON object: {shown(data)}")
    return found


def member(found: Mapping[str, Any], key: str, kind: type[T]) -> T:
    """Return a member of this very type; numbers fit into 32 bits, texts into a message."""
    value = found.get(key)
    if type(value) is not kind:
        raise ZnodeError(f"{key} is missing or no {kind.__name__}: {shown(found)}")
    if isinstance(value, int) and not -_MAX_INT <= value <= _MAX_INT:
        raise ZnodeError(f"{key} is out of range: {shown(value)}")
    if isinstance(value, str) and len(value.encode()) > _MAX_TEXT_BYTES:
        raise ZnodeError(f"{key} is too long: {shown(value)}")
    return value


def objects(found: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the objects of a list."""
    values = member(found, key, list)
    if not all(isinstance(each, dict) for each in values):
        raise ZnodeError(f"{key} holds something else than objects: {shown(values)}")
    return values


def broker_ids(value: object) -> tuple[int, ...]:
    """Return a list of numbers of brokers."""
    if not isinstance(value, list) or not all(type(each) is int and -_MAX_INT <= each <= _MAX_INT for each in value):
        raise ZnodeError(f"not a list of brokers: {shown(value)}")
    return tuple(value)


def number(text: str) -> int:
    """Return a number as it stands in a path or a key; it can be counted up by one."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) < _MAX_INT):
        raise ZnodeError(f"not a number: {shown(text)}")
    return int(text)
