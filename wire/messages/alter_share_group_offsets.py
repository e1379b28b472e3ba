"""AlterShareGroupOffsets: set from where on a share group without members delivers records.

0   the first form
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Int16, Int32, Int64, String, Uuid


class AlterShareGroupOffsetsRequestPartition(Struct):
    """The first offset (inclusive) that is to be delivered."""

    partition_index: Int32
    start_offset: Int64


class AlterShareGroupOffsetsRequestTopic(Struct):
    """Partitions of a topic."""

    topic_name: String
    partitions: Sequence[AlterShareGroupOffsetsRequestPartition]


class AlterShareGroupOffsetsRequest(Request, api_key=ApiKey.ALTER_SHARE_GROUP_OFFSETS, versions="0", flexible="0+"):
    """Set offsets of a share group."""

    group_id: String
    topics: Sequence[AlterShareGroupOffsetsRequestTopic]


class AlterShareGroupOffsetsResponsePartition(Struct):
    """The result for one partition."""

    partition_index: Int32
    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")] = None


class AlterShareGroupOffsetsResponseTopic(Struct):
    """The results for the partitions of a topic."""

    topic_name: String
    topic_id: Uuid
    partitions: Sequence[AlterShareGroupOffsetsResponsePartition]


class AlterShareGroupOffsetsResponse(Response, api_key=ApiKey.ALTER_SHARE_GROUP_OFFSETS, versions="0", flexible="0+"):
    """The results for the offsets; an error of the group holds for all of them."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")] = None
    responses: Sequence[AlterShareGroupOffsetsResponseTopic]
