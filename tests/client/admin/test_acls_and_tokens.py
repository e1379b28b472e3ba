"""ACLs and delegation tokens as requests: versions, numbers of a later Kafka, and errors of single items."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
import trio

from ottla.client.admin.acls import (
    Acl,
    AclFilter,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    AclTarget,
    create_acls,
    delete_acls,
    describe_acls,
)
from ottla.client.admin.tokens import Principal, create_token, describe_tokens
from ottla.client.cluster import Client, open_client
from ottla.client.config import ClientConfig
from ottla.client.errors import UnsupportedRequestError
from ottla.wire.api_keys import ApiKey
from ottla.wire.codec import RequestHeader
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ottla.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ottla.wire.schema import Request, Response
from tests.client.scripted import ScriptedBroker, listening

PATIENCE_S = 120
TOPIC = AclTarget(AclResource.TOPIC, "t")
READ = Acl(TOPIC, "User:a", "*", AclOperation.READ, AclPermission.ALLOW)
WRITE = READ._replace(operation=AclOperation.WRITE)


@asynccontextmanager
async def asking(
    answers: Mapping[type[Request], Response], **versions: tuple[int, int]
) -> AsyncIterator[tuple[Client, ScriptedBroker]]:
    """Yield a client of a broker with these answers, and the broker."""

    async def answer(header: RequestHeader, request: Request) -> Response:
        return answers[type(request)]

    broker = ScriptedBroker(answer)
    broker.versions |= {ApiKey[name]: each for name, each in versions.items()}
    with trio.fail_after(PATIENCE_S):
        async with listening(broker), open_client(ClientConfig({"bootstrap.servers": broker.bootstrap})) as client:
            yield client, broker


def described(operation: int) -> DescribeAclsResponse:
    entry = AclDescription(principal="User:a", host="*", operation=operation, permission_type=3)
    resource = DescribeAclsResource(resource_type=2, resource_name="t", pattern_type=3, acls=[entry])
    return DescribeAclsResponse(error_code=0, error_message=None, resources=[resource])


async def test_an_operation_of_a_later_kafka_is_unknown() -> None:
    async with asking({DescribeAclsRequest: described(99)}) as (client, _):
        (acl,) = await describe_acls(client, AclFilter())
    assert (acl.target, acl.operation) == (TOPIC, AclOperation.UNKNOWN)


async def test_a_broker_without_authorizer_says_so() -> None:
    refusal = DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message="none", resources=[])
    async with asking({DescribeAclsRequest: refusal}) as (client, _):
        with pytest.raises(KafkaError, match="none"):
            await describe_acls(client, AclFilter())


async def test_a_broker_without_pattern_types_gets_no_request_with_a_pattern() -> None:
    async with asking({DescribeAclsRequest: described(3)}, DESCRIBE_ACLS=(0, 0)) as (client, broker):
        assert await describe_acls(client, AclFilter(AclResource.TOPIC, "t")) == [READ]
        with pytest.raises(UnsupportedRequestError):
            await describe_acls(client, AclFilter(AclResource.TOPIC, "t", AclPattern.PREFIXED))
    assert broker.asked(DescribeAclsRequest) == 1


async def test_each_entry_has_its_own_result() -> None:
    results = [
        AclCreationResult(error_code=0, error_message=None),
        AclCreationResult(error_code=ErrorCode.INVALID_REQUEST, error_message="bad"),
    ]
    async with asking({CreateAclsRequest: CreateAclsResponse(results=results)}) as (client, broker):
        found = await create_acls(client, [READ, WRITE, READ])
    assert found[READ] is None
    error = found[WRITE]
    assert error is not None
    assert (error.code, error.detail) == (ErrorCode.INVALID_REQUEST, "bad")
    request = broker.requests[-1]
    assert isinstance(request, CreateAclsRequest)
    assert len(request.creations) == 2


async def test_a_filter_and_each_matching_entry_may_fail() -> None:
    def matching(operation: int, code: int) -> DeleteAclsMatchingAcl:
        return DeleteAclsMatchingAcl(
            error_code=code, error_message=None, resource_type=2, resource_name="t", pattern_type=3,
            principal="User:a", host="*", operation=operation, permission_type=3,
        )  # fmt: skip

    results = [
        DeleteAclsFilterResult(error_code=0, error_message=None, matching_acls=[matching(3, 0), matching(4, -1)]),
        DeleteAclsFilterResult(error_code=ErrorCode.INVALID_REQUEST, error_message="bad", matching_acls=[]),
    ]
    one, other = AclFilter(AclResource.TOPIC), AclFilter(AclResource.GROUP)
    async with asking({DeleteAclsRequest: DeleteAclsResponse(filter_results=results)}) as (client, _):
        found = await delete_acls(client, [one, other])
    matched = found[one]
    assert isinstance(matched, list)
    assert [(each.acl, each.error and each.error.code) for each in matched] == [(READ, None), (WRITE, -1)]
    assert isinstance(found[other], KafkaError)


@pytest.mark.parametrize(("owners", "asked"), [(None, None), ([], []), ([Principal("User", "a")], ["a"])])
async def test_no_owner_filter_differs_from_an_empty_one(
    owners: list[Principal] | None, asked: list[str] | None
) -> None:
    nothing = DescribeDelegationTokenResponse(error_code=0, tokens=[])
    async with asking({DescribeDelegationTokenRequest: nothing}) as (client, broker):
        assert await describe_tokens(client, owners) == []
    request = broker.requests[-1]
    assert isinstance(request, DescribeDelegationTokenRequest)
    assert (request.owners if request.owners is None else [each.principal_name for each in request.owners]) == asked


async def test_a_token_for_another_owner_is_not_requested_from_a_broker_that_ignores_owners() -> None:
    async with asking({}, CREATE_DELEGATION_TOKEN=(0, 2)) as (client, broker):
        with pytest.raises(UnsupportedRequestError):
            await create_token(client, owner=Principal("User", "b"))
    assert not broker.asked(CreateDelegationTokenRequest)
