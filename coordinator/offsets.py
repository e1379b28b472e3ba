"""The offsets of a group: commit, fetch, deletion, expiry.

Owns the checks of a commit, when it counts, and when an offset expires. Must not know how a group rebalances, or where
it is kept. Counterparts in Kafka: GroupMetadataManager and the offsets of GroupMetadata.

A commit is in `pending_offsets` while it is appended. After that it counts. In a transaction, it is in
`transactional_offsets` until the marker, and counts if the marker commits. Of two commits the later one in the log
counts, so that a transaction's offset does not replace a plain commit that was made after it.

Deviations: a deletion is answered when its tombstones are committed (in Kafka: when they are appended). It writes
tombstones for pending commits and those of open transactions too, because these would come back with the next load.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ottla.coordinator.effects import COORDINATOR_ERRORS, Decision, Producer, Record, Send
from ottla.coordinator.group import CommittedOffset, Group, State, Transaction, restart_session
from ottla.coordinator.records import CONSUMER_PROTOCOL, NO_TIMESTAMP, OffsetCommitValue, offset_key, offset_value
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from ottla.wire.types import TopicPartition

_NO_RETENTION: Final = -1
_NO_OFFSET: Final = -1
# Transactional producers before this version of TxnOffsetCommit can crash on COORDINATOR_LOAD_IN_PROGRESS.
_TXN_LOAD_IN_PROGRESS_FROM: Final = 2

_COMMIT_ERRORS: Final = COORDINATOR_ERRORS | {
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}


def commit_error(error: ErrorCode) -> ErrorCode:
    """The error that clients expect for the error of an append of offsets."""
    return _COMMIT_ERRORS.get(error, error)


def txn_commit_error(error: ErrorCode, version: int) -> ErrorCode:
    """The error of TxnOffsetCommit for an error of its verification or its append."""
    # Old clients do not repeat a commit after NETWORK_EXCEPTION, which a verification may get.
    error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if error == ErrorCode.NETWORK_EXCEPTION else commit_error(error)
    if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _TXN_LOAD_IN_PROGRESS_FROM:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error


# --------------------------------------------------------------------------------------------------------- commit


def commit(
    decision: Decision,
    group: Group,
    request: OffsetCommitRequest,
    order: int,
    send: Send,
    *,
    producer: Producer | None = None,
    transaction: Transaction | None = None,
) -> None:
    """Decide a commit. `order` is its number in this partition of __consumer_offsets.

    With a producer and its transaction, it is part of that transaction.
    """
    error = _check_commit(group, request, is_transactional=transaction is not None)
    if error:
        decision.reply(send, refused_commit(request, error))
        return
    member = group.members.get(request.member_id)
    if member is not None and transaction is None:
        restart_session(decision, group, member)
    # Of a partition that is named twice the last offset counts. It is answered once.
    asked = {
        TopicPartition(topic.name, each.partition_index): each for topic in request.topics for each in topic.partitions
    }
    topics: dict[str, list[OffsetCommitResponsePartition]] = {}
    taken: list[tuple[TopicPartition, CommittedOffset, OffsetCommitResponsePartition]] = []
    records: list[Record] = []
    for partition, wanted in asked.items():
        topic, index = partition
        answer = OffsetCommitResponsePartition(partition_index=index, error_code=ErrorCode.NONE)
        topics.setdefault(topic, []).append(answer)
        value = _value(group, request, wanted, decision.now_ms)
        if value is None:
            answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
        else:
            group.pending_offsets.setdefault(partition, []).append(order)
            taken.append((partition, CommittedOffset(value, order), answer))
            records.append((offset_key(group.group_id, topic, index), offset_value(value)))
    response = OffsetCommitResponse(
        topics=[OffsetCommitResponseTopic(name=name, partitions=answers) for name, answers in topics.items()]
    )
    if not records:
        decision.reply(send, response)
        return

    def stored(decision: Decision, error: ErrorCode) -> None:
        for partition, committed, answer in taken:
            _complete(group, partition, committed, error, transaction)
            if error:
                answer.error_code = commit_error(error)
        decision.reply(send, response)

    decision.append(records, stored, producer)


def _check_commit(group: Group, request: OffsetCommitRequest, *, is_transactional: bool) -> ErrorCode:
    generation_id = request.generation_id_or_member_epoch
    if group.state is State.EMPTY and generation_id < 0:
        return ErrorCode.NONE
    if generation_id < 0 and not request.member_id and request.group_instance_id is None:
        # In a group with members only members commit. Old transactional producers do not know their member.
        return ErrorCode.NONE if is_transactional else ErrorCode.UNKNOWN_MEMBER_ID
    error = group.check_member(request.member_id, request.group_instance_id)
    if error:
        return error
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    # While a rebalance is prepared, members commit offsets of partitions that they are about to lose.
    completing = group.state is State.COMPLETING_REBALANCE and not is_transactional
    return ErrorCode.REBALANCE_IN_PROGRESS if completing else ErrorCode.NONE


def _value(
    group: Group, request: OffsetCommitRequest, partition: OffsetCommitRequestPartition, now_ms: int
) -> OffsetCommitValue | None:
    metadata = partition.committed_metadata or ""
    longest = group.config.offset_metadata_max_bytes
    # Java counts a character beyond the first 65,536 twice.
    if len(metadata) > longest or (2 * len(metadata) > longest and _java_length(metadata) > longest):
        return None
    retention_ms = request.retention_time_ms
    return OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=metadata,
        commit_timestamp=now_ms if partition.commit_timestamp == NO_TIMESTAMP else partition.commit_timestamp,
        expire_timestamp=NO_TIMESTAMP if retention_ms == _NO_RETENTION else now_ms + retention_ms,
    )


def _java_length(text: str) -> int:
    return len(text.encode("utf-16-be", "surrogatepass")) // 2


def _complete(
    group: Group,
    partition: TopicPartition,
    committed: CommittedOffset,
    error: ErrorCode,
    transaction: Transaction | None,
) -> None:
    pending = group.pending_offsets.get(partition)
    if pending is None or committed.order not in pending:
        # Deleted since then: its tombstone follows it in the log.
        return
    pending.remove(committed.order)
    if not pending:
        del group.pending_offsets[partition]
    if error:
        return
    # The marker may have come first. Then an abort drops the offset.
    if transaction is None or transaction.is_commit:
        put(group.offsets, partition, committed)
    elif transaction.is_commit is None:
        write(group, transaction, partition, committed)


def put(offsets: dict[TopicPartition, CommittedOffset], partition: TopicPartition, committed: CommittedOffset) -> None:
    """Set an offset, unless a later commit is there already."""
    known = offsets.get(partition)
    if known is None or known.order < committed.order:
        offsets[partition] = committed


def refused_commit(request: OffsetCommitRequest | TxnOffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """The response with one error for each partition. A partition that is named twice is answered once."""
    topics: dict[str, dict[int, OffsetCommitResponsePartition]] = {}
    for topic in request.topics:
        answers = topics.setdefault(topic.name, {})
        for each in topic.partitions:
            index = each.partition_index
            answers[index] = OffsetCommitResponsePartition(partition_index=index, error_code=error)
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(name=name, partitions=list(answers.values())) for name, answers in topics.items()
        ]
    )


# --------------------------------------------------------------------------------------------------- transactions


def write(group: Group, transaction: Transaction, partition: TopicPartition, committed: CommittedOffset) -> None:
    """Add an offset of an open transaction, whose record is in the log."""
    transaction.group_ids.add(group.group_id)
    put(group.transactional_offsets.setdefault(transaction.producer_id, {}), partition, committed)


def end_transaction(group: Group, producer_id: int, *, is_commit: bool) -> None:
    """Let the offsets of a transaction count, or drop them."""
    written = group.transactional_offsets.pop(producer_id, {})
    if is_commit:
        for partition, committed in written.items():
            put(group.offsets, partition, committed)


# ---------------------------------------------------------------------------------------------------------- fetch

FetchTopics = Sequence[OffsetFetchRequestTopic] | Sequence[OffsetFetchRequestTopics]


def fetch(group: Group | None, topics: FetchTopics | None, require_stable: bool) -> list[OffsetFetchResponseTopics]:
    """Return committed offsets, in every state of the group. `topics` None means all.

    A partition that is named twice is answered once.
    """
    asked: Iterable[TopicPartition]
    if topics is None:
        asked = () if group is None else group.offsets
    else:
        asked = [TopicPartition(topic.name, each) for topic in topics for each in topic.partition_indexes]
    answers: dict[str, list[OffsetFetchResponsePartitions]] = {}
    for partition in dict.fromkeys(asked):
        answers.setdefault(partition.topic, []).append(_fetched(group, partition, require_stable))
    return [OffsetFetchResponseTopics(name=name, partitions=each) for name, each in answers.items()]


def _fetched(group: Group | None, partition: TopicPartition, require_stable: bool) -> OffsetFetchResponsePartitions:
    unstable = require_stable and group is not None and group.is_pending(partition)
    committed = None if group is None or unstable else group.offsets.get(partition)
    value = None if committed is None else committed.value
    return OffsetFetchResponsePartitions(
        partition_index=partition.partition,
        committed_offset=_NO_OFFSET if value is None else value.offset,
        committed_leader_epoch=-1 if value is None else value.leader_epoch,
        metadata="" if value is None else value.metadata,
        error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT if unstable else ErrorCode.NONE,
    )


# ----------------------------------------------------------------------------------------------- deletion, expiry


def delete(group: Group, partitions: Iterable[TopicPartition]) -> list[Record]:
    """Delete committed and pending offsets. Returns their tombstones."""
    return [
        (offset_key(group.group_id, partition.topic, partition.partition), None)
        for partition in dict.fromkeys(partitions)
        if forget(group, partition)
    ]


def forget(group: Group, partition: TopicPartition) -> bool:
    """Remove the committed offset of a partition and those that are pending. Returns whether there was any."""
    found = group.offsets.pop(partition, None) is not None
    found = group.pending_offsets.pop(partition, None) is not None or found
    for producer_id, written in list(group.transactional_offsets.items()):
        found = written.pop(partition, None) is not None or found
        if not written:
            del group.transactional_offsets[producer_id]
    return found


def may_delete(group: Group, topic: str) -> ErrorCode:
    """The error of a deletion of offsets for a topic. A group with unknown subscriptions counts as subscribed."""
    if group.state is State.EMPTY:
        return ErrorCode.NONE
    subscribed = group.subscribed_topics
    return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed is None or topic in subscribed else ErrorCode.NONE


def expired(group: Group, now_ms: int) -> list[TopicPartition]:
    """The offsets whose retention time is over."""
    since_ms: int | None = None
    kept_topics: frozenset[str] = frozenset()
    if group.protocol_type is not None:
        if group.state is State.EMPTY:
            # Since the group lost its last member. Records of old versions do not have that time.
            since_ms = group.state_timestamp_ms
        elif group.protocol_type == CONSUMER_PROTOCOL and group.state is State.STABLE:
            if group.subscribed_topics is None:
                return []
            kept_topics = group.subscribed_topics
        else:
            return []

    def is_expired(value: OffsetCommitValue) -> bool:
        if value.expire_timestamp != NO_TIMESTAMP:
            return now_ms >= value.expire_timestamp
        return now_ms - (value.commit_timestamp if since_ms is None else since_ms) >= group.config.retention_ms

    return [
        partition
        for partition, committed in group.offsets.items()
        if partition.topic not in kept_topics and is_expired(committed.value) and not group.is_pending(partition)
    ]
