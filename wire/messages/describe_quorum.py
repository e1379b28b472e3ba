"""DescribeQuorum: the controllers of a KRaft cluster, and how far each is in the metadata log.

0   the first form
1   when a replica fetched last, and when it was at the end of the log
2   error messages; ids of directories; the nodes with their listeners
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Int16, Int32, Int64, String, UInt16, Uuid


class RequestedPartition(Struct, kafka_name="PartitionData"):
    """A partition to describe."""

    partition_index: Int32


class RequestedTopic(Struct, kafka_name="TopicData"):
    """Partitions of a topic."""

    topic_name: String
    partitions: Sequence[RequestedPartition]


class DescribeQuorumRequest(Request, api_key=ApiKey.DESCRIBE_QUORUM, versions="0-2", flexible="0+"):
    """Describe quorums; the one there is has the topic __cluster_metadata and the partition 0."""

    topics: Sequence[RequestedTopic]


class ReplicaState(Struct):
    """How far a replica is; times are in milliseconds by the leader's clock, -1 if unknown."""

    replica_id: Int32
    replica_directory_id: Annotated[Uuid, V("2+")] = bytes(16)
    log_end_offset: Int64
    last_fetch_timestamp: Annotated[Int64, V("1+")] = -1
    last_caught_up_timestamp: Annotated[Int64, V("1+")] = -1


class PartitionData(Struct):
    """A quorum: its leader, its voters and its observers."""

    partition_index: Int32
    error_code: Int16
    error_message: Annotated[String | None, V("2+", nullable="2+")] = ""
    leader_id: Int32
    leader_epoch: Int32
    high_watermark: Int64
    current_voters: Sequence[ReplicaState]
    observers: Sequence[ReplicaState]


class TopicData(Struct):
    """The quorums of a topic."""

    topic_name: String
    partitions: Sequence[PartitionData]


class Listener(Struct):
    """An address of a node."""

    name: String
    host: String
    port: UInt16


class Node(Struct):
    """A node of the quorum."""

    node_id: Int32
    listeners: Sequence[Listener]


class DescribeQuorumResponse(Response, api_key=ApiKey.DESCRIBE_QUORUM, versions="0-2", flexible="0+"):
    """The quorums."""

    error_code: Int16
    error_message: Annotated[String | None, V("2+", nullable="2+")] = ""
    topics: Sequence[TopicData]
    nodes: Annotated[Sequence[Node], V("2+")] = ()
