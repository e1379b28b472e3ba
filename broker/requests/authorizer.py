"""Permissions: the questions that handlers and guards put to an authorizer.

Owns the operations, the types of resources and the interface. Without an authorizer everything is allowed, as in Kafka.
Must not know any request. Counterparts in Kafka: Authorizer, AuthHelper, AclEntry.supportedOperations.
"""

import logging
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, Protocol

from ottla.broker.net.session import RequestContext

logger = logging.getLogger("kafka.authorizer.logger")

CLUSTER_NAME: Final = "kafka-cluster"


class Operation(IntEnum):
    """An operation that a principal may be allowed to perform. Counterpart in Kafka: AclOperation."""

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
    """A type of resource that an operation is performed on. Counterpart in Kafka: ResourceType."""

    NONE = 0
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


# The operations that each type of resource has.
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
    """Decides whether operations are allowed. It must answer from memory, because it is called on the loop."""

    def authorize(self, context: RequestContext, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the principal of a request may perform the operation on that resource."""
        ...

    def authorize_any(self, context: RequestContext, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the principal may perform the operation on any resource of that type."""
        ...


class Access:
    """The questions that handlers ask. Without an authorizer everything is allowed."""

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
        log_denial: bool = True,
    ) -> bool:
        """Whether the operation is allowed. `log_denial` is for operations that the client itself has asked for."""
        if self.authorizer is None or self.authorizer.authorize(context, operation, resource_type, name):
            return True
        if log_denial:
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
        log_denial: bool = True,
    ) -> set[str]:
        """Return the names on which the operation is allowed. Each name is checked once."""
        found = set(names)
        if self.authorizer is None:
            return found
        return {each for each in found if self.allows(context, operation, resource_type, each, log_denial=log_denial)}

    def allows_any(self, context: RequestContext, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the operation is allowed on any resource of that type."""
        return self.authorizer is None or self.authorizer.authorize_any(context, operation, resource_type)

    def operations(self, context: RequestContext, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        """Return the operations that are allowed on a resource, as the bits of responses."""
        if self.authorizer is None:
            return _ALL[resource_type]
        allowed = [
            each
            for each in SUPPORTED[resource_type]
            if self.allows(context, each, resource_type, name, log_denial=False)
        ]
        return _bits(allowed)

    def cluster_operations(self, context: RequestContext) -> int:
        """As `operations`, for the cluster. Without permission to describe the cluster it is 0."""
        if not self.allows(context, Operation.DESCRIBE, ResourceType.CLUSTER):
            return 0
        return self.operations(context, ResourceType.CLUSTER)


EVERYBODY: Final = Access()
