"""Fetch: read records, as a consumer or as a follower.

0   the first form
1   throttle time
2   messages of format v1 may come
3   a limit of bytes over all partitions, whose order now matters
4   isolation level; last stable offset and aborted transactions; record batches (format v2) may come
5   log start offsets
6   may answer KAFKA_STORAGE_ERROR
7   fetch sessions; an error code for the whole response
8   the client waits out the throttle time itself
9   the leader epoch the client knows
10  records compressed with zstd may come
11  rack of the consumer; preferred read replica
12  flexible; last fetched epoch and the divergence it shows, current leader, cluster id, snapshot id
13  topic ids instead of names
14  may answer OFFSET_MOVED_TO_TIERED_STORAGE
15  the follower's id comes with its epoch, as replica state
16  node endpoints where the leader has moved
17  directory id of the follower
18  high watermark the follower knows
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import DEFAULT, Request, Response, Struct, V
from ottla.wire.types import ZERO_UUID, Int8, Int16, Int32, Int64, Records, String, Uuid


class ReplicaState(Struct):
    """The follower that fetches; -1 for a consumer."""

    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class FetchPartition(Struct):
    """A partition to read from, and from where."""

    partition: Int32
    current_leader_epoch: Annotated[Int32, V("9+")] = -1
    fetch_offset: Int64
    last_fetched_epoch: Annotated[Int32, V("12+")] = -1
    log_start_offset: Annotated[Int64, V("5+")] = -1
    partition_max_bytes: Int32
    replica_directory_id: Annotated[Uuid, V("17+", tag=0)] = ZERO_UUID
    high_watermark: Annotated[Int64, V("18+", tag=1)] = 0x7FFFFFFFFFFFFFFF


class FetchTopic(Struct):
    """A topic to read from."""

    topic: Annotated[String, V("0-12")] = ""
    topic_id: Annotated[Uuid, V("13+")] = ZERO_UUID
    partitions: Sequence[FetchPartition]


class ForgottenTopic(Struct):
    """Partitions that leave the fetch session."""

    topic: Annotated[String, V("7-12")] = ""
    topic_id: Annotated[Uuid, V("13+")] = ZERO_UUID
    partitions: Sequence[Int32]


class FetchRequest(Request, api_key=ApiKey.FETCH, versions="0-18", flexible="12+"):
    """Read records; waits up to `max_wait_ms` for `min_bytes`."""

    cluster_id: Annotated[String | None, V("12+", nullable="12+", tag=0)] = None
    replica_id: Annotated[Int32, V("0-14")] = -1
    replica_state: Annotated[ReplicaState, V("15+", tag=1)] = DEFAULT
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Annotated[Int32, V("3+")] = 0x7FFFFFFF
    isolation_level: Annotated[Int8, V("4+")] = 0
    session_id: Annotated[Int32, V("7+")] = 0
    session_epoch: Annotated[Int32, V("7+")] = -1
    topics: Sequence[FetchTopic]
    forgotten_topics_data: Annotated[Sequence[ForgottenTopic], V("7+")] = ()
    rack_id: Annotated[String, V("11+")] = ""


class EpochEndOffset(Struct):
    """Where the logs of leader and follower part: the follower has to truncate to it."""

    epoch: Int32 = -1
    end_offset: Int64 = -1


class LeaderIdAndEpoch(Struct):
    """The leader to turn to from now on; -1 where it is not known."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class SnapshotId(Struct):
    """The snapshot to load instead (KRaft's metadata log only)."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Struct):
    """An aborted transaction, whose records a read_committed consumer skips."""

    producer_id: Int64
    first_offset: Int64


class PartitionData(Struct):
    """The records of one partition."""

    partition_index: Int32
    error_code: Int16
    high_watermark: Int64
    last_stable_offset: Annotated[Int64, V("4+")] = -1
    log_start_offset: Annotated[Int64, V("5+")] = -1
    diverging_epoch: Annotated[EpochEndOffset, V("12+", tag=0)] = DEFAULT
    current_leader: Annotated[LeaderIdAndEpoch, V("12+", tag=1)] = DEFAULT
    snapshot_id: Annotated[SnapshotId, V("12+", tag=2)] = DEFAULT
    aborted_transactions: Annotated[Sequence[AbortedTransaction] | None, V("4+", nullable="4+")] = ()
    preferred_read_replica: Annotated[Int32, V("11+")] = -1
    records: Annotated[Records | None, V(nullable="0+")]


class FetchableTopicResponse(Struct):
    """The records of one topic."""

    topic: Annotated[String, V("0-12")] = ""
    topic_id: Annotated[Uuid, V("13+")] = ZERO_UUID
    partitions: Sequence[PartitionData]


class NodeEndpoint(Struct):
    """Where a leader named in the response is to be reached."""

    node_id: Int32
    host: String
    port: Int32
    rack: Annotated[String | None, V(nullable="0+")] = None


class FetchResponse(Response, api_key=ApiKey.FETCH, versions="0-18", flexible="12+"):
    """The records of all partitions."""

    throttle_time_ms: Annotated[Int32, V("1+")] = 0
    error_code: Annotated[Int16, V("7+")] = 0
    session_id: Annotated[Int32, V("7+")] = 0
    responses: Sequence[FetchableTopicResponse]
    node_endpoints: Annotated[Sequence[NodeEndpoint], V("16+", tag=0)] = ()
