"""DescribeTransactions: the state of transactional ids.

Behaviour:
- Each id has its own error: TRANSACTIONAL_ID_NOT_FOUND, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
- Partitions of topics that the client may not describe are left out.
Versions: 0.
Counterpart in Kafka: KafkaApis.handleDescribeTransactionsRequest.
"""

from ottla.broker.net.session import RequestContext
from ottla.broker.requests.authorizer import Access, Operation, ResourceType
from ottla.coordinator.transaction_coordinator import TransactionCoordinator
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


def handle(
    request: DescribeTransactionsRequest,
    context: RequestContext,
    *,
    transactions: TransactionCoordinator,
    access: Access,
) -> DescribeTransactionsResponse:
    """Return the state of each id."""
    states = [transactions.describe(each) for each in request.transactional_ids]
    for state in states:
        names = [topic.topic for topic in state.topics]
        shown = access.allowed(context, Operation.DESCRIBE, ResourceType.TOPIC, names, log_denial=False)
        state.topics = [topic for topic in state.topics if topic.topic in shown]
    return DescribeTransactionsResponse(transaction_states=states)


def error_response(request: DescribeTransactionsRequest, version: int, code: ErrorCode) -> DescribeTransactionsResponse:
    """Return the error for each id."""
    return DescribeTransactionsResponse(
        transaction_states=[
            TransactionState(
                error_code=code,
                transactional_id=each,
                transaction_state="",
                transaction_timeout_ms=0,
                transaction_start_time_ms=0,
                producer_id=0,
                producer_epoch=0,
                topics=(),
            )
            for each in request.transactional_ids
        ]
    )
