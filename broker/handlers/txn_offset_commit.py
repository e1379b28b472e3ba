"""TxnOffsetCommit: keep the offsets up to which a group has read, if the transaction commits.

Behaviour:
- The reply comes when the offsets are in __consumer_offsets. They count from the marker of the transaction on.
- The coordinator of the transaction is asked first whether the group's partition of __consumer_offsets belongs to it.
- An unknown group is created first, even if the commit is refused then.
- Partitions that do not exist get UNKNOWN_TOPIC_OR_PARTITION. If none is left, nobody is asked.
- Of a partition that is named twice, the last offset counts, and is answered once.
Versions: 0 to 4. Before 2 COORDINATOR_NOT_AVAILABLE instead of COORDINATOR_LOAD_IN_PROGRESS; from 2 the leader epoch of
the record before the offset; from 3 the generation and the member, which are checked; from 4 TRANSACTION_ABORTABLE
(INVALID_TXN_STATE before).
Counterparts in Kafka: KafkaApis.handleTxnOffsetCommitRequest, GroupCoordinator.handleTxnCommitOffsets.
"""

import copy
from collections.abc import Callable, Iterable
from functools import partial

from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.groups.group_requests import sift, with_refused
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.broker.transactions.offsets import Verification
from ottla.coordinator.group_coordinator import GroupCoordinator, refused_txn_commit
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

Verify = Callable[[TxnOffsetCommitRequest, int], Deferred[Verification]]
"""Takes a request and its version. Returns whether the group's partition belongs to the transaction."""


def handle(
    request: TxnOffsetCommitRequest,
    context: RequestContext,
    *,
    groups: GroupCoordinator,
    metadata: MetadataCache,
    verify: Verify,
) -> TxnOffsetCommitResponse | Deferred[TxnOffsetCommitResponse]:
    """Refuse unknown partitions, verify the transaction, and call the group coordinator with the other partitions."""
    version = context.api_version
    known, unknown = sift(request.topics, metadata)
    refused = {name: _topic(name, indexes, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name, indexes in unknown.items()}
    if not known:
        return TxnOffsetCommitResponse(topics=list(refused.values()))
    request = copy.copy(request)
    request.topics = known
    reply: Deferred[TxnOffsetCommitResponse] = Deferred(applied=False)

    def verified(outcome: Verification) -> None:
        if outcome.error:
            reply.complete(refused_txn_commit(request, version, outcome.error))
        else:
            groups.txn_offset_commit(request, version, reply.complete, outcome.guard)

    refusal = groups.begin_txn_commit(request.group_id)
    if refusal:
        verified(Verification(refusal))
    else:
        verify(request, version).then(verified, reply.close)
    return reply.map(partial(with_refused, refused))


def error_response(request: TxnOffsetCommitRequest, version: int, code: ErrorCode) -> TxnOffsetCommitResponse:
    """Return the error for each partition."""
    topics = [_topic(each.name, (one.partition_index for one in each.partitions), code) for each in request.topics]
    return TxnOffsetCommitResponse(topics=topics)


def _topic(name: str, indexes: Iterable[int], code: ErrorCode) -> TxnOffsetCommitResponseTopic:
    partitions = [TxnOffsetCommitResponsePartition(partition_index=index, error_code=code) for index in indexes]
    return TxnOffsetCommitResponseTopic(name=name, partitions=partitions)
