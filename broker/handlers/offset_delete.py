"""OffsetDelete: delete committed offsets of a group.

Behaviour:
- The reply comes when the deletions are committed to __consumer_offsets.
- Partitions that are unknown or denied have their own error. An error of the whole group comes without partitions.
- A topic that the group is subscribed to gets GROUP_SUBSCRIBED_TO_TOPIC.
- A partition that is named twice is answered once.
Versions: 0.
Counterpart in Kafka: KafkaApis.handleOffsetDeleteRequest.
"""

import copy
from collections.abc import Iterable

from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.groups.group_requests import ask, sift
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.broker.requests.authorizer import EVERYBODY, Access, Operation, ResourceType
from ottla.coordinator.group_coordinator import GroupCoordinator
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(
    request: OffsetDeleteRequest,
    context: RequestContext,
    *,
    groups: GroupCoordinator,
    metadata: MetadataCache,
    access: Access = EVERYBODY,
) -> Deferred[OffsetDeleteResponse]:
    """Refuse unknown and denied partitions, and call the group coordinator with the others."""
    if not access.allows(context, Operation.DELETE, ResourceType.GROUP, request.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    names = [topic.name for topic in request.topics]
    readable = access.allowed(context, Operation.READ, ResourceType.TOPIC, names)
    known, unknown = sift((topic for topic in request.topics if topic.name in readable), metadata)
    refused: dict[str, list[OffsetDeleteResponsePartition]] = {}
    for topic in request.topics:
        if topic.name not in readable:
            indexes = (each.partition_index for each in topic.partitions)
            refused.setdefault(topic.name, []).extend(_partitions(indexes, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    for name, missing in unknown.items():
        refused[name] = _partitions(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def joined(response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if response.error_code == ErrorCode.NONE:
            for topic in response.topics:
                topic.partitions = [*refused.pop(topic.name, ()), *topic.partitions]
            others = [OffsetDeleteResponseTopic(name=name, partitions=each) for name, each in refused.items()]
            response.topics = [*others, *response.topics]
        return response

    request = copy.copy(request)
    request.topics = _named_once(known)
    return ask(groups.offset_delete, request).map(joined)


def error_response(request: OffsetDeleteRequest, version: int, code: ErrorCode) -> OffsetDeleteResponse:
    """Return the error for the whole request."""
    return OffsetDeleteResponse(error_code=code, topics=())


def _named_once(topics: Iterable[OffsetDeleteRequestTopic]) -> list[OffsetDeleteRequestTopic]:
    """Return the topics and their partitions without repetitions, because Kafka answers each known partition once."""
    found: dict[str, dict[int, OffsetDeleteRequestPartition]] = {}
    for topic in topics:
        found.setdefault(topic.name, {}).update({each.partition_index: each for each in topic.partitions})
    return [OffsetDeleteRequestTopic(name=name, partitions=list(each.values())) for name, each in found.items()]


def _partitions(indexes: Iterable[int], code: ErrorCode) -> list[OffsetDeleteResponsePartition]:
    return [OffsetDeleteResponsePartition(partition_index=index, error_code=code) for index in indexes]
