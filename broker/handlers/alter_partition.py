"""AlterPartition, versions 0 to 3: a leader asks this broker, as the controller, for other in-sync replicas.

Counterpart in Kafka: KafkaApis.handleAlterPartitionRequest.
"""

from ottla.broker.controller.broker_requests import BrokersResponse, refusal
from ottla.broker.controller.controller import Controller
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_partition import AlterPartitionRequest


def handle(
    request: AlterPartitionRequest, context: RequestContext, *, controller: Controller
) -> Deferred[BrokersResponse]:
    """Have it done in the controller's turn."""
    return controller.ask(request, context.api_version)


def error_response(request: AlterPartitionRequest, version: int, code: ErrorCode) -> BrokersResponse:
    """One error for the whole."""
    return refusal(request, code)
