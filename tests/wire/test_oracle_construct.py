"""The compiled code and the construct schema of the same declaration agree."""

from random import Random
from typing import Any

import construct
import pytest

from ottla.wire.compiled.compiler import decoder, encoder
from ottla.wire.errors import DecodeError
from ottla.wire.schema import Message, construct_schema
from tests.wire.mutations import mutated
from tests.wire.random_messages import all_versions, label, random_message

ALL = list(all_versions())


@pytest.mark.parametrize(("message", "version"), ALL, ids=label)
@pytest.mark.trials(few=2, soak=12)
def test_compiled_code_writes_and_reads_as_construct_does(
    message: type[Message], version: int, trials: int, seed: int
) -> None:
    random = Random(f"{seed} {message.__name__} {version}")
    schema = construct_schema(message, version)
    for _ in range(trials):
        value = random_message(message, version, random)
        chunks: list[bytes] = []
        encoder(message, version)(value, chunks)
        encoded = b"".join(chunks)
        assert encoded == schema.build(value)
        assert decoder(message, version)(memoryview(encoded), 0) == (value, len(encoded))
        assert schema.parse(encoded) == value


@pytest.mark.parametrize(("message", "version"), ALL, ids=label)
@pytest.mark.trials(few=2, soak=12)
def test_compiled_code_refuses_the_bytes_that_construct_refuses_and_reads_others_alike(
    message: type[Message], version: int, trials: int, seed: int
) -> None:
    random = Random(f"{seed} {message.__name__} {version}")
    schema = construct_schema(message, version)
    for _ in range(trials):
        encoded = mutated(random_message(message, version, random).encode(version), random)
        assert repr(_compiled(message, version, encoded)) == repr(_parsed(schema, encoded)), encoded.hex()


def _compiled(message: type[Message], version: int, encoded: bytes) -> object:
    try:
        return _plain(message.decode(encoded, version))
    except DecodeError:
        return None


def _parsed(schema: Any, encoded: bytes) -> object:
    try:
        return _plain(schema.parse(encoded))
    except construct.ConstructError:
        return None


def _plain(value: Any) -> Any:
    """Return lists, dicts and bytes for sequences, objects and views, because then NaN equals NaN by its repr."""
    if isinstance(value, Message) or hasattr(value, "_defaults"):
        return {name: _plain(getattr(value, name)) for name in value._defaults}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return bytes(value) if isinstance(value, memoryview) else value
