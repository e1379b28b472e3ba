"""StopReplica: the controller tells this broker which replicas to stop, and which of them to delete.

Behaviour:
- The reply comes when the replicas are stopped, and the directories of deleted ones are renamed.
- A request for an earlier life of this broker, or of a former controller, changes nothing and is refused as a whole.
- A replica that is not here is no error: its topic may have been deleted while this broker was down.
Versions: 0 to 4. From 1 the broker epoch, and partitions by topic; from 3 the leader epoch and the deletion for each
partition; from 4 the kind of controller.
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
    """Stop replicas, unless the request is for an earlier life of this broker or of a former controller."""
    refusal = fence.refusal(request)
    if refusal is not None:
        return StopReplicaResponse(error_code=refusal, partition_errors=())
    return replicas.stop_replica(request)


def error_response(request: StopReplicaRequest, version: int, code: ErrorCode) -> StopReplicaResponse:
    """Return the error for the whole request and for each replica."""
    named = [(each.topic_name, each.partition_index) for each in request.ungrouped_partitions]
    named += [(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    named += [
        (topic.topic_name, each.partition_index) for topic in request.topic_states for each in topic.partition_states
    ]
    errors = [StopReplicaPartitionError(topic_name=name, partition_index=at, error_code=code) for name, at in named]
    return StopReplicaResponse(error_code=code, partition_errors=errors)
