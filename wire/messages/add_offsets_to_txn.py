"""AddOffsetsToTxn: a transaction is about to commit offsets of a group.

0   the first form
1   the client waits out the throttle time itself
2   may answer PRODUCER_FENCED
3   flexible
4   may answer TRANSACTION_ABORTABLE
"""

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response
from ottla.wire.types import Int16, Int32, Int64, String


class AddOffsetsToTxnRequest(Request, api_key=ApiKey.ADD_OFFSETS_TO_TXN, versions="0-4", flexible="3+"):
    """Add the group's partition of __consumer_offsets to the transaction."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


class AddOffsetsToTxnResponse(Response, api_key=ApiKey.ADD_OFFSETS_TO_TXN, versions="0-4", flexible="3+"):
    """Whether it was added."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
