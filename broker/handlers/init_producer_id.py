"""InitProducerId: a producer id for an idempotent or a transactional producer.

Behaviour:
- Without a transactional id, every producer gets a new id with epoch 0, also one that had an id and epoch before
  (KIP-360), because these mean nothing then. If this broker has no id left, the reply waits for a block of ids.
- With one, the transaction coordinator answers: it fences earlier producers of the transactional id, and aborts their
  open transaction.
Versions: 0 to 5. From 3 the id and epoch that the producer had; from 4 PRODUCER_FENCED (INVALID_PRODUCER_EPOCH before).
Counterpart in Kafka: KafkaApis.handleInitProducerIdRequest, TransactionCoordinator.handleInitProducerId.
"""

from typing import Final

from ottla.broker.cluster.producer_ids import ProducerIds
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.coordinator.transaction_coordinator import TransactionCoordinator
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_NONE: Final = -1


def handle(
    request: InitProducerIdRequest,
    context: RequestContext,
    *,
    producer_ids: ProducerIds,
    transactions: TransactionCoordinator,
) -> InitProducerIdResponse | Deferred[InitProducerIdResponse]:
    """Return a producer id and its epoch, or an error."""
    if request.transactional_id is not None:
        reply: Deferred[InitProducerIdResponse] = Deferred(applied=False)
        transactions.init_producer_id(request, context.api_version, reply.complete)
        return reply
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        return error_response(request, context.api_version, ErrorCode.INVALID_REQUEST)
    producer_id = producer_ids.next()
    if not isinstance(producer_id, Deferred):
        return _response(producer_id)
    return producer_id.map(_response)


def error_response(request: InitProducerIdRequest, version: int, code: ErrorCode) -> InitProducerIdResponse:
    """Return the error without a producer id."""
    return InitProducerIdResponse(error_code=code, producer_id=_NONE, producer_epoch=_NONE)


def _response(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)
