"""ControlledShutdown, versions 0 to 3: a broker that is about to stop asks the controller to have others lead.

The answer names what it still leads; it asks again until that is nothing.

Counterpart in Kafka: KafkaApis.handleControlledShutdownRequest.
"""

from ottla.broker.controller.broker_requests import BrokersResponse, refusal
from ottla.broker.controller.controller import Controller
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.controlled_shutdown import ControlledShutdownRequest


def handle(
    request: ControlledShutdownRequest, context: RequestContext, *, controller: Controller
) -> Deferred[BrokersResponse]:
    """Have it done in the controller's turn."""
    return controller.ask(request, context.api_version)


def error_response(request: ControlledShutdownRequest, version: int, code: ErrorCode) -> BrokersResponse:
    """One error for the whole."""
    return refusal(request, code)
