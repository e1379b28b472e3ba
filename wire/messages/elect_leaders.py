"""ElectLeaders: let the controller elect leaders of partitions.

0   the preferred replica
1   election type; an error code for the whole response
2   flexible
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Int8, Int16, Int32, String


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic: String
    partitions: Sequence[Int32]


class ElectLeadersRequest(Request, api_key=ApiKey.ELECT_LEADERS, versions="0-2", flexible="2+"):
    """Elect leaders: type 0 the preferred replica, 1 any live one if none is in sync; null means all partitions."""

    election_type: Annotated[Int8, V("1+")] = 0
    topic_partitions: Annotated[Sequence[TopicPartitions] | None, V(nullable="0+")]
    timeout_ms: Int32 = 60000


class PartitionResult(Struct):
    """The result for one partition."""

    partition_id: Int32
    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")]


class ReplicaElectionResult(Struct):
    """The result for one topic."""

    topic: String
    partition_result: Sequence[PartitionResult]


class ElectLeadersResponse(Response, api_key=ApiKey.ELECT_LEADERS, versions="0-2", flexible="2+"):
    """The results for the partitions."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, V("1+")] = 0
    replica_election_results: Sequence[ReplicaElectionResult]
