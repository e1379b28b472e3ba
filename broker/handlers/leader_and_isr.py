"""LeaderAndIsr, versions 0 to 7: the controller says which partitions this broker leads and which it follows.

Before that happens the configs of topics that are new here are read, because their logs are made with them.
Differs from Kafka: a name that no topic may have is refused, with INVALID_TOPIC_EXCEPTION for its partitions.
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
    """Take the roles given, unless they are for an earlier life of this broker or from a former controller."""
    refusal = fence.refusal(request)
    if refusal is not None:
        return error_response(request, context.api_version, refusal)
    topics = {topic.topic_name for topic in request.topic_states}
    topics.update(state.topic_name for state in request.ungrouped_partition_states)
    missing = [name for name in topic_configs.missing(topics) if name_fault(name) is None]
    if not missing:
        return replicas.become_leader_or_follower(request)
    reply: Deferred[LeaderAndIsrResponse] = Deferred(applied=False)
    # The controller sends the next request when it has the answer to this one, so that none overtakes another.
    topic_configs.read(missing, lambda: replicas.become_leader_or_follower(request).then(reply.complete))
    return reply


def error_response(request: LeaderAndIsrRequest, version: int, code: ErrorCode) -> LeaderAndIsrResponse:
    """No role is taken."""
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
