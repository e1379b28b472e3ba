"""UpdateMetadata, versions 0 to 8: the controller says which brokers there are, and who leads.

Counterpart in Kafka: KafkaApis.handleUpdateMetadataRequest, ReplicaManager.maybeUpdateMetadataCache.
"""

from collections.abc import Callable, Collection
from typing import Final

from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.cluster.topic_configs import TopicConfigs
from ottla.broker.net.session import RequestContext
from ottla.broker.replicas.manager import ReplicaManager
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

_UNKNOWN_BROKER_EPOCH: Final = -1


def handle(
    request: UpdateMetadataRequest,
    context: RequestContext,
    *,
    metadata: MetadataCache,
    replicas: ReplicaManager,
    topic_configs: TopicConfigs,
    broker_epoch: Callable[[], int],
    changed: Callable[[Collection[str]], None],
) -> UpdateMetadataResponse:
    """Take in what the controller tells; `changed` is told of which topics."""
    if request.broker_epoch != _UNKNOWN_BROKER_EPOCH and request.broker_epoch < broker_epoch():
        return error_response(request, context.api_version, ErrorCode.STALE_BROKER_EPOCH)
    if request.controller_epoch < replicas.controller_epoch:
        return error_response(request, context.api_version, ErrorCode.STALE_CONTROLLER_EPOCH)
    replicas.controller_epoch = request.controller_epoch
    gone = metadata.update(request)
    topic_configs.forget({partition.topic for partition in gone if not metadata.contains(partition.topic)})
    topics = {topic.topic_name for topic in request.topic_states}
    topics.update(state.topic_name for state in request.ungrouped_partition_states)
    changed(topics)
    return UpdateMetadataResponse(error_code=ErrorCode.NONE)


def error_response(request: UpdateMetadataRequest, version: int, code: ErrorCode) -> UpdateMetadataResponse:
    """Nothing is taken in."""
    return UpdateMetadataResponse(error_code=code)
