"""DescribeProducers: the producers that a partition remembers.

0   the first form
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Int16, Int32, Int64, String


class TopicRequest(Struct):
    """The partitions of one topic."""

    name: String
    partition_indexes: Sequence[Int32]


class DescribeProducersRequest(Request, api_key=ApiKey.DESCRIBE_PRODUCERS, versions="0", flexible="0+"):
    """Describe producers."""

    topics: Sequence[TopicRequest]


class ProducerState(Struct):
    """A producer; `current_txn_start_offset` is -1 if it has no transaction open in the partition."""

    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = -1


class PartitionResponse(Struct):
    """The producers of one partition."""

    partition_index: Int32
    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")] = None
    active_producers: Sequence[ProducerState]


class TopicResponse(Struct):
    """The producers of one topic."""

    name: String
    partitions: Sequence[PartitionResponse]


class DescribeProducersResponse(Response, api_key=ApiKey.DESCRIBE_PRODUCERS, versions="0", flexible="0+"):
    """The producers."""

    throttle_time_ms: Int32 = 0
    topics: Sequence[TopicResponse]
