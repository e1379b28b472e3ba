"""Transactional ids as the responses of requests show them.

Owns these parts of responses. Must not know a decision. Counterparts in Kafka:
TransactionCoordinator.handleDescribeTransactions, TransactionStateManager.listTransactionStates.
"""

from ottla.coordinator.transaction import NO_PRODUCER_ID, PREPARED, TransactionalId
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_transactions import TopicData
from ottla.wire.messages.describe_transactions import TransactionState as DescribedTransaction
from ottla.wire.messages.init_producer_id import InitProducerIdResponse
from ottla.wire.messages.list_transactions import TransactionState as ListedTransaction
from ottla.wire.types import NO_EPOCH


def init_error(error: ErrorCode) -> InitProducerIdResponse:
    """Return the response to a refused InitProducerId."""
    return InitProducerIdResponse(error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH)


def described(known: TransactionalId) -> DescribedTransaction:
    """Return where a transaction stands. While it ends, its partitions are those without a marker."""
    transaction = known.transaction
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(known.unmarked if transaction.state in PREPARED else transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    return DescribedTransaction(
        error_code=ErrorCode.NONE,
        transactional_id=known.name,
        transaction_state=transaction.state.value,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[TopicData(topic=topic, partitions=numbers) for topic, numbers in topics.items()],
    )


def described_error(name: str, error: ErrorCode) -> DescribedTransaction:
    """Return the description of a transactional id that cannot be described."""
    return DescribedTransaction(
        error_code=error,
        transactional_id=name,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=(),
    )


def listed(known: TransactionalId) -> ListedTransaction:
    """Return a transactional id as it stands in a list."""
    transaction = known.transaction
    return ListedTransaction(
        transactional_id=known.name, producer_id=transaction.producer_id, transaction_state=transaction.state.value
    )
