"""OffsetForLeaderEpoch, versions 2 to 4: where leader epochs end, for consumers and brokers that look for lost records.

Counterpart in Kafka: KafkaApis.handleOffsetForLeaderEpochRequest, ReplicaManager.lastOffsetForLeaderEpoch.
"""

from ottla.broker.net.session import RequestContext
from ottla.broker.replicas.manager import ReplicaManager
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(
    request: OffsetForLeaderEpochRequest, context: RequestContext, *, replicas: ReplicaManager
) -> OffsetForLeaderEpochResponse:
    """Look up each partition's epoch."""

    def answer(topic: str, each: OffsetForLeaderPartition) -> EpochEndOffset:
        try:
            partition = replicas.partition(topic, each.partition)
            found = partition.end_offset_for_epoch(each.leader_epoch, each.current_leader_epoch)
        except KafkaError as error:
            return EpochEndOffset(error_code=error.code, partition=each.partition)
        return EpochEndOffset(
            error_code=ErrorCode.NONE,
            partition=each.partition,
            leader_epoch=found.epoch,
            end_offset=found.end_offset,
        )

    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[answer(topic.topic, each) for each in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def error_response(request: OffsetForLeaderEpochRequest, version: int, code: ErrorCode) -> OffsetForLeaderEpochResponse:
    """Every partition with one error."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[EpochEndOffset(error_code=code, partition=each.partition) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )
