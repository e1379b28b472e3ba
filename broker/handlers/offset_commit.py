"""OffsetCommit: keep the offsets up to which a group has read.

Behaviour:
- The reply comes when the offsets are committed to __consumer_offsets.
- Partitions that do not exist get UNKNOWN_TOPIC_OR_PARTITION. If none is left, the group is not asked.
- Commits of one connection that follow each other are handled together, and answered in their order.
- Of a partition that is named twice, the last offset counts, and is answered once.
Versions: 2 to 9. Until 4 a retention time, then the broker's config; from 6 the leader epoch of the record before the
offset; from 7 the group instance id, which fences an earlier member of that id.
Counterpart in Kafka: KafkaApis.handleOffsetCommitRequest.
"""

import copy
from collections.abc import Iterable
from functools import partial

from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.groups.group_requests import ask, sift, with_refused
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.coordinator.group_coordinator import GroupCoordinator
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


def handle(
    request: OffsetCommitRequest, context: RequestContext, *, groups: GroupCoordinator, metadata: MetadataCache
) -> OffsetCommitResponse | Deferred[OffsetCommitResponse]:
    """Refuse unknown partitions, and call the group coordinator with the others."""
    known, unknown = sift(request.topics, metadata)
    if known and not unknown and len(known) == len(request.topics):
        return ask(groups.offset_commit, request, repeatable=True)
    refused = {name: _topic(name, indexes, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name, indexes in unknown.items()}
    if not known:
        return OffsetCommitResponse(topics=list(refused.values()))
    request = copy.copy(request)
    request.topics = known
    return ask(groups.offset_commit, request, repeatable=True).map(partial(with_refused, refused))


def error_response(request: OffsetCommitRequest, version: int, code: ErrorCode) -> OffsetCommitResponse:
    """Return the error for each partition."""
    topics = [_topic(each.name, (one.partition_index for one in each.partitions), code) for each in request.topics]
    return OffsetCommitResponse(topics=topics)


def _topic(name: str, indexes: Iterable[int], code: ErrorCode) -> OffsetCommitResponseTopic:
    partitions = [OffsetCommitResponsePartition(partition_index=index, error_code=code) for index in indexes]
    return OffsetCommitResponseTopic(name=name, partitions=partitions)
