"""ListTransactions: the transactional ids that this broker coordinates.

Behaviour:
- The ids that the client may not describe are left out.
- While a partition of __transaction_state is loading, COORDINATOR_LOAD_IN_PROGRESS stands in the place of all ids.
- Filters that name no state are returned.
Versions: 0 to 1. From 1 the least duration of a transaction.
Counterpart in Kafka: KafkaApis.handleListTransactionsRequest.
"""

from ottla.broker.net.session import RequestContext
from ottla.broker.requests.authorizer import Access, Operation, ResourceType
from ottla.coordinator.transaction_coordinator import TransactionCoordinator
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse


def handle(
    request: ListTransactionsRequest, context: RequestContext, *, transactions: TransactionCoordinator, access: Access
) -> ListTransactionsResponse:
    """Return the ids that pass all filters."""
    response = transactions.list_transactions(request)
    names = [each.transactional_id for each in response.transaction_states]
    shown = access.allowed(context, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, names, log_denial=False)
    response.transaction_states = [each for each in response.transaction_states if each.transactional_id in shown]
    return response


def error_response(request: ListTransactionsRequest, version: int, code: ErrorCode) -> ListTransactionsResponse:
    """Return the error without any id."""
    return ListTransactionsResponse(error_code=code, unknown_state_filters=(), transaction_states=())
