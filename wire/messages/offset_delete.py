"""OffsetDelete: forget offsets that a group has committed.

0   the first form
"""

from collections.abc import Sequence

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct
from ottla.wire.types import Int16, Int32, String


class OffsetDeleteRequestPartition(Struct):
    """A partition whose offset is deleted."""

    partition_index: Int32


class OffsetDeleteRequestTopic(Struct):
    """The partitions of one topic."""

    name: String
    partitions: Sequence[OffsetDeleteRequestPartition]


class OffsetDeleteRequest(Request, api_key=ApiKey.OFFSET_DELETE, versions="0"):
    """Delete offsets; offsets of topics that the group is subscribed to stay."""

    group_id: String
    topics: Sequence[OffsetDeleteRequestTopic]


class OffsetDeleteResponsePartition(Struct):
    """The result for one partition."""

    partition_index: Int32
    error_code: Int16


class OffsetDeleteResponseTopic(Struct):
    """The result for one topic."""

    name: String
    partitions: Sequence[OffsetDeleteResponsePartition]


class OffsetDeleteResponse(Response, api_key=ApiKey.OFFSET_DELETE, versions="0"):
    """The results for the offsets."""

    error_code: Int16
    throttle_time_ms: Int32 = 0
    topics: Sequence[OffsetDeleteResponseTopic]
