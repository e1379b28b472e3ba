"""DescribeTopicPartitions: topics with their partitions, page by page, sorted by name.

Behaviour:
- A page has as many partitions as client and broker allow, but at least one. Unknown topics do not count.
- If there is more, the response has a cursor for the next page. A topic that is gone by then is passed over.
- There are no eligible leader replicas (ELR), which belong to KRaft.
- A denied topic is in the response only if the client named it.
Deviations: Kafka has this API in KRaft mode only.
Versions: 0.
Counterpart in Kafka: DescribeTopicPartitionsRequestHandler, KRaftMetadataCache.
"""

from typing import Final

from ottla.broker.cluster.metadata_cache import MetadataCache, PartitionMetadata
from ottla.broker.cluster.topic_names import is_internal, name_fault
from ottla.broker.net.session import RequestContext
from ottla.broker.requests.authorizer import EVERYBODY, Access, Operation, ResourceType
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.wire.types import ZERO_UUID

_NO_LEADER: Final = -1


def handle(
    request: DescribeTopicPartitionsRequest,
    context: RequestContext,
    *,
    metadata: MetadataCache,
    max_partitions: int,
    access: Access = EVERYBODY,
) -> DescribeTopicPartitionsResponse:
    """Return a page of at most `max_partitions` partitions."""
    cursor = request.cursor
    names = _names(request, metadata)
    shown = access.allowed(context, Operation.DESCRIBE, ResourceType.TOPIC, names, log_denial=bool(request.topics))
    listener = context.listener_name
    remaining = max(min(max_partitions, request.response_partition_limit), 1)
    topics = []
    next_cursor = None
    for name in [each for each in names if each in shown]:
        if not remaining:
            next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        if not metadata.contains(name):
            topics.append(_unknown(name))
            continue
        partitions = metadata.partitions(name)
        start = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        end = min(len(partitions), start + remaining)
        page = [_partition(metadata, index, partitions[index], listener) for index in sorted(partitions)[start:end]]
        topics.append(_topic(name, ErrorCode.NONE, metadata.topic_id(name), page))
        if end < len(partitions):
            next_cursor = Cursor(topic_name=name, partition_index=end)
            break
        remaining -= len(page)
    for topic in topics:
        topic.topic_authorized_operations = access.operations(context, ResourceType.TOPIC, topic.name or "")
    if request.topics:
        topics += [_denied(name) for name in names if name not in shown]
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=next_cursor)


def _names(request: DescribeTopicPartitionsRequest, metadata: MetadataCache) -> list[str]:
    """Return the topics from the cursor on, sorted."""
    cursor = request.cursor
    names = {topic.name for topic in request.topics} or set(metadata.topics)
    if cursor is not None:
        if request.topics and cursor.topic_name not in names:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"The cursor's topic {cursor.topic_name} is not in the request")
        if cursor.partition_index < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"There is no partition {cursor.partition_index}")
        names = {name for name in names if name >= cursor.topic_name}
    return sorted(names)


def _topic(
    name: str, code: ErrorCode, topic_id: bytes, partitions: list[DescribeTopicPartitionsResponsePartition]
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        topic_id=topic_id,
        is_internal=is_internal(name),
        partitions=partitions,
    )


def _denied(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name, topic_id=ZERO_UUID, partitions=())


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    is_legal = name_fault(name) is None
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal else ErrorCode.INVALID_TOPIC_EXCEPTION
    return _topic(name, code, ZERO_UUID, [])


def _partition(
    metadata: MetadataCache, index: int, partition: PartitionMetadata, listener: str
) -> DescribeTopicPartitionsResponsePartition:
    is_reachable = metadata.node(partition.leader, listener) is not None
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE,
        partition_index=index,
        leader_id=partition.leader if is_reachable else _NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=(),
        last_known_elr=(),
        offline_replicas=partition.offline_replicas,
    )


def error_response(
    request: DescribeTopicPartitionsRequest, version: int, code: ErrorCode
) -> DescribeTopicPartitionsResponse:
    """Return the error for each topic."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=code, name=topic.name, topic_id=ZERO_UUID, partitions=())
            for topic in request.topics
        ]
    )
