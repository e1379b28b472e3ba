"""ControlledShutdown: a broker that is about to stop asks the controller to move its leaderships away.

Behaviour:
- The response names the partitions that the broker still leads. The broker asks again until there are none.
- The replicas of the broker that follow are stopped, and leave the in-sync replicas.
- A broker that is not the controller returns STALE_CONTROLLER_EPOCH.
Versions: 0 to 3. In 0 the header has no client id; from 2 the broker epoch.
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
    """Put the request into the controller's queue."""
    return controller.ask(request, context.api_version)


def error_response(request: ControlledShutdownRequest, version: int, code: ErrorCode) -> BrokersResponse:
    """Return the error, for the whole request."""
    return refusal(request, code)
