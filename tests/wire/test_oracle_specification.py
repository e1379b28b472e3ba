"""Every declaration equals Kafka's own specification, version by version and field by field."""

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.wire.api_keys import ApiKey
from ottla.wire.messages import all_messages, request_type, response_type
from ottla.wire.schema import ArrayOf, Field, Message, Request, Response, Struct, StructOf, default_instance, fields
from tests.wire.kafka_specification import DEFAULT_STRUCT, RELEASES, FieldAt, Specification, newest_name, specifications

MESSAGES = list(all_messages())
# APIs between brokers and controllers of a KRaft cluster.
KRAFT = {
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    ApiKey.UPDATE_RAFT_VOTER,
    ApiKey.UNREGISTER_CONTROLLER,
}
# Groups of other kinds than the classic one, and metrics of clients.
NEWER = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
}
DECLARED = [key for key in ApiKey if key not in KRAFT | NEWER]


def specified(message: type[Message]) -> list[Specification]:
    return [found[message.kafka_name] for found in map(specifications, RELEASES) if message.kafka_name in found]


def specified_at(specification: Specification, version: int) -> tuple[FieldAt, ...]:
    return tuple(
        field._replace(name=newest_name(specification.name, field.name)) for field in specification.fields_at(version)
    )


def struct_of(field: Field) -> type[Struct] | None:
    element = field.type.element if isinstance(field.type, ArrayOf) else field.type
    return element.struct if isinstance(element, StructOf) else None


def declared_default(field: Field) -> object:
    if isinstance(field.type, StructOf) and field.default == default_instance(field.type.struct):
        return DEFAULT_STRUCT
    return field.default


def declared_at(struct: type[Struct], message: type[Message], version: int) -> Iterator[FieldAt]:
    for field in fields(struct):
        if version in field.versions:
            inner = struct_of(field)
            yield FieldAt(
                name=field.kafka_name[:1].upper() + field.kafka_name[1:],
                type=field.type.kafka_name,
                tag=field.tag if field.is_tagged(version) else None,
                nullable=version in field.nullable,
                compact=field.is_flexible(version, message),
                default=declared_default(field),
                fields=tuple(declared_at(inner, message, version)) if inner else (),
            )


def names(found: tuple[FieldAt, ...], owner: str) -> Iterator[tuple[str, str]]:
    for field in found:
        yield owner, field.name
        yield from names(field.fields, field.type.removeprefix("[]"))


def declared_names(struct: type[Struct]) -> Iterator[tuple[str, str]]:
    for field in fields(struct):
        yield struct.kafka_name, field.kafka_name[:1].upper() + field.kafka_name[1:]
        inner = struct_of(field)
        if inner:
            yield from declared_names(inner)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_every_field_of_every_version_is_as_kafka_specifies_it(message: type[Message]) -> None:
    found = specified(message)
    assert found, f"{message.kafka_name} is in no release of Kafka"
    for specification in found:
        for version in specification.versions:
            assert tuple(declared_at(message, message, version)) == specified_at(specification, version), version


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_every_declared_field_is_in_some_version(message: type[Message]) -> None:
    found = specified(message)
    in_some_version = {pair for s in found for v in s.versions for pair in names(specified_at(s, v), s.name)}
    assert set(declared_names(message)) == in_some_version


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_versions_are_those_of_both_releases_together(message: type[Message]) -> None:
    found = specified(message)
    assert message.versions.lowest == min(s.versions.lowest for s in found)
    assert message.versions.highest == max(s.versions.highest for s in found)
    for specification in found:
        for version in specification.versions:
            assert (version in message.flexible) == (version in specification.flexible), version


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_a_message_is_found_by_the_key_and_the_role_it_has_in_kafka(message: type[Message]) -> None:
    for specification in specified(message):
        bases: dict[str, Any] = {"request": Request, "response": Response}
        assert issubclass(message, bases.get(specification.kind, Message))
        if specification.kind == "request":
            assert request_type(specification.api_key or 0) is message
        if specification.kind == "response":
            assert response_type(specification.api_key or 0) is message
        if issubclass(message, Request | Response):
            assert message.api_key == specification.api_key


@pytest.mark.parametrize("key", DECLARED)
def test_request_and_response_are_declared(key: ApiKey) -> None:
    assert request_type(key) in MESSAGES
    assert response_type(key) in MESSAGES


@pytest.mark.parametrize("name", ["RequestHeader", "ResponseHeader"])
def test_the_headers_are_declared(name: str) -> None:
    assert name in [message.__name__ for message in MESSAGES]


def test_an_undeclared_key_has_no_message() -> None:
    assert request_type(32767) is None
    assert response_type(-1) is None


def test_every_api_key_has_kafkas_number_and_name() -> None:
    kafka = {
        specification.api_key: specification.name.removesuffix("Request")
        for release in RELEASES
        for specification in specifications(release).values()
        if specification.kind == "request"
    }
    ours = {int(key): key.name.title().replace("_", "") for key in ApiKey}
    assert ours == kafka
