"""Access control lists: entries that allow or deny an operation on resources.

Owns the numbers of resources, patterns, operations and permissions. Must not know a broker's authorizer.
Counterparts in Kafka: AclBinding, AclBindingFilter, AclEntry, SecurityUtils.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.client.cluster import ANY, Client, Target, check, kafka_error
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""
ANY_HOST: Final = "*"
_PATTERNS_FROM: Final = 1
"""The first version of the three requests with pattern types."""


class _Named(IntEnum):
    """Numbers with a name in Kafka's spelling: TRANSACTIONAL_ID is TransactionalId."""

    @classmethod
    def _missing_(cls, value: object) -> "_Named":
        # A later Kafka has more numbers.
        return cls(0)

    @property
    def words(self) -> str:
        """Return the name as Kafka's configs and tools spell it."""
        return "".join(part.capitalize() for part in self.name.split("_"))


class AclResource(_Named):
    """The type of an entry's resources. ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPattern(_Named):
    """How an entry's name matches resources. ANY and MATCH are for filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(_Named):
    """The operation that an entry allows or denies. ANY is for filters only; ALL stands for every operation."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(_Named):
    """Whether an entry allows or denies. ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


_O: Final = AclOperation
OPERATIONS: Final[Mapping[AclResource, Sequence[AclOperation]]] = {
    AclResource.TOPIC: (
        _O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS,
    ),
    AclResource.GROUP: (_O.READ, _O.DELETE, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    AclResource.CLUSTER: (
        _O.CREATE, _O.ALTER, _O.DESCRIBE, _O.CLUSTER_ACTION, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.IDEMPOTENT_WRITE,
    ),
    AclResource.TRANSACTIONAL_ID: (_O.WRITE, _O.DESCRIBE, _O.TWO_PHASE_COMMIT),
    AclResource.DELEGATION_TOKEN: (_O.DESCRIBE,),
    AclResource.USER: (_O.CREATE_TOKENS, _O.DESCRIBE_TOKENS),
}  # fmt: skip
"""The operations of each resource type, beside ALL. A broker accepts others, which have no effect."""


class AclTarget(NamedTuple):
    """The resources of an entry: those of one type whose names equal a name, or begin with it."""

    type: AclResource
    name: str
    pattern: AclPattern = AclPattern.LITERAL


class Acl(NamedTuple):
    """An entry. The principal is of the form `User:alice`."""

    target: AclTarget
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission


class AclFilter(NamedTuple):
    """A filter of entries; a field that is None or ANY matches anything."""

    type: AclResource = AclResource.ANY
    name: str | None = None
    pattern: AclPattern = AclPattern.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY


class DeletedAcl(NamedTuple):
    """An entry that matched a filter, and the error if it could not be deleted."""

    acl: Acl
    error: KafkaError | None


async def describe_acls(client: Client, wanted: AclFilter, target: Target = ANY) -> list[Acl]:
    """Return the entries that match. KafkaError if there is no authorizer, or the client is not authorized.

    `target` is CONTROLLER for a client whose bootstrap servers are the controllers of a KRaft cluster.
    """
    request = DescribeAclsRequest(
        resource_type_filter=wanted.type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    response = await client.ask(request, target, DescribeAclsResponse, lowest=_lowest([wanted.pattern]))
    check(response.error_code, response.error_message)
    return [
        Acl(
            AclTarget(AclResource(each.resource_type), each.resource_name, AclPattern(each.pattern_type)),
            entry.principal,
            entry.host,
            AclOperation(entry.operation),
            AclPermission(entry.permission_type),
        )
        for each in response.resources
        for entry in each.acls
    ]


async def create_acls(client: Client, acls: Iterable[Acl], target: Target = ANY) -> dict[Acl, KafkaError | None]:
    """Create entries; an entry that exists already is not an error."""
    wanted = list(dict.fromkeys(acls))
    request = CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=each.target.type,
                resource_name=each.target.name,
                resource_pattern_type=each.target.pattern,
                principal=each.principal,
                host=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in wanted
        ]
    )
    lowest = _lowest(each.target.pattern for each in wanted)
    response = await client.ask(request, target, CreateAclsResponse, lowest=lowest)
    return {
        acl: _error(result.error_code, result.error_message)
        for acl, result in zip(wanted, response.results, strict=True)
    }


async def delete_acls(
    client: Client, filters: Iterable[AclFilter], target: Target = ANY
) -> dict[AclFilter, list[DeletedAcl] | KafkaError]:
    """Delete the entries that match any of the filters; return the matching entries of each filter."""
    wanted = list(dict.fromkeys(filters))
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=each.type,
                resource_name_filter=each.name,
                pattern_type_filter=each.pattern,
                principal_filter=each.principal,
                host_filter=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in wanted
        ]
    )
    response = await client.ask(request, target, DeleteAclsResponse, lowest=_lowest(each.pattern for each in wanted))
    results: dict[AclFilter, list[DeletedAcl] | KafkaError] = {}
    for each, result in zip(wanted, response.filter_results, strict=True):
        error = _error(result.error_code, result.error_message)
        results[each] = error or [_deleted(found) for found in result.matching_acls]
    return results


def _deleted(found: DeleteAclsMatchingAcl) -> DeletedAcl:
    target = AclTarget(AclResource(found.resource_type), found.resource_name, AclPattern(found.pattern_type))
    permission = AclPermission(found.permission_type)
    acl = Acl(target, found.principal, found.host, AclOperation(found.operation), permission)
    return DeletedAcl(acl, _error(found.error_code, found.error_message))


def _lowest(patterns: Iterable[AclPattern]) -> int:
    """Return the lowest version for these patterns: without pattern types every name is literal."""
    return 0 if all(each in (AclPattern.LITERAL, AclPattern.ANY) for each in patterns) else _PATTERNS_FROM


def _error(code: int, message: str | None) -> KafkaError | None:
    return None if code == ErrorCode.NONE else kafka_error(code, message)


# The operations of roles


def producer_acls(
    topics: Iterable[AclTarget], transactional_ids: Iterable[AclTarget], *, idempotent: bool
) -> dict[AclTarget, Sequence[AclOperation]]:
    """Return the operations that a producer needs."""
    found: dict[AclTarget, Sequence[AclOperation]] = {}
    found.update(dict.fromkeys(topics, (_O.WRITE, _O.DESCRIBE, _O.CREATE)))
    found.update(dict.fromkeys(transactional_ids, (_O.WRITE, _O.DESCRIBE)))
    if idempotent:
        found[AclTarget(AclResource.CLUSTER, CLUSTER_NAME)] = (_O.IDEMPOTENT_WRITE,)
    return found


def consumer_acls(topics: Iterable[AclTarget], groups: Iterable[AclTarget]) -> dict[AclTarget, Sequence[AclOperation]]:
    """Return the operations that a consumer needs."""
    return {
        **dict.fromkeys(topics, (_O.READ, _O.DESCRIBE)),
        **dict.fromkeys(groups, (_O.READ,)),
    }
