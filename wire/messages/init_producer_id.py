"""InitProducerId: a producer id and epoch, for idempotence or for a transactional id.

0   the first form
1   the client waits out the throttle time itself
2   flexible
3   a producer may go on with the id and epoch it has
4   may answer PRODUCER_FENCED
5   may answer TRANSACTION_ABORTABLE
6   two-phase commit: the prepared transaction may be kept
"""

from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, V
from ottla.wire.types import Bool, Int16, Int32, Int64, String


class InitProducerIdRequest(Request, api_key=ApiKey.INIT_PRODUCER_ID, versions="0-6", flexible="2+"):
    """Get a producer id; `transactional_id` is null for a producer that is only idempotent."""

    transactional_id: Annotated[String | None, V(nullable="0+")]
    transaction_timeout_ms: Int32
    producer_id: Annotated[Int64, V("3+")] = -1
    producer_epoch: Annotated[Int16, V("3+")] = -1
    enable2_pc: Annotated[Bool, V("6+")] = False
    keep_prepared_txn: Annotated[Bool, V("6+")] = False


class InitProducerIdResponse(Response, api_key=ApiKey.INIT_PRODUCER_ID, versions="0-6", flexible="2+"):
    """The producer id and epoch."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    producer_id: Int64 = -1
    producer_epoch: Int16
    ongoing_txn_producer_id: Annotated[Int64, V("6+")] = -1
    ongoing_txn_producer_epoch: Annotated[Int16, V("6+")] = -1
