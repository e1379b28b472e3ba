"""OffsetForLeaderEpoch: where a leader epoch ends in the leader's log, to find out which records were lost.

0   the first form
1   the epoch that the offset belongs to
2   the leader epoch the client knows; throttle time
3   replica id
4   flexible
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Int16, Int32, Int64, String


class OffsetForLeaderPartition(Struct):
    """A partition and the epoch to look up in it; `current_leader_epoch` fences outdated askers."""

    partition: Int32
    current_leader_epoch: Annotated[Int32, V("2+")] = -1
    leader_epoch: Int32


class OffsetForLeaderTopic(Struct):
    """The partitions of one topic."""

    topic: String
    partitions: Sequence[OffsetForLeaderPartition]


class OffsetForLeaderEpochRequest(Request, api_key=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions="0-4", flexible="4+"):
    """Look up ends of epochs; `replica_id` is -1 for a consumer, -2 for a tool."""

    replica_id: Annotated[Int32, V("3+")] = -2
    topics: Sequence[OffsetForLeaderTopic]


class EpochEndOffset(Struct):
    """The largest epoch not above the one asked for, and the first offset behind it; -1 if there is none."""

    error_code: Int16
    partition: Int32
    leader_epoch: Annotated[Int32, V("1+")] = -1
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(Struct):
    """The ends of epochs in one topic."""

    topic: String
    partitions: Sequence[EpochEndOffset]


class OffsetForLeaderEpochResponse(Response, api_key=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions="0-4", flexible="4+"):
    """The ends of epochs."""

    throttle_time_ms: Annotated[Int32, V("2+")] = 0
    topics: Sequence[OffsetForLeaderTopicResult]
