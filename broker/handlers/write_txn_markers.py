"""WriteTxnMarkers: append the ends of transactions to partitions that this broker leads.

Behaviour:
- Coordinators of transactions send it; an administrator does, to end a transaction that its coordinator has forgotten.
- The reply comes when all in-sync replicas have all markers, or have failed to.
- A marker in a partition of __consumer_offsets makes the offsets of its transaction count, or drops them.
- A marker of an old producer epoch gets INVALID_PRODUCER_EPOCH, one of an old coordinator epoch
  TRANSACTION_COORDINATOR_FENCED.
- A marker without a producer id or an epoch makes the request invalid, if one of its partitions is here. Kafka appends
  the markers before it, then fails with UNKNOWN_SERVER_ERROR.
- A partition that is not here gets UNKNOWN_TOPIC_OR_PARTITION. An unknown producer gets its marker.
- The markers of one producer have one result, as in Kafka, whose coordinators read no second one.
Versions: 1.
Counterpart in Kafka: KafkaApis.handleWriteTxnMarkersRequest.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from ottla.broker.cluster.topic_names import GROUP_METADATA_TOPIC
from ottla.broker.internal_topics.committed_appends import CommittedAppends
from ottla.broker.loop.clock import Clock
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.broker.replicas.manager import ReplicaManager
from ottla.coordinator.group_coordinator import GroupCoordinator
from ottla.log.state.verification import TransactionalAppend
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.wire.records.batch import ControlType, ProducedBatch, build_marker, parse_header
from ottla.wire.records.batch_header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

# As long as a coordinator waits for the reply.
_TIMEOUT_MS: Final = 30_000


class _Place(NamedTuple):
    """Where a marker belongs. Two markers for one place have one result."""

    producer_id: int
    topic: str
    partition: int


def handle(
    request: WriteTxnMarkersRequest,
    context: RequestContext,
    *,
    replicas: ReplicaManager,
    appends: CommittedAppends,
    clock: Clock,
    groups: GroupCoordinator,
) -> WriteTxnMarkersResponse | Deferred[WriteTxnMarkersResponse]:
    """Append each marker to each of its partitions."""
    wanted = _wanted(request)
    if any(_has_no_producer(marker) and (topic, index) in replicas.partitions for marker, (_, topic, index) in wanted):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a marker of no producer")
    codes: dict[_Place, ErrorCode] = {}
    if not wanted:
        return _response(codes)
    reply: Deferred[WriteTxnMarkersResponse] = Deferred(applied=False)
    left = len(wanted)

    def done(place: _Place, code: ErrorCode) -> None:
        nonlocal left
        codes[place] = code
        left -= 1
        if not left:
            reply.complete(_response({each: codes[each] for _, each in wanted}))

    for marker, place in wanted:
        _append(marker, place, replicas, appends, clock, groups, partial(done, place))
    return reply


def _wanted(request: WriteTxnMarkersRequest) -> list[tuple[WritableTxnMarker, _Place]]:
    return [
        (marker, _Place(marker.producer_id, topic.name, index))
        for marker in request.markers
        for topic in marker.topics
        for index in topic.partition_indexes
    ]


def _has_no_producer(marker: WritableTxnMarker) -> bool:
    return marker.producer_id == NO_PRODUCER_ID or marker.producer_epoch == NO_PRODUCER_EPOCH


def _append(
    marker: WritableTxnMarker,
    place: _Place,
    replicas: ReplicaManager,
    appends: CommittedAppends,
    clock: Clock,
    groups: GroupCoordinator,
    done: Callable[[ErrorCode], None],
) -> None:
    def appended(code: ErrorCode) -> None:
        if code is ErrorCode.NONE and place.topic == GROUP_METADATA_TOPIC:
            groups.transaction_ended(place.partition, marker.producer_id, marker.transaction_result)
        done(code)

    try:
        partition = replicas.partition(place.topic, place.partition)
    except KafkaError:
        done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return
    now_ms = clock.now_ms()
    data = build_marker(
        marker.producer_id,
        marker.producer_epoch,
        ControlType.COMMIT if marker.transaction_result else ControlType.ABORT,
        marker.coordinator_epoch,
        now_ms,
        partition.rules.timestamp_type,
    )
    batch = ProducedBatch(parse_header(data), memoryview(data), now_ms)
    how = TransactionalAppend(transaction_version=marker.transaction_version)
    appends.append(partition, batch, _TIMEOUT_MS, appended, how)


def _response(codes: Mapping[_Place, ErrorCode]) -> WriteTxnMarkersResponse:
    grouped: dict[int, dict[str, list[WritableTxnMarkerPartitionResult]]] = {}
    for (producer_id, topic, index), code in codes.items():
        of_topic = grouped.setdefault(producer_id, {}).setdefault(topic, [])
        of_topic.append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=code))
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=producer_id,
                topics=[WritableTxnMarkerTopicResult(name=name, partitions=each) for name, each in topics.items()],
            )
            for producer_id, topics in grouped.items()
        ]
    )


def error_response(request: WriteTxnMarkersRequest, version: int, code: ErrorCode) -> WriteTxnMarkersResponse:
    """Return the error for each partition."""
    return _response({place: code for _, place in _wanted(request)})
