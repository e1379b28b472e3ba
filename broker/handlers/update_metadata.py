"""UpdateMetadata: the controller tells this broker the brokers and the leaders of the cluster.

Behaviour:
- The response comes when Metadata answers with the new state.
- A request for an earlier life of this broker, or of a former controller, changes nothing.
- The configs of topics that are gone are forgotten.
Versions: 0 to 8. In 0 one host and port for each broker, from 1 its endpoints; from 2 racks; from 3 listener names;
from 4 offline replicas; from 5 the broker epoch, and partitions by topic; from 7 topic ids; from 8 the kind of
controller, and whether the request has all partitions.
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
    """Update the metadata cache, then call `changed` with the names of the topics in the request."""
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
    """Return the error."""
    return UpdateMetadataResponse(error_code=code)
