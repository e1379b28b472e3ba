"""ListPartitionReassignments: the reassignments that are under way.

0   the first form
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Int16, Int32, String


class ListPartitionReassignmentsTopics(Struct):
    """Partitions of one topic."""

    name: String
    partition_indexes: Sequence[Int32]


class ListPartitionReassignmentsRequest(
    Request, api_key=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions="0", flexible="0+"
):
    """List reassignments; `topics` is null for all."""

    timeout_ms: Int32 = 60000
    topics: Annotated[Sequence[ListPartitionReassignmentsTopics] | None, V(nullable="0+")] = None


class OngoingPartitionReassignment(Struct):
    """A partition under reassignment; `replicas` holds adding and removing replicas too."""

    partition_index: Int32
    replicas: Sequence[Int32]
    adding_replicas: Sequence[Int32]
    removing_replicas: Sequence[Int32]


class OngoingTopicReassignment(Struct):
    """The reassignments in one topic."""

    name: String
    partitions: Sequence[OngoingPartitionReassignment]


class ListPartitionReassignmentsResponse(
    Response, api_key=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions="0", flexible="0+"
):
    """The reassignments."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")]
    topics: Sequence[OngoingTopicReassignment]
