"""Kafka's own Java code and ours agree on every message, in bytes and in values, in both directions."""

import base64
import contextlib
import random
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.wire.messages import all_messages
from ottla.wire.schema import Message, fields
from tests.wire.java_oracle import JavaOracle
from tests.wire.kafka_specification import DEFAULT_STRUCT, RELEASES, FieldAt, newest_name, specifications
from tests.wire.random_messages import random_message

pytestmark = pytest.mark.slow

MESSAGES = pytest.mark.parametrize("message_type", list(all_messages()), ids=lambda message: message.__name__)


@pytest.fixture(scope="module")
def oracles() -> Iterator[dict[str, JavaOracle]]:
    with contextlib.ExitStack() as stack:
        yield {release: stack.enter_context(JavaOracle(release)) for release in RELEASES}


def json_name(name: str) -> str:
    return name[:1].lower() + name[1:]


def as_json(struct: Any, found: tuple[FieldAt, ...]) -> dict[str, Any]:
    """Return the JSON of Kafka's converters: all fields of a version."""
    names = {field.kafka_name[:1].upper() + field.kafka_name[1:]: field.name for field in fields(type(struct))}
    owner = type(struct).kafka_name
    values = [getattr(struct, names[newest_name(owner, field.name)]) for field in found]
    return {json_name(field.name): value_as_json(value, field) for field, value in zip(found, values, strict=True)}


def value_as_json(value: Any, field: FieldAt) -> Any:
    if value is None:
        return None
    if field.type.startswith("[]"):
        element = field._replace(type=field.type[2:])
        return [value_as_json(each, element) for each in value]
    if field.type == "uuid":
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    if field.type in ("bytes", "records"):
        return base64.b64encode(value).decode()
    return as_json(value, field.fields) if field.fields else value


def comparable(json: dict[str, Any], found: tuple[FieldAt, ...]) -> dict[str, Any]:
    """With the tagged fields that Kafka's converters leave out at their default; without the bytes of records, which
    they never write.
    """
    complete: dict[str, Any] = {}
    for field in found:
        default: Any = {} if field.default == DEFAULT_STRUCT else value_as_json(field.default, field)
        value = json.get(json_name(field.name), default)
        if value is None:
            complete[field.name] = None
        elif field.type == "records":
            complete[field.name] = ""
        elif field.fields and field.type.startswith("[]"):
            complete[field.name] = [comparable(each, field.fields) for each in value]
        else:
            complete[field.name] = comparable(value, field.fields) if field.fields else value
    return complete


def random_messages(
    message_type: type[Message], seed: int, trials: int
) -> Iterator[tuple[str, int, tuple[FieldAt, ...], Message]]:
    """Return messages of every version of every release, with the release, the version and its fields."""
    for release in RELEASES:
        specification = specifications(release).get(message_type.kafka_name)
        if specification is None:
            continue
        for version in specification.versions:
            found = specification.fields_at(version)
            rng = random.Random(f"{seed} {message_type.__name__} {version}")
            for _ in range(trials):
                yield release, version, found, random_message(message_type, version, rng)


@MESSAGES
@pytest.mark.trials(few=10, soak=50)
def test_kafka_reads_our_messages(
    message_type: type[Message], oracles: dict[str, JavaOracle], seed: int, trials: int
) -> None:
    for release, version, found, message in random_messages(message_type, seed, trials):
        ours = message.encode(version)
        theirs, json = oracles[release].read(message_type.kafka_name, version, ours)
        assert theirs == ours, (release, version, message)
        assert comparable(json, found) == comparable(as_json(message, found), found), (release, version)


@MESSAGES
@pytest.mark.trials(few=10, soak=50)
def test_we_read_and_write_kafkas_messages(
    message_type: type[Message], oracles: dict[str, JavaOracle], seed: int, trials: int
) -> None:
    for release, version, found, message in random_messages(message_type, seed, trials):
        theirs = oracles[release].build(message_type.kafka_name, version, as_json(message, found))
        decoded = message_type.decode(theirs, version)
        assert decoded == message, (release, version)
        assert decoded.encode(version) == theirs, (release, version, message)
