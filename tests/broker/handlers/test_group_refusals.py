"""Every request of a group can be refused as a whole, in every version."""

import importlib
from typing import Any

import pytest

from ottla.broker.requests.authorizer import ResourceType
from ottla.broker.requests.table import TABLE
from ottla.wire import messages
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.types import VersionRange
from tests.broker.requests.authorization_cases import CASES

CODE = ErrorCode.GROUP_AUTHORIZATION_FAILED
GROUP_APIS = [
    (row.key, version)
    for row in TABLE
    if row.resource is ResourceType.GROUP and row.key is not ApiKey.FIND_COORDINATOR
    for version in VersionRange.parse(row.advertised)
]


def codes(told: Any) -> set[int]:
    """All errors of a response and its parts."""
    if isinstance(told, list | tuple):
        return {code for each in told for code in codes(each)}
    fields = getattr(type(told), "__annotations__", {})
    own = {told.error_code} - {0} if "error_code" in fields else set()
    return own.union(*(codes(getattr(told, name)) for name in fields))


@pytest.mark.parametrize(("key", "version"), GROUP_APIS, ids=lambda value: getattr(value, "name", value))
def test_an_error_response_has_the_error_once_or_for_each_entry(key: ApiKey, version: int) -> None:
    handler = importlib.import_module(f"ottla.broker.handlers.{key.name.lower()}")
    request = CASES[key].request
    response = handler.error_response(request, version, CODE)
    kind = messages.response_type(key)
    assert kind is not None
    told = kind.decode(response.encode(version), version)
    assert codes(told) == {CODE}


@pytest.mark.parametrize(("version", "protocol"), [(0, ""), (6, ""), (7, None), (9, None)])
def test_a_failed_join_has_no_protocol(version: int, protocol: str | None) -> None:
    handler = importlib.import_module("ottla.broker.handlers.join_group")
    response = handler.error_response(CASES[ApiKey.JOIN_GROUP].request, version, CODE)
    told = JoinGroupResponse.decode(response.encode(version), version)
    assert (told.error_code, told.generation_id, told.protocol_name, told.leader) == (CODE, -1, protocol, "")
