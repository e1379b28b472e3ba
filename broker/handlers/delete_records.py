"""DeleteRecords: move the start of logs up to an offset, or to the high watermark (-1).

Behaviour:
- Records below the new start cannot be read from that moment on. They stay on the disk as long as their segment does.
- The reply comes when all live replicas have the new start, or after the timeout.
- A topic whose cleanup.policy does not delete gets POLICY_VIOLATION, an internal topic INVALID_TOPIC_EXCEPTION.
- Of a partition that is named twice, the last offset counts. A topic without partitions is not answered.
Versions: 0 to 2, all alike.
Counterpart in Kafka: KafkaApis.handleDeleteRecordsRequest, ReplicaManager.deleteRecords.
"""

from typing import Final

from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.cluster.topic_names import is_internal
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.broker.replicas.manager import ReplicaManager
from ottla.broker.replicas.partition import Partition
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

_NO_LOW_WATERMARK: Final = -1


def handle(
    request: DeleteRecordsRequest, context: RequestContext, *, replicas: ReplicaManager, metadata: MetadataCache
) -> Deferred[DeleteRecordsResponse]:
    """Move the start of each log, and return when all live replicas have done so.

    The last of several offsets for one partition counts. Topics without partitions are left out of the response.
    """
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        for each in topic.partitions:
            wanted.setdefault(topic.name, {})[each.partition_index] = each.offset
    results: dict[str, dict[int, DeleteRecordsPartitionResult]] = {}
    deleted: list[tuple[Partition, int]] = []
    for name, offsets in wanted.items():
        of_topic = results[name] = {}
        for index, offset in offsets.items():
            of_topic[index] = _failed(index, ErrorCode.NONE)
            try:
                _check(name, index, metadata)
                partition = replicas.partition(name, index)
                deleted.append((partition, replicas.delete_records(partition, offset)))
            except KafkaError as error:
                of_topic[index] = _failed(index, error.code)

    def respond(codes: list[ErrorCode]) -> DeleteRecordsResponse:
        for (partition, _), code in zip(deleted, codes, strict=True):
            topic, index = partition.topic_partition
            gone = code not in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)
            low_watermark = _NO_LOW_WATERMARK if gone else partition.low_watermark
            results[topic][index] = DeleteRecordsPartitionResult(
                partition_index=index, low_watermark=low_watermark, error_code=code
            )
        topics = [
            DeleteRecordsTopicResult(name=name, partitions=list(of_topic.values()))
            for name, of_topic in results.items()
        ]
        return DeleteRecordsResponse(topics=topics)

    return replicas.await_deletion(deleted, request.timeout_ms, respond)


def _check(topic: str, index: int, metadata: MetadataCache) -> None:
    if not metadata.contains(topic, index):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if is_internal(topic):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is an internal topic")


def error_response(request: DeleteRecordsRequest, version: int, code: ErrorCode) -> DeleteRecordsResponse:
    """Return the error for each partition."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_failed(each.partition_index, code) for each in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _failed(index: int, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=_NO_LOW_WATERMARK, error_code=code)
