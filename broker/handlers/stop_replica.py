"""StopReplica, versions 0 to 4: the controller says which replicas this broker stops, and which it deletes.

Counterpart in Kafka: KafkaApis.handleStopReplicaRequest.
"""

from collections.abc import Callable
from typing import Final

from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.broker.replicas.manager import ReplicaManager
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse

_UNKNOWN_BROKER_EPOCH: Final = -1


def handle(
    request: StopReplicaRequest, context: RequestContext, *, replicas: ReplicaManager, broker_epoch: Callable[[], int]
) -> StopReplicaResponse | Deferred[StopReplicaResponse]:
    """Stop replicas, unless that was meant for an earlier life of this broker."""
    if request.broker_epoch != _UNKNOWN_BROKER_EPOCH and request.broker_epoch < broker_epoch():
        return StopReplicaResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, partition_errors=())
    return replicas.stop_replica(request)


def error_response(request: StopReplicaRequest, version: int, code: ErrorCode) -> StopReplicaResponse:
    """No replica is stopped."""
    named = [(each.topic_name, each.partition_index) for each in request.ungrouped_partitions]
    named += [(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    named += [
        (topic.topic_name, each.partition_index) for topic in request.topic_states for each in topic.partition_states
    ]
    errors = [StopReplicaPartitionError(topic_name=name, partition_index=at, error_code=code) for name, at in named]
    return StopReplicaResponse(error_code=code, partition_errors=errors)
