"""OffsetFetch: the offsets that a group has committed.

0   offsets kept in ZooKeeper
1   offsets kept in __consumer_offsets
2   null means all topics; an error code for the whole response
3   throttle time
4   the client waits out the throttle time itself
5   leader epoch of the record before the offset
6   flexible
7   only stable offsets, if so asked: UNSTABLE_OFFSET_COMMIT where an open transaction has a newer one
8   many groups at once
9   member id and epoch, for groups of the consumer protocol
10  topic ids instead of names
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import ZERO_UUID, Bool, Int16, Int32, Int64, String, Uuid


class OffsetFetchRequestTopic(Struct):
    """Partitions of one topic to look up."""

    name: String
    partition_indexes: Sequence[Int32]


class OffsetFetchRequestTopics(Struct):
    """Partitions of one topic to look up for one of many groups."""

    name: Annotated[String, V("8-9")] = ""
    topic_id: Annotated[Uuid, V("10+")] = ZERO_UUID
    partition_indexes: Sequence[Int32]


class OffsetFetchRequestGroup(Struct):
    """A group to look up offsets of; `topics` is null for all it has committed."""

    group_id: String
    member_id: Annotated[String | None, V("9+", nullable="9+")] = None
    member_epoch: Annotated[Int32, V("9+")] = -1
    topics: Annotated[Sequence[OffsetFetchRequestTopics] | None, V(nullable="0+")]


class OffsetFetchRequest(Request, api_key=ApiKey.OFFSET_FETCH, versions="0-10", flexible="6+"):
    """Look up committed offsets."""

    group_id: Annotated[String, V("0-7")] = ""
    topics: Annotated[Sequence[OffsetFetchRequestTopic] | None, V("0-7", nullable="2-7")] = ()
    groups: Annotated[Sequence[OffsetFetchRequestGroup], V("8+")] = ()
    require_stable: Annotated[Bool, V("7+")] = False


class OffsetFetchResponsePartition(Struct):
    """The committed offset of one partition; -1: none."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, V("5-7")] = -1
    metadata: Annotated[String | None, V(nullable="0+")]
    error_code: Int16


class OffsetFetchResponseTopic(Struct):
    """The committed offsets of one topic."""

    name: String
    partitions: Sequence[OffsetFetchResponsePartition]


class OffsetFetchResponsePartitions(Struct):
    """One of many groups' committed offset of one partition; -1: none."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = -1
    metadata: Annotated[String | None, V(nullable="0+")]
    error_code: Int16


class OffsetFetchResponseTopics(Struct):
    """One of many groups' committed offsets of one topic."""

    name: Annotated[String, V("8-9")] = ""
    topic_id: Annotated[Uuid, V("10+")] = ZERO_UUID
    partitions: Sequence[OffsetFetchResponsePartitions]


class OffsetFetchResponseGroup(Struct):
    """One group's committed offsets."""

    group_id: String
    topics: Sequence[OffsetFetchResponseTopics]
    error_code: Int16 = 0


class OffsetFetchResponse(Response, api_key=ApiKey.OFFSET_FETCH, versions="0-10", flexible="6+"):
    """The committed offsets."""

    throttle_time_ms: Annotated[Int32, V("3+")] = 0
    topics: Annotated[Sequence[OffsetFetchResponseTopic], V("0-7")] = ()
    error_code: Annotated[Int16, V("2-7")] = 0
    groups: Annotated[Sequence[OffsetFetchResponseGroup], V("8+")] = ()
