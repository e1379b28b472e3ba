"""Who may do what: the question that handlers and guards put to an authorizer, if there is one.

Owns the vocabulary, the interface, and what follows where nobody was named to ask: everybody may do everything, as in
Kafka. Must not know any request. Counterparts in Kafka: Authorizer, AuthHelper, AclEntry.supportedOperations.
"""

import logging
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, Protocol

from ottla.broker.net.session import RequestContext

logger = logging.getLogger("kafka.authorizer.logger")

CLUSTER_NAME: Final = "kafka-cluster"


class Operation(IntEnum):
    """What a principal may be allowed to do. Counterpart: AclOperation."""

    NONE = 0
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


class ResourceType(IntEnum):
    """What it may be done to. Counterpart: ResourceType."""

    NONE = 0
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


# What can be done to each at all.
SUPPORTED: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}


def _bits(operations: Iterable[Operation]) -> int:
    return sum(1 << each for each in operations)


_ALL: Final = {resource_type: _bits(operations) for resource_type, operations in SUPPORTED.items()}


class Authorizer(Protocol):
    """Decides, from what it holds in memory: it is asked on the loop."""

    def authorize(self, context: RequestContext, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether who sent a request may do this to that resource."""
        ...

    def authorize_any(self, context: RequestContext, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether there is any resource of that type to which it may be done."""
        ...


class Access:
    """The questions as handlers put them. Without an authorizer the answer is yes."""

    __slots__ = ("authorizer",)

    def __init__(self, authorizer: Authorizer | None = None) -> None:
        self.authorizer = authorizer

    def allows(
        self,
        context: RequestContext,
        operation: Operation,
        resource_type: ResourceType,
        name: str = CLUSTER_NAME,
        *,
        is_told: bool = True,
    ) -> bool:
        """Whether it is allowed; a denial is told to the operator, unless the client did not ask for just that."""
        if self.authorizer is None or self.authorizer.authorize(context, operation, resource_type, name):
            return True
        if is_told:
            logger.info(
                "Principal %s from %s is denied %s on %s %s",
                context.principal,
                context.client_address,
                operation.name,
                resource_type.name,
                name,
            )
        return False

    def allowed(
        self,
        context: RequestContext,
        operation: Operation,
        resource_type: ResourceType,
        names: Iterable[str],
        *,
        is_told: bool = True,
    ) -> set[str]:
        """Those of the names to which it is allowed; each is asked for once."""
        found = set(names)
        if self.authorizer is None:
            return found
        return {each for each in found if self.allows(context, operation, resource_type, each, is_told=is_told)}

    def allows_any(self, context: RequestContext, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether it is allowed to any resource of that type."""
        return self.authorizer is None or self.authorizer.authorize_any(context, operation, resource_type)

    def operations(self, context: RequestContext, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        """All that is allowed to a resource, a bit for each, as clients are told."""
        if self.authorizer is None:
            return _ALL[resource_type]
        allowed = [
            each for each in SUPPORTED[resource_type] if self.allows(context, each, resource_type, name, is_told=False)
        ]
        return _bits(allowed)

    def cluster_operations(self, context: RequestContext) -> int:
        """All that is allowed to the cluster; nothing to whom not even that may be told."""
        if not self.allows(context, Operation.DESCRIBE, ResourceType.CLUSTER):
            return 0
        return self.operations(context, ResourceType.CLUSTER)


EVERYBODY: Final = Access()
