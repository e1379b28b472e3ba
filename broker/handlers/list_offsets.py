"""ListOffsets: the offset of a timestamp, or of the start or the end of a log.

Behaviour:
- A timestamp finds the first record that is not older, below the high watermark, or with read_committed below the last
  stable offset. A follower sees the whole log.
- Only the leader answers, but replica id -2 (a debugger) may ask a follower.
- The reply waits if a segment that the start found on the disk must be checked first.
- A partition that is named twice gets INVALID_REQUEST, once.
- There is no tiered storage: timestamp -5 finds nothing, and the local log (-4) starts where the log starts.
Versions: 1 to 9. From 2 the isolation level; from 4 leader epochs; from 5 OFFSET_NOT_AVAILABLE (LEADER_NOT_AVAILABLE
before); timestamp -3, the record with the largest timestamp, from 7; -4 from 8; -5 from 9.
Counterpart in Kafka: KafkaApis.handleListOffsetRequest.
"""

from typing import Final

from ottla.broker.loop.clock import StartSoon
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.broker.replicas.manager import ReplicaManager
from ottla.broker.replicas.partition import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    Partition,
)
from ottla.broker.replicas.reads import TO_HIGH_WATERMARK, TO_LAST_STABLE_OFFSET, TO_LOG_END
from ottla.broker.replicas.segment_checks import SegmentChecks
from ottla.log.segments.segments import UncheckedSegmentError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

_FIRST_VERSIONS: Final = {
    LATEST_TIMESTAMP: 1,
    EARLIEST_TIMESTAMP: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
}
_NOT_AVAILABLE_FROM_VERSION: Final = 5
_CONSUMER: Final = -1
_DEBUGGER: Final = -2
_READ_COMMITTED: Final = 1

Unchecked = list[tuple[Partition, UncheckedSegmentError]]


def handle(
    request: ListOffsetsRequest,
    context: RequestContext,
    *,
    replicas: ReplicaManager,
    segment_checks: SegmentChecks,
    start_soon: StartSoon,
) -> ListOffsetsResponse | Deferred[ListOffsetsResponse]:
    """Look up each offset. If that needs unchecked segments, finish their checks first."""
    unchecked: Unchecked = []
    response = _look_up(request, context, replicas, unchecked)
    if not unchecked:
        return response
    reply: Deferred[ListOffsetsResponse] = Deferred(applied=False)
    start_soon(_look_up_checked, request, context, replicas, segment_checks, unchecked, reply)
    return reply


async def _look_up_checked(
    request: ListOffsetsRequest,
    context: RequestContext,
    replicas: ReplicaManager,
    segment_checks: SegmentChecks,
    unchecked: Unchecked,
    reply: Deferred[ListOffsetsResponse],
) -> None:
    while unchecked and not reply.done:
        for partition, error in unchecked:
            await segment_checks.finish(partition, error)
        unchecked.clear()
        response = _look_up(request, context, replicas, unchecked)
    reply.complete(response)


def _look_up(
    request: ListOffsetsRequest, context: RequestContext, replicas: ReplicaManager, unchecked: Unchecked
) -> ListOffsetsResponse:
    version = context.api_version
    how_far = TO_LOG_END
    if not 0 <= request.isolation_level <= _READ_COMMITTED:
        # Kafka's error for an unknown level.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"isolation level {request.isolation_level}")
    if request.replica_id == _CONSUMER:
        how_far = TO_LAST_STABLE_OFFSET if request.isolation_level == _READ_COMMITTED else TO_HIGH_WATERMARK

    def answer(topic: str, each: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        index = each.partition_index
        if each.timestamp < 0 and version < _FIRST_VERSIONS.get(each.timestamp, version + 1):
            return _failed(index, ErrorCode.UNSUPPORTED_VERSION)
        try:
            partition = replicas.partition(topic, index)
            found = partition.offset_for_timestamp(
                each.timestamp,
                how_far,
                each.current_leader_epoch,
                from_leader_only=request.replica_id != _DEBUGGER,
            )
        except UncheckedSegmentError as error:
            unchecked.append((partition, error))
            return _failed(index, error.code)
        except KafkaError as error:
            code = error.code
            if code == ErrorCode.OFFSET_NOT_AVAILABLE and version < _NOT_AVAILABLE_FROM_VERSION:
                code = ErrorCode.LEADER_NOT_AVAILABLE
            return _failed(index, code)
        if found is None:
            return _failed(index, ErrorCode.NONE)
        return ListOffsetsPartitionResponse(
            partition_index=index,
            error_code=ErrorCode.NONE,
            timestamp=found.timestamp,
            offset=found.offset,
            leader_epoch=found.leader_epoch,
        )

    answers: dict[str, dict[int, ListOffsetsPartitionResponse]] = {}
    for topic in request.topics:
        known = answers.setdefault(topic.name, {})
        for each in topic.partitions:
            index = each.partition_index
            # A partition that is named twice is answered once.
            known[index] = _failed(index, ErrorCode.INVALID_REQUEST) if index in known else answer(topic.name, each)
    return ListOffsetsResponse(
        topics=[ListOffsetsTopicResponse(name=name, partitions=list(found.values())) for name, found in answers.items()]
    )


def error_response(request: ListOffsetsRequest, version: int, code: ErrorCode) -> ListOffsetsResponse:
    """Return the error for each partition."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name, partitions=[_failed(each.partition_index, code) for each in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _failed(index: int, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=code)
