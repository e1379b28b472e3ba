"""Produce: append records to partitions.

0   the first form
1   throttle time
2   log append time
3   transactional id; record batches (format v2) only
4   may answer KAFKA_STORAGE_ERROR
5   log start offset
6   the client waits out the throttle time itself
7   records may be compressed with zstd
8   record errors and an error message
9   flexible
10  current leader and node endpoints where the leader has moved
11  may answer TRANSACTION_ABORTABLE
12  in a transaction, adds its partitions to it (transactions v2)
13  topic ids instead of names
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import DEFAULT, Request, Response, Struct, V
from ottla.wire.types import ZERO_UUID, Int16, Int32, Int64, Records, String, Uuid


class PartitionProduceData(Struct):
    """The records for one partition."""

    index: Int32
    records: Annotated[Records | None, V(nullable="0+")]


class TopicProduceData(Struct):
    """The records for one topic."""

    name: Annotated[String, V("0-12")] = ""
    topic_id: Annotated[Uuid, V("13+")] = ZERO_UUID
    partition_data: Sequence[PartitionProduceData]


class ProduceRequest(Request, api_key=ApiKey.PRODUCE, versions="0-13", flexible="9+"):
    """Append records. `acks` 0 wants no reply, 1 waits for the leader, -1 for all in-sync replicas."""

    transactional_id: Annotated[String | None, V("3+", nullable="3+")] = None
    acks: Int16
    timeout_ms: Int32
    topic_data: Sequence[TopicProduceData]


class BatchIndexAndErrorMessage(Struct):
    """A record because of which its batch was refused."""

    batch_index: Int32
    batch_index_error_message: Annotated[String | None, V(nullable="0+")] = None


class LeaderIdAndEpoch(Struct):
    """The leader to turn to from now on; -1 where it is not known."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class PartitionProduceResponse(Struct):
    """The result for the records for one partition."""

    index: Int32
    error_code: Int16
    base_offset: Int64
    log_append_time_ms: Annotated[Int64, V("2+")] = -1
    log_start_offset: Annotated[Int64, V("5+")] = -1
    record_errors: Annotated[Sequence[BatchIndexAndErrorMessage], V("8+")] = ()
    error_message: Annotated[String | None, V("8+", nullable="8+")] = None
    current_leader: Annotated[LeaderIdAndEpoch, V("10+", tag=0)] = DEFAULT


class TopicProduceResponse(Struct):
    """The result for the records for one topic."""

    name: Annotated[String, V("0-12")] = ""
    topic_id: Annotated[Uuid, V("13+")] = ZERO_UUID
    partition_responses: Sequence[PartitionProduceResponse]


class NodeEndpoint(Struct):
    """Where a leader named in the response is to be reached."""

    node_id: Int32
    host: String
    port: Int32
    rack: Annotated[String | None, V(nullable="0+")] = None


class ProduceResponse(Response, api_key=ApiKey.PRODUCE, versions="0-13", flexible="9+"):
    """The results for the records."""

    responses: Sequence[TopicProduceResponse]
    throttle_time_ms: Annotated[Int32, V("1+")] = 0
    node_endpoints: Annotated[Sequence[NodeEndpoint], V("10+", tag=0)] = ()
