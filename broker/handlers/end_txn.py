"""EndTxn: commit or abort a transaction.

Behaviour:
- The reply comes when the decision is committed to __transaction_state, before any partition has its marker.
- The same request again gets the same answer, the opposite one INVALID_TXN_STATE.
Versions: 0 to 4. From 2 PRODUCER_FENCED (INVALID_PRODUCER_EPOCH before).
Counterpart in Kafka: KafkaApis.handleEndTxnRequest.
"""

from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.coordinator.transaction_coordinator import TransactionCoordinator
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse


def handle(
    request: EndTxnRequest, context: RequestContext, *, transactions: TransactionCoordinator
) -> Deferred[EndTxnResponse]:
    """Call the transaction coordinator."""
    reply: Deferred[EndTxnResponse] = Deferred(applied=False)
    transactions.end_transaction(request, context.api_version, reply.complete)
    return reply


def error_response(request: EndTxnRequest, version: int, code: ErrorCode) -> EndTxnResponse:
    """Return the error."""
    return EndTxnResponse(error_code=code)
