"""AlterPartition: a leader asks the controller for another set of in-sync replicas.

Behaviour:
- The reply comes when the state is kept by the store. It names the state in force, also if that was asked for before.
- Of a partition that is named twice, the last entry counts.
- A leader of an older epoch gets FENCED_LEADER_EPOCH, one of an older partition epoch INVALID_UPDATE_VERSION.
Deviations: A broker that is not the leader gets INVALID_REQUEST, as in KRaft mode; so do replicas that the partition
does not have.
Versions: 0 to 3. From 1 the leader recovery state; from 2 topic ids instead of names, and INELIGIBLE_REPLICA for a
replica that is not live (OPERATION_NOT_ATTEMPTED before); from 3 the broker epochs of the replicas, which are not used.
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
    """Put the request into the controller's queue."""
    return controller.ask(request, context.api_version)


def error_response(request: AlterPartitionRequest, version: int, code: ErrorCode) -> BrokersResponse:
    """Return the error, for the whole request."""
    return refusal(request, code)
