"""AllocateProducerIds, version 0: a broker asks this one, as the controller, for producer ids that nobody ever had.

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
    """Have it done in the controller's turn."""
    return controller.ask(request, context.api_version)


def error_response(request: AllocateProducerIdsRequest, version: int, code: ErrorCode) -> BrokersResponse:
    """One error for the whole."""
    return refusal(request, code)
