"""Random messages of any declaration, and all declarations."""

from collections.abc import Iterator
from random import Random
from typing import Any, TypeVar

from ottla.wire import messages
from ottla.wire.schema import ArrayOf, Field, Message, Struct, StructOf, WireType, fields
from ottla.wire.types import Primitive
from tests.wire.sample_messages import SAMPLES

M = TypeVar("M", bound=Message)
S = TypeVar("S", bound=Struct)

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_UNSIGNED_BITS = {"uint16": 16, "uint32": 32}
_ALPHABET = "abcXYZ019._-é€😀\0 "


def all_versions() -> Iterator[tuple[type[Message], int]]:
    """Return every message of the protocol, and the samples, in every version."""
    for message in (*messages.all_messages(), *SAMPLES):
        for version in message.versions:
            yield message, version


def label(value: object) -> str:
    """Return a parameter's part of a test's id."""
    return value.__name__ if isinstance(value, type) else f"v{value}"


def random_message(cls: type[M], version: int, random: Random) -> M:
    """Return a message with random fields of `version`, and other fields at their default."""
    return _random_struct(cls, version, random)


def _random_struct(cls: type[S], version: int, random: Random) -> S:
    values = {
        field.name: _random_field(field, version, random) if version in field.versions else field.default
        for field in fields(cls)
    }
    return cls(**values)


def _random_field(field: Field, version: int, random: Random) -> Any:
    choice = random.random()
    if choice < 0.15 and (field.default is not None or version in field.nullable):
        return field.default
    if choice < 0.3 and version in field.nullable:
        return None
    return _random_value(field.type, version, random)


def _random_value(wire_type: WireType, version: int, random: Random) -> Any:
    if isinstance(wire_type, StructOf):
        return _random_struct(wire_type.struct, version, random)
    if isinstance(wire_type, ArrayOf):
        is_cheap = isinstance(wire_type.element, Primitive)
        count = random.choice((0, 1, 1, 2, 3, 200 if is_cheap and random.random() < 0.1 else 2))
        return [_random_value(wire_type.element, version, random) for _ in range(count)]
    return _random_primitive(wire_type.kafka_name, random)


def _random_primitive(kafka_name: str, random: Random) -> Any:
    if kafka_name == "bool":
        return random.random() < 0.5
    if kafka_name == "float64":
        return random.choice((0.0, -1.5, 1e300, random.random()))
    if kafka_name == "uuid":
        return random.randbytes(16)
    if kafka_name == "string":
        return "".join(random.choices(_ALPHABET, k=_random_length(random)))
    if kafka_name in _BITS:
        bits = _BITS[kafka_name]
        return random.choice((-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, -1, 0, 1, random.getrandbits(bits - 1)))
    if kafka_name in _UNSIGNED_BITS:
        bits = _UNSIGNED_BITS[kafka_name]
        return random.choice((0, 1, 2**bits - 1, random.getrandbits(bits)))
    return random.randbytes(_random_length(random))


def _random_length(random: Random) -> int:
    # Around 127 a compact length needs a second byte.
    return random.choice((0, 1, 5, 12, 12, random.randrange(40), random.randrange(120, 300)))
