"""OffsetForLeaderEpoch: the end offset of leader epochs, by which consumers and followers find lost records.

Behaviour:
- Only the leader answers. A client with another leader epoch gets FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH.
- For an epoch without records, the response has the largest earlier one. An epoch after the last one has no end: -1.
Versions: 2 to 4. From 3 the replica id, which is not used.
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
    """Look up the end of each epoch."""

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
    """Return the error for each partition."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[EpochEndOffset(error_code=code, partition=each.partition) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )
