"""StopReplica, versions 0 to 4: the controller says which replicas this broker stops, and which it deletes.

Counterpart in Kafka: KafkaApis.handleStopReplicaRequest.
"""

from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.broker.replicas.controller_fence import ControllerFence
from ottla.broker.replicas.manager import ReplicaManager
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse


def handle(
    request: StopReplicaRequest, context: RequestContext, *, replicas: ReplicaManager, fence: ControllerFence
) -> StopReplicaResponse | Deferred[StopReplicaResponse]:
    """Stop replicas, unless the request is for an earlier life of this broker, or from a former controller."""
    refusal = fence.refusal(request)
    if refusal is not None:
        return StopReplicaResponse(error_code=refusal, partition_errors=())
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
