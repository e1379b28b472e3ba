"""StopReplica, versions 1 to 4: the controller says which replicas this broker stops, and which it deletes.

Counterpart in Kafka: KafkaApis.handleStopReplicaRequest.
"""

from collections.abc import Callable
from typing import Final

from ottla.broker.replica_manager import ReplicaManager
from ottla.broker.request_context import Deferred, RequestContext
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse

_UNKNOWN_BROKER_EPOCH: Final = -1


def handle(
    request: StopReplicaRequest, context: RequestContext, *, replicas: ReplicaManager, broker_epoch: Callable[[], int]
) -> StopReplicaResponse | Deferred[StopReplicaResponse]:
    """Stop replicas, unless that was meant for an earlier life of this broker."""
    if request.broker_epoch != _UNKNOWN_BROKER_EPOCH and request.broker_epoch < broker_epoch():
        return error_response(request, context.api_version, ErrorCode.STALE_BROKER_EPOCH)
    return replicas.stop_replica(request)


def error_response(request: StopReplicaRequest, version: int, code: ErrorCode) -> StopReplicaResponse:
    """No replica is stopped."""
    return StopReplicaResponse(error_code=code, partition_errors=())
