"""AddOffsetsToTxn: put the partition of __consumer_offsets that keeps a group's offsets into a transaction.

Behaviour:
- The reply comes when the partition is committed to __transaction_state.
- The first request creates __consumer_offsets if nothing else did, and gets COORDINATOR_NOT_AVAILABLE, which clients
  retry. Kafka adds the partition before it exists.
Versions: 0 to 4. From 2 PRODUCER_FENCED (INVALID_PRODUCER_EPOCH before).
Counterpart in Kafka: KafkaApis.handleAddOffsetsToTxnRequest.
"""

from collections.abc import Callable, Iterable
from typing import Final

from ottla.broker.cluster.topic_names import GROUP_METADATA_TOPIC
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.coordinator.transaction_coordinator import TransactionCoordinator
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.types import TopicPartition

_FENCED_FROM_VERSION: Final = 2
_OF_CLIENTS: Final = 0


def handle(
    request: AddOffsetsToTxnRequest,
    context: RequestContext,
    *,
    transactions: TransactionCoordinator,
    partition_for: Callable[[str], int | None],
    create: Callable[[Iterable[str]], object],
) -> AddOffsetsToTxnResponse | Deferred[AddOffsetsToTxnResponse]:
    """Call the transaction coordinator.

    `partition_for` returns the group's partition of __consumer_offsets, None until `create` has created the topic.
    """
    index = partition_for(request.group_id)
    if index is None:
        # A producer without a consumer looks for the group's coordinator only afterwards.
        create([GROUP_METADATA_TOPIC])
        return AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    reply: Deferred[AddOffsetsToTxnResponse] = Deferred(applied=False)
    transactions.add_partitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [TopicPartition(GROUP_METADATA_TOPIC, index)],
        _OF_CLIENTS,
        lambda code: reply.complete(error_response(request, context.api_version, code)),
    )
    return reply


def error_response(request: AddOffsetsToTxnRequest, version: int, code: ErrorCode) -> AddOffsetsToTxnResponse:
    """Return the error."""
    if code is ErrorCode.PRODUCER_FENCED and version < _FENCED_FROM_VERSION:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(error_code=code)
