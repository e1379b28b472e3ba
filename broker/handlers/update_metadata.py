"""UpdateMetadata, versions 0 to 8: the controller says which brokers there are, and who leads.

Counterpart in Kafka: KafkaApis.handleUpdateMetadataRequest, ReplicaManager.maybeUpdateMetadataCache.
"""

from collections.abc import Callable, Collection

from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.cluster.topic_configs import TopicConfigs
from ottla.broker.net.session import RequestContext
from ottla.broker.replicas.controller_fence import ControllerFence
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


def handle(
    request: UpdateMetadataRequest,
    context: RequestContext,
    *,
    metadata: MetadataCache,
    fence: ControllerFence,
    topic_configs: TopicConfigs,
    changed: Callable[[Collection[str]], None],
) -> UpdateMetadataResponse:
    """Take in what the controller tells; `changed` is told of which topics."""
    refusal = fence.refusal(request)
    if refusal is not None:
        return error_response(request, context.api_version, refusal)
    fence.admit(request)
    gone = metadata.update(request)
    topic_configs.forget({partition.topic for partition in gone if not metadata.contains(partition.topic)})
    topics = {topic.topic_name for topic in request.topic_states}
    topics.update(state.topic_name for state in request.ungrouped_partition_states)
    changed(topics)
    return UpdateMetadataResponse(error_code=ErrorCode.NONE)


def error_response(request: UpdateMetadataRequest, version: int, code: ErrorCode) -> UpdateMetadataResponse:
    """Nothing is taken in."""
    return UpdateMetadataResponse(error_code=code)
