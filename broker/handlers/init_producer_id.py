"""InitProducerId, versions 0 to 5: a producer id for an idempotent producer.

An id and epoch that the producer had before (KIP-360) mean nothing without a transactional id: it gets a new id.

Deviations: there are no transactions yet, so a transactional id is answered COORDINATOR_NOT_AVAILABLE. Clients look for
the coordinator then, and FindCoordinator says why there is none.
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
    """Give a new producer id."""
    code = _refusal(request, transaction_max_timeout_ms)
    if code is not None:
        return error_response(request, context.api_version, code)
    producer_id = producer_ids.next()
    if not isinstance(producer_id, Deferred):
        return _given(producer_id)
    deferred: Deferred[InitProducerIdResponse] = Deferred(applied=False, on_abandon=producer_id.abandon)
    producer_id.then(lambda given: deferred.complete(_given(given)), deferred.close)
    return deferred


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
    """No producer id."""
    return InitProducerIdResponse(error_code=code, producer_id=_NONE, producer_epoch=_NONE)


def _given(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)
