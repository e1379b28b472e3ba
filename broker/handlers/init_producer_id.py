"""InitProducerId: a producer id for an idempotent producer.

Behaviour:
- Every producer gets a new id with epoch 0, also one that had an id and epoch before (KIP-360), because these mean
  nothing without a transactional id.
- If this broker has no id left, the reply waits until it has taken a block of ids.
Deviations: There are no transactions yet. A transactional id gets COORDINATOR_NOT_AVAILABLE, so that the client asks
FindCoordinator, whose response has the reason.
Versions: 0 to 5. From 3 the id and epoch that the producer had.
Counterpart in Kafka: KafkaApis.handleInitProducerIdRequest, TransactionCoordinator.handleInitProducerId.
"""

from typing import Final

from ottla.broker.cluster.producer_ids import ProducerIds
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_NONE: Final = -1


def handle(
    request: InitProducerIdRequest,
    context: RequestContext,
    *,
    producer_ids: ProducerIds,
    transaction_max_timeout_ms: int,
) -> InitProducerIdResponse | Deferred[InitProducerIdResponse]:
    """Return a new producer id, or an error."""
    code = _refusal(request, transaction_max_timeout_ms)
    if code is not None:
        return error_response(request, context.api_version, code)
    producer_id = producer_ids.next()
    if not isinstance(producer_id, Deferred):
        return _response(producer_id)
    return producer_id.map(_response)


def _refusal(request: InitProducerIdRequest, max_timeout_ms: int) -> ErrorCode | None:
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is None:
        return None
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if not 0 < request.transaction_timeout_ms <= max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.COORDINATOR_NOT_AVAILABLE


def error_response(request: InitProducerIdRequest, version: int, code: ErrorCode) -> InitProducerIdResponse:
    """Return the error without a producer id."""
    return InitProducerIdResponse(error_code=code, producer_id=_NONE, producer_epoch=_NONE)


def _response(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)
