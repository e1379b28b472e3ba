"""LeaderAndIsr: the controller tells this broker which partitions it leads and which it follows.

Behaviour:
- The reply comes when all roles are taken. Logs of new topics are made with the topics' configs, which are read first.
- A request for an earlier life of this broker, or of a former controller, changes nothing and is refused as a whole.
Deviations: Partitions of a name that no topic may have get INVALID_TOPIC_EXCEPTION. The others are served.
Versions: 0 to 7. From 1 is_new; from 2 the broker epoch, and partitions by topic; from 3 replicas that join and leave;
from 5 topic ids, in the response instead of names; from 6 the leader recovery state; from 7 the kind of controller.
Counterpart in Kafka: KafkaApis.handleLeaderAndIsrRequest.
"""

from ottla.broker.cluster.topic_configs import TopicConfigs
from ottla.broker.cluster.topic_names import name_fault
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.broker.replicas.controller_fence import ControllerFence
from ottla.broker.replicas.manager import ReplicaManager
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)


def handle(
    request: LeaderAndIsrRequest,
    context: RequestContext,
    *,
    replicas: ReplicaManager,
    topic_configs: TopicConfigs,
    fence: ControllerFence,
) -> LeaderAndIsrResponse | Deferred[LeaderAndIsrResponse]:
    """Take the roles, unless the request is for an earlier life of this broker or of a former controller."""
    refusal = fence.refusal(request)
    if refusal is not None:
        return error_response(request, context.api_version, refusal)
    topics = {topic.topic_name for topic in request.topic_states}
    topics.update(state.topic_name for state in request.ungrouped_partition_states)
    missing = [name for name in topic_configs.missing(topics) if name_fault(name) is None]
    if not missing:
        return replicas.become_leader_or_follower(request)
    reply: Deferred[LeaderAndIsrResponse] = Deferred(applied=False)
    # No request overtakes this one, because the controller sends the next one after the response.
    topic_configs.read(missing, lambda: replicas.become_leader_or_follower(request).then(reply.complete))
    return reply


def error_response(request: LeaderAndIsrRequest, version: int, code: ErrorCode) -> LeaderAndIsrResponse:
    """Return the error for the whole request and for each partition."""
    by_id = []
    for topic in request.topic_states:
        errors = [
            LeaderAndIsrPartitionError(
                topic_name=topic.topic_name, partition_index=each.partition_index, error_code=code
            )
            for each in topic.partition_states
        ]
        by_id.append(LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=errors))
    by_name = [
        LeaderAndIsrPartitionError(topic_name=each.topic_name, partition_index=each.partition_index, error_code=code)
        for each in request.ungrouped_partition_states
    ]
    by_name += [error for topic_error in by_id for error in topic_error.partition_errors]
    return LeaderAndIsrResponse(error_code=code, partition_errors=by_name, topics=by_id)
