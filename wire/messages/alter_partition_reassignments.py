"""AlterPartitionReassignments: give partitions other replicas, or stop doing so.

0   the first form
1   changes of the replication factor can be refused
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Bool, Int16, Int32, String


class ReassignablePartition(Struct):
    """A partition and its target replicas; null cancels its reassignment."""

    partition_index: Int32
    replicas: Annotated[Sequence[Int32] | None, V(nullable="0+")] = None


class ReassignableTopic(Struct):
    """The partitions of one topic."""

    name: String
    partitions: Sequence[ReassignablePartition]


class AlterPartitionReassignmentsRequest(
    Request, api_key=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions="0-1", flexible="0+"
):
    """Start or cancel reassignments."""

    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Annotated[Bool, V("1+")] = True
    topics: Sequence[ReassignableTopic]


class ReassignablePartitionResponse(Struct):
    """The result for one partition."""

    partition_index: Int32
    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")]


class ReassignableTopicResponse(Struct):
    """The result for one topic."""

    name: String
    partitions: Sequence[ReassignablePartitionResponse]


class AlterPartitionReassignmentsResponse(
    Response, api_key=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions="0-1", flexible="0+"
):
    """The results for the partitions."""

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[Bool, V("1+")] = True
    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")]
    responses: Sequence[ReassignableTopicResponse]
