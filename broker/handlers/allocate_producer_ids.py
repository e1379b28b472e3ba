"""AllocateProducerIds: a broker takes a block of producer ids from the controller.

Behaviour:
- The block is kept in the store before the reply, so that no id is given twice.
- An unknown broker gets BROKER_ID_NOT_REGISTERED, an earlier life of a broker STALE_BROKER_EPOCH.
Versions: 0.
Counterpart in Kafka: KafkaApis.handleAllocateProducerIdsRequest.
"""

from ottla.broker.controller.broker_requests import BrokersResponse, refusal
from ottla.broker.controller.controller import Controller
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest


def handle(
    request: AllocateProducerIdsRequest, context: RequestContext, *, controller: Controller
) -> Deferred[BrokersResponse]:
    """Put the request into the controller's queue."""
    return controller.ask(request, context.api_version)


def error_response(request: AllocateProducerIdsRequest, version: int, code: ErrorCode) -> BrokersResponse:
    """Return the error, for the whole request."""
    return refusal(request, code)
