"""EndTxn: commit or abort a transaction.

0   the first form
1   the client waits out the throttle time itself
2   may answer PRODUCER_FENCED
3   flexible
4   may answer TRANSACTION_ABORTABLE
5   each transaction has an epoch of its own (transactions v2)
"""

from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, V
from ottla.wire.types import Bool, Int16, Int32, Int64, String


class EndTxnRequest(Request, api_key=ApiKey.END_TXN, versions="0-5", flexible="3+"):
    """End the transaction; `committed` is false to abort it."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


class EndTxnResponse(Response, api_key=ApiKey.END_TXN, versions="0-5", flexible="3+"):
    """Whether the transaction was committed or aborted; from version 5 the id and epoch of its producer's next one."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    producer_id: Annotated[Int64, V("5+")] = -1
    producer_epoch: Annotated[Int16, V("5+")] = -1
