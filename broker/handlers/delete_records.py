"""DeleteRecords, versions 0 to 2: move the start of logs up, to an offset or to the high watermark (-1).

What lies below cannot be read any more from that moment on. It stays on the disk for as long as its segment does.

Deviation: the reply does not wait for followers; where one has not deleted as much yet, it is REQUEST_TIMED_OUT.
Counterpart in Kafka: KafkaApis.handleDeleteRecordsRequest, ReplicaManager.deleteRecords.
"""

from typing import Final

from ottla.broker.controller.topics import is_internal
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.replica_manager import ReplicaManager
from ottla.broker.request_context import RequestContext
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
) -> DeleteRecordsResponse:
    """Delete from each partition; of one that is named several times the last offset counts."""
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        offsets = wanted.setdefault(topic.name, {})
        offsets.update((each.partition_index, each.offset) for each in topic.partitions)

    def delete(topic: str, index: int, offset: int) -> DeleteRecordsPartitionResult:
        try:
            if not metadata.contains(topic, index):
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if is_internal(topic):
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"records of {topic} are Kafka's own")
            is_done, low_watermark = replicas.delete_records(topic, index, offset)
        except KafkaError as error:
            return _failed(index, error.code)
        return DeleteRecordsPartitionResult(
            partition_index=index,
            low_watermark=low_watermark,
            error_code=ErrorCode.NONE if is_done else ErrorCode.REQUEST_TIMED_OUT,
        )

    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic, partitions=[delete(topic, index, offset) for index, offset in offsets.items()]
            )
            for topic, offsets in wanted.items()
        ]
    )


def error_response(request: DeleteRecordsRequest, version: int, code: ErrorCode) -> DeleteRecordsResponse:
    """Every partition with one error."""
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
