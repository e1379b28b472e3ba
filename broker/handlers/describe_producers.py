"""DescribeProducers: the idempotent and transactional producers that a partition remembers.

Behaviour:
- A replica answers from its own state, as leader and as follower.
- Each partition has its own error.
Versions: 0.
Counterpart in Kafka: KafkaApis.handleDescribeProducersRequest, Partition.activeProducerState.
"""

from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.cluster.topic_names import check_name
from ottla.broker.net.session import RequestContext
from ottla.broker.replicas.manager import ReplicaManager
from ottla.log.state.producer_entry import ProducerEntry
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)


def handle(
    request: DescribeProducersRequest, context: RequestContext, *, replicas: ReplicaManager, metadata: MetadataCache
) -> DescribeProducersResponse:
    """Return the producers of each partition."""
    return DescribeProducersResponse(topics=[_topic(topic, replicas, metadata) for topic in request.topics])


def _topic(topic: TopicRequest, replicas: ReplicaManager, metadata: MetadataCache) -> TopicResponse:
    try:
        check_name(topic.name)
        if not metadata.contains(topic.name):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    except KafkaError as error:
        return TopicResponse(
            name=topic.name,
            partitions=[_failed(index, error.code, error.detail) for index in topic.partition_indexes],
        )
    return TopicResponse(
        name=topic.name, partitions=[_partition(topic.name, index, replicas) for index in topic.partition_indexes]
    )


def _partition(topic: str, index: int, replicas: ReplicaManager) -> PartitionResponse:
    try:
        partition = replicas.partition(topic, index)
    except KafkaError as error:
        return _failed(index, error.code)
    if partition.is_offline:
        return _failed(index, ErrorCode.KAFKA_STORAGE_ERROR)
    return PartitionResponse(
        partition_index=index,
        error_code=ErrorCode.NONE,
        active_producers=[_producer(entry) for entry in partition.log.producers.entries.values()],
    )


def _producer(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.current_txn_first_offset,
    )


def error_response(request: DescribeProducersRequest, version: int, code: ErrorCode) -> DescribeProducersResponse:
    """Return the error for each partition."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(name=topic.name, partitions=[_failed(index, code) for index in topic.partition_indexes])
            for topic in request.topics
        ]
    )


def _failed(index: int, code: ErrorCode, message: str | None = None) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=code, error_message=message, active_producers=())
