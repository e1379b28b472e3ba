"""The offsets of a group: commit, fetch, deletion, expiry.

Owns the checks of a commit, when it counts, and when an offset expires. Must not know how a group rebalances, or where
it is kept. Counterparts in Kafka: GroupMetadataManager and the offsets of GroupMetadata.

Deviations: a deletion is answered when its tombstones are committed (in Kafka: when they are appended). It writes
tombstones for pending commits too, because these would come back with the next load.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ottla.coordinator.effects import COORDINATOR_ERRORS, Decision, Record, Send
from ottla.coordinator.group import CommittedOffset, Group, State, restart_session
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
from ottla.wire.types import TopicPartition

_NO_RETENTION: Final = -1
_NO_OFFSET: Final = -1

_COMMIT_ERRORS: Final = COORDINATOR_ERRORS | {
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}


def commit_error(error: ErrorCode) -> ErrorCode:
    """The error that clients expect for the error of an append of offsets."""
    return _COMMIT_ERRORS.get(error, error)


# --------------------------------------------------------------------------------------------------------- commit


def commit(decision: Decision, group: Group, request: OffsetCommitRequest, order: int, send: Send) -> None:
    """Decide a commit. `order` is its number in this partition of __consumer_offsets."""
    error = _check_commit(group, request)
    if error:
        decision.reply(send, refused_commit(request, error))
        return
    member = group.members.get(request.member_id)
    if member is not None:
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
            _complete(group, partition, committed, error)
            if error:
                answer.error_code = commit_error(error)
        decision.reply(send, response)

    decision.append(records, stored)


def _check_commit(group: Group, request: OffsetCommitRequest) -> ErrorCode:
    generation_id = request.generation_id_or_member_epoch
    if group.state is State.EMPTY and generation_id < 0:
        return ErrorCode.NONE
    if generation_id < 0 and not request.member_id and request.group_instance_id is None:
        # In a group with members only members commit.
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.check_member(request.member_id, request.group_instance_id)
    if error:
        return error
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    # While a rebalance is prepared, members commit offsets of partitions that they are about to lose.
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.COMPLETING_REBALANCE else ErrorCode.NONE


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


def _complete(group: Group, partition: TopicPartition, committed: CommittedOffset, error: ErrorCode) -> None:
    pending = group.pending_offsets.get(partition)
    if pending is None or committed.order not in pending:
        # Deleted since then: its tombstone follows it in the log.
        return
    pending.remove(committed.order)
    if not pending:
        del group.pending_offsets[partition]
    if not error:
        put(group, partition, committed)


def put(group: Group, partition: TopicPartition, committed: CommittedOffset) -> None:
    """Set a committed offset, unless a later commit counts already."""
    known = group.offsets.get(partition)
    if known is None or known.order < committed.order:
        group.offsets[partition] = committed


def refused_commit(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
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
    unstable = require_stable and group is not None and partition in group.pending_offsets
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
    tombstones: list[Record] = []
    for partition in dict.fromkeys(partitions):
        pending = group.pending_offsets.pop(partition, None)
        if group.offsets.pop(partition, None) is not None or pending is not None:
            tombstones.append((offset_key(group.group_id, partition.topic, partition.partition), None))
    return tombstones


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
        if partition.topic not in kept_topics and partition not in group.pending_offsets and is_expired(committed.value)
    ]
