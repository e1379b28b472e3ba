"""TxnOffsetCommit: commit offsets of a group as part of a transaction.

0   the first form
1   the client waits out the throttle time itself
2   leader epoch of the record before the offset
3   flexible; generation and member; may answer ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID
4   may answer TRANSACTION_ABORTABLE
5   in a transaction, does the work of AddOffsetsToTxn too (transactions v2)
6   topic ids instead of names; may answer STALE_MEMBER_EPOCH, GROUP_ID_NOT_FOUND, UNKNOWN_TOPIC_ID
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import ZERO_UUID, Int16, Int32, Int64, String, Uuid


class TxnOffsetCommitRequestPartition(Struct):
    """The next offset to read in one partition, and text of the client's own to keep with it."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, V("2+")] = -1
    committed_metadata: Annotated[String | None, V(nullable="0+")]


class TxnOffsetCommitRequestTopic(Struct):
    """The offsets for one topic."""

    name: Annotated[String, V("0-5")] = ""
    topic_id: Annotated[Uuid, V("6+")] = ZERO_UUID
    partitions: Sequence[TxnOffsetCommitRequestPartition]


class TxnOffsetCommitRequest(Request, api_key=ApiKey.TXN_OFFSET_COMMIT, versions="0-6", flexible="3+"):
    """Commit offsets when the transaction commits."""

    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id_or_member_epoch: Annotated[Int32, V("3+")] = -1
    member_id: Annotated[String, V("3+")] = ""
    group_instance_id: Annotated[String | None, V("3+", nullable="3+")] = None
    topics: Sequence[TxnOffsetCommitRequestTopic]


class TxnOffsetCommitResponsePartition(Struct):
    """Whether the offset for one partition was taken."""

    partition_index: Int32
    error_code: Int16


class TxnOffsetCommitResponseTopic(Struct):
    """Whether the offsets for one topic were taken."""

    name: Annotated[String, V("0-5")] = ""
    topic_id: Annotated[Uuid, V("6+")] = ZERO_UUID
    partitions: Sequence[TxnOffsetCommitResponsePartition]


class TxnOffsetCommitResponse(Response, api_key=ApiKey.TXN_OFFSET_COMMIT, versions="0-6", flexible="3+"):
    """Whether the offsets were taken."""

    throttle_time_ms: Int32 = 0
    topics: Sequence[TxnOffsetCommitResponseTopic]
