"""DescribeTopicPartitions: the partitions of topics, page by page.

0   the first form
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.messages.metadata import OPERATIONS_OMITTED
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Bool, Int16, Int32, String, Uuid


class TopicRequest(Struct):
    """A topic to describe."""

    name: String


class Cursor(Struct):
    """The partition at which a page starts."""

    topic_name: String
    partition_index: Int32


class DescribeTopicPartitionsRequest(Request, api_key=ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions="0", flexible="0+"):
    """Describe partitions, from `cursor` on if it is given; no topics mean all."""

    topics: Sequence[TopicRequest]
    response_partition_limit: Int32 = 2000
    cursor: Annotated[Cursor | None, V(nullable="0+")] = None


class DescribeTopicPartitionsResponsePartition(Struct):
    """The leader and replicas of one partition; ELR are the replicas eligible to lead if no ISR is left."""

    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = -1
    replica_nodes: Sequence[Int32]
    isr_nodes: Sequence[Int32]
    eligible_leader_replicas: Annotated[Sequence[Int32] | None, V(nullable="0+")] = None
    last_known_elr: Annotated[Sequence[Int32] | None, V(nullable="0+")] = None
    offline_replicas: Sequence[Int32]


class DescribeTopicPartitionsResponseTopic(Struct):
    """A topic and its partitions."""

    error_code: Int16
    name: Annotated[String | None, V(nullable="0+")]
    topic_id: Uuid
    is_internal: Bool = False
    partitions: Sequence[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: Int32 = OPERATIONS_OMITTED


class DescribeTopicPartitionsResponse(Response, api_key=ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions="0", flexible="0+"):
    """A page; a cursor to ask for the next one, null at the end."""

    throttle_time_ms: Int32 = 0
    topics: Sequence[DescribeTopicPartitionsResponseTopic]
    next_cursor: Annotated[Cursor | None, V(nullable="0+")] = None
