"""The table of APIs: the versions that this broker answers, and the permission that a request needs.

Owns one row per API: the versions advertised and served, and the operation and type of resource that an authorizer
checks. Must not know sockets, nor what a handler does. Counterparts in Kafka: ApiKeys, ApiVersionManager.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from ottla.broker.requests.authorizer import Operation, ResourceType
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.types import VersionRange

# (request, context) -> response | Deferred | None. The handlers have exact types; here all messages are alike.
Handler = Callable[[Any, Any], Any]
# (request, version, error) -> response
ErrorResponse = Callable[[Any, int, ErrorCode], Any]

# A handler, and the function for its response to an error; None if the API has no such response.
Bound = tuple[Handler, ErrorResponse | None]


class Row(NamedTuple):
    """An API that this broker offers. `served` is set if some advertised versions are not answered."""

    key: ApiKey
    advertised: str
    operation: Operation
    resource: ResourceType
    served: str | None = None


TABLE: Final = (
    # Produce 0-2 are advertised, because librdkafka needs them for compression, but they close the connection.
    Row(ApiKey.PRODUCE, "0-11", Operation.WRITE, ResourceType.TOPIC, served="3-11"),
    Row(ApiKey.FETCH, "4-17", Operation.READ, ResourceType.TOPIC),
    Row(ApiKey.LIST_OFFSETS, "1-9", Operation.DESCRIBE, ResourceType.TOPIC),
    Row(ApiKey.METADATA, "0-12", Operation.DESCRIBE, ResourceType.TOPIC),
    Row(ApiKey.LEADER_AND_ISR, "0-7", Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    Row(ApiKey.STOP_REPLICA, "0-4", Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    Row(ApiKey.UPDATE_METADATA, "0-8", Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    Row(ApiKey.CONTROLLED_SHUTDOWN, "0-3", Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    Row(ApiKey.OFFSET_COMMIT, "2-9", Operation.READ, ResourceType.GROUP),
    Row(ApiKey.OFFSET_FETCH, "1-9", Operation.DESCRIBE, ResourceType.GROUP),
    Row(ApiKey.FIND_COORDINATOR, "0-6", Operation.DESCRIBE, ResourceType.GROUP),
    Row(ApiKey.JOIN_GROUP, "0-9", Operation.READ, ResourceType.GROUP),
    Row(ApiKey.HEARTBEAT, "0-4", Operation.READ, ResourceType.GROUP),
    Row(ApiKey.LEAVE_GROUP, "0-5", Operation.READ, ResourceType.GROUP),
    Row(ApiKey.SYNC_GROUP, "0-5", Operation.READ, ResourceType.GROUP),
    Row(ApiKey.DESCRIBE_GROUPS, "0-5", Operation.DESCRIBE, ResourceType.GROUP),
    Row(ApiKey.LIST_GROUPS, "0-5", Operation.DESCRIBE, ResourceType.GROUP),
    Row(ApiKey.API_VERSIONS, "0-4", Operation.NONE, ResourceType.NONE),
    Row(ApiKey.CREATE_TOPICS, "2-7", Operation.CREATE, ResourceType.TOPIC),
    Row(ApiKey.DELETE_TOPICS, "1-6", Operation.DELETE, ResourceType.TOPIC),
    Row(ApiKey.DELETE_RECORDS, "0-2", Operation.DELETE, ResourceType.TOPIC),
    Row(ApiKey.INIT_PRODUCER_ID, "0-5", Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
    Row(ApiKey.ADD_PARTITIONS_TO_TXN, "0-5", Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
    Row(ApiKey.ADD_OFFSETS_TO_TXN, "0-4", Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
    Row(ApiKey.END_TXN, "0-4", Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
    Row(ApiKey.WRITE_TXN_MARKERS, "1", Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    Row(ApiKey.TXN_OFFSET_COMMIT, "0-4", Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
    Row(ApiKey.OFFSET_FOR_LEADER_EPOCH, "2-4", Operation.DESCRIBE, ResourceType.TOPIC),
    Row(ApiKey.DESCRIBE_CONFIGS, "1-4", Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC),
    Row(ApiKey.ALTER_CONFIGS, "0-2", Operation.ALTER_CONFIGS, ResourceType.TOPIC),
    Row(ApiKey.ALTER_REPLICA_LOG_DIRS, "1-2", Operation.ALTER, ResourceType.CLUSTER),
    Row(ApiKey.DESCRIBE_LOG_DIRS, "1-4", Operation.DESCRIBE, ResourceType.CLUSTER),
    Row(ApiKey.CREATE_PARTITIONS, "0-3", Operation.ALTER, ResourceType.TOPIC),
    Row(ApiKey.DELETE_GROUPS, "0-2", Operation.DELETE, ResourceType.GROUP),
    Row(ApiKey.ELECT_LEADERS, "0-2", Operation.ALTER, ResourceType.CLUSTER),
    Row(ApiKey.INCREMENTAL_ALTER_CONFIGS, "0-1", Operation.ALTER_CONFIGS, ResourceType.TOPIC),
    Row(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "0", Operation.ALTER, ResourceType.CLUSTER),
    Row(ApiKey.LIST_PARTITION_REASSIGNMENTS, "0", Operation.DESCRIBE, ResourceType.CLUSTER),
    Row(ApiKey.OFFSET_DELETE, "0", Operation.DELETE, ResourceType.GROUP),
    Row(ApiKey.ALTER_PARTITION, "0-3", Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    Row(ApiKey.DESCRIBE_CLUSTER, "0-1", Operation.DESCRIBE, ResourceType.CLUSTER),
    Row(ApiKey.DESCRIBE_PRODUCERS, "0", Operation.READ, ResourceType.TOPIC),
    Row(ApiKey.DESCRIBE_TRANSACTIONS, "0", Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
    Row(ApiKey.LIST_TRANSACTIONS, "0-1", Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
    Row(ApiKey.ALLOCATE_PRODUCER_IDS, "0", Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    Row(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "0", Operation.DESCRIBE, ResourceType.TOPIC),
)


def advertised(keys: Iterable[ApiKey]) -> dict[ApiKey, VersionRange]:
    """Return the advertised versions of these APIs, in the order of the table."""
    return {row.key: VersionRange.parse(row.advertised) for row in TABLE if row.key in keys}
