"""OffsetCommit: remember how far a group has read.

0   offsets kept in ZooKeeper
1   offsets kept in __consumer_offsets; generation and member; a commit timestamp for each partition
2   a retention time instead of the commit timestamps
3   throttle time
4   the client waits out the throttle time itself
5   no retention time any more: the broker's config decides
6   leader epoch of the record before the offset
7   group instance id, of a static member
8   flexible
9   groups of the consumer protocol, by member epoch; may answer STALE_MEMBER_EPOCH and GROUP_ID_NOT_FOUND
10  topic ids instead of names
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import ZERO_UUID, Int16, Int32, Int64, String, Uuid


class OffsetCommitRequestPartition(Struct):
    """The next offset to read in one partition, and text of the client's own to keep with it."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, V("6+")] = -1
    commit_timestamp: Annotated[Int64, V("1")] = -1
    committed_metadata: Annotated[String | None, V(nullable="0+")]


class OffsetCommitRequestTopic(Struct):
    """The offsets for one topic."""

    name: Annotated[String, V("0-9")] = ""
    topic_id: Annotated[Uuid, V("10+")] = ZERO_UUID
    partitions: Sequence[OffsetCommitRequestPartition]


class OffsetCommitRequest(Request, api_key=ApiKey.OFFSET_COMMIT, versions="0-10", flexible="8+"):
    """Commit offsets; a generation of -1 and no member id for a client that only stores offsets."""

    group_id: String
    generation_id_or_member_epoch: Annotated[Int32, V("1+")] = -1
    member_id: Annotated[String, V("1+")] = ""
    group_instance_id: Annotated[String | None, V("7+", nullable="7+")] = None
    retention_time_ms: Annotated[Int64, V("2-4")] = -1
    topics: Sequence[OffsetCommitRequestTopic]


class OffsetCommitResponsePartition(Struct):
    """Whether the offset for one partition was kept."""

    partition_index: Int32
    error_code: Int16


class OffsetCommitResponseTopic(Struct):
    """Whether the offsets for one topic were kept."""

    name: Annotated[String, V("0-9")] = ""
    topic_id: Annotated[Uuid, V("10+")] = ZERO_UUID
    partitions: Sequence[OffsetCommitResponsePartition]


class OffsetCommitResponse(Response, api_key=ApiKey.OFFSET_COMMIT, versions="0-10", flexible="8+"):
    """Whether the offsets were kept."""

    throttle_time_ms: Annotated[Int32, V("3+")] = 0
    topics: Sequence[OffsetCommitResponseTopic]
