"""DescribeShareGroupOffsets: from where on records of share groups are not all acknowledged.

0   the first form
1   lag
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Int16, Int32, Int64, String, Uuid


class DescribeShareGroupOffsetsRequestTopic(Struct):
    """Partitions of a topic."""

    topic_name: String
    partitions: Sequence[Int32]


class DescribeShareGroupOffsetsRequestGroup(Struct):
    """A group, and the topics to describe; all of them for null."""

    group_id: String
    topics: Annotated[Sequence[DescribeShareGroupOffsetsRequestTopic] | None, V(nullable="0+")]


class DescribeShareGroupOffsetsRequest(
    Request, api_key=ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, versions="0-1", flexible="0+"
):
    """Describe the offsets of share groups."""

    groups: Sequence[DescribeShareGroupOffsetsRequestGroup]


class DescribeShareGroupOffsetsResponsePartition(Struct):
    """The first offset (inclusive) that may still be delivered; -1 if there is none yet."""

    partition_index: Int32
    start_offset: Int64
    leader_epoch: Int32
    lag: Annotated[Int64, V("1+")] = -1
    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")] = None


class DescribeShareGroupOffsetsResponseTopic(Struct):
    """Partitions of a topic."""

    topic_name: String
    topic_id: Uuid
    partitions: Sequence[DescribeShareGroupOffsetsResponsePartition]


class DescribeShareGroupOffsetsResponseGroup(Struct):
    """The offsets of one group."""

    group_id: String
    topics: Sequence[DescribeShareGroupOffsetsResponseTopic]
    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")] = None


class DescribeShareGroupOffsetsResponse(
    Response, api_key=ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, versions="0-1", flexible="0+"
):
    """The offsets of the groups."""

    throttle_time_ms: Int32 = 0
    groups: Sequence[DescribeShareGroupOffsetsResponseGroup]
