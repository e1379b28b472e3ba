"""The groups of one partition of __consumer_offsets.

Owns which groups and transactions exist, the answers for groups that do not, and the replay of records. Must not know
where the records are, or the time between two events. Counterparts in Kafka: the cache of GroupMetadataManager,
GroupCoordinatorShard.
"""

from collections.abc import Callable, Iterable, Sequence

from ottla.coordinator import joining, offsets, rebalance
from ottla.coordinator.config import GroupConfig
from ottla.coordinator.effects import Caller, Decision, Producer, Record, Send
from ottla.coordinator.group import CommittedOffset, Group, Member, State, TimerKey, Transaction
from ottla.coordinator.records import (
    CONSUMER_PROTOCOL,
    GroupKey,
    group_key,
    read_group_value,
    read_key,
    read_offset_value,
)
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import MemberIdentity, MemberResponse
from ottla.wire.messages.list_groups import ListedGroup
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.wire.messages.offset_fetch import OffsetFetchResponseTopics
from ottla.wire.messages.sync_group import SyncGroupRequest
from ottla.wire.types import TopicPartition


class GroupShard:
    """The groups of one partition of `__consumer_offsets`.

    A method with a parameter `decision` adds the effects of one event to it. All other public methods only read.
    """

    def __init__(self, config: GroupConfig, new_member_id: Callable[[str], str]) -> None:
        self.groups: dict[str, Group] = {}
        self._config = config
        self._new_member_id = new_member_id
        self._order = 0
        # The open transactions that commit offsets, by producer id.
        self._transactions: dict[int, Transaction] = {}

    # ------------------------------------------------------------------------------------------------ membership

    def join_group(self, decision: Decision, caller: Caller, request: JoinGroupRequest, send: Send) -> None:
        """Decide a join. The first member of a group creates it."""
        config = self._config
        if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
            decision.reply(send, rebalance.join_error(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
            return
        group = self.groups.get(request.group_id)
        if group is None:
            if request.member_id:
                decision.reply(send, rebalance.join_error(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
                return
            group = self._create(request.group_id, decision.now_ms)
        joining.join(decision, group, joining.Joining(caller, request, send), self._new_member_id)

    def sync_group(self, decision: Decision, request: SyncGroupRequest, send: Send) -> None:
        """Decide a sync."""
        group = self.groups.get(request.group_id)
        if group is None:
            decision.reply(send, rebalance.sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            rebalance.sync(decision, group, request, send)

    def heartbeat(self, decision: Decision, request: HeartbeatRequest) -> ErrorCode:
        """Restart the session of a member."""
        group = self.groups.get(request.group_id)
        return ErrorCode.UNKNOWN_MEMBER_ID if group is None else rebalance.heartbeat(decision, group, request)

    def leave_group(self, decision: Decision, group_id: str, leaving: Sequence[MemberIdentity]) -> list[MemberResponse]:
        """Remove members."""
        return rebalance.leave(decision, self.groups.get(group_id), leaving)

    def timer_fired(self, decision: Decision, key: TimerKey) -> None:
        """Decide what follows from a timer that is due."""
        group = self.groups.get(key.group_id)
        if group is None:
            return
        if key.kind == "member":
            rebalance.member_timed_out(decision, group, key.member_id)
        elif key.kind == "join":
            rebalance.join_timed_out(decision, group)
        else:
            rebalance.sync_timed_out(decision, group)

    # ---------------------------------------------------------------------------------------------------- offsets

    def offset_commit(self, decision: Decision, request: OffsetCommitRequest, send: Send) -> None:
        """Commit offsets. The first commit of a client without members creates a group."""
        group = self.groups.get(request.group_id)
        if group is None:
            if request.generation_id_or_member_epoch >= 0:
                decision.reply(send, offsets.refused_commit(request, ErrorCode.ILLEGAL_GENERATION))
                return
            group = self._create(request.group_id, decision.now_ms)
        offsets.commit(decision, group, request, self._next_order(), send)

    def begin_txn_commit(self, decision: Decision, group_id: str) -> None:
        """Create a group that is unknown: as in Kafka it exists even if the commit is refused, until groups expire."""
        if group_id not in self.groups:
            self._create(group_id, decision.now_ms)

    def txn_offset_commit(
        self, decision: Decision, request: OffsetCommitRequest, producer: Producer, send: Send
    ) -> None:
        """Commit offsets in a transaction. The group may have been deleted since `begin_txn_commit`."""
        group = self.groups.get(request.group_id) or self._create(request.group_id, decision.now_ms)
        transaction = self._transaction(producer.producer_id)
        offsets.commit(decision, group, request, self._next_order(), send, producer=producer, transaction=transaction)

    def transaction_ended(self, producer_id: int, *, is_commit: bool) -> None:
        """Let the offsets of a producer's transaction count, or drop them. Those being appended follow later."""
        transaction = self._transactions.pop(producer_id, None)
        if transaction is None:
            return
        transaction.is_commit = is_commit
        for group_id in transaction.group_ids:
            group = self.groups.get(group_id)
            if group is not None:
                offsets.end_transaction(group, producer_id, is_commit=is_commit)

    def _transaction(self, producer_id: int) -> Transaction:
        transaction = self._transactions.get(producer_id)
        if transaction is None:
            transaction = self._transactions[producer_id] = Transaction(producer_id)
        return transaction

    def offset_fetch(
        self, group_id: str, topics: offsets.FetchTopics | None, require_stable: bool
    ) -> list[OffsetFetchResponseTopics]:
        """Return committed offsets."""
        return offsets.fetch(self.groups.get(group_id), topics, require_stable)

    def offset_delete(self, decision: Decision, request: OffsetDeleteRequest, send: Send) -> None:
        """Delete committed offsets, except for topics that the group is subscribed to."""
        group = self.groups.get(request.group_id)
        if group is None or (group.state is not State.EMPTY and group.protocol_type != CONSUMER_PROTOCOL):
            error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else ErrorCode.NON_EMPTY_GROUP
            decision.reply(send, OffsetDeleteResponse(error_code=error, topics=()))
            return
        errors = {topic.name: offsets.may_delete(group, topic.name) for topic in request.topics}
        deleted = [
            TopicPartition(topic.name, each.partition_index)
            for topic in request.topics
            if not errors[topic.name]
            for each in topic.partitions
        ]

        def stored(decision: Decision, error: ErrorCode) -> None:
            topics = [
                OffsetDeleteResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetDeleteResponsePartition(
                            partition_index=each.partition_index,
                            error_code=errors[topic.name] or offsets.commit_error(error),
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
            decision.reply(send, OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics))

        if deleted:
            self._delete(decision, group, deleted, stored)
        else:
            stored(decision, ErrorCode.NONE)

    def topics_deleted(self, decision: Decision, names: frozenset[str]) -> None:
        """Delete the offsets of deleted topics. As in Kafka, all groups without offsets and members are deleted too."""
        for group in list(self.groups.values()):
            gone = [each for each in group.partitions_with_offsets if each.topic in names]
            self._delete(decision, group, gone, _no_reply)

    def expire(self, decision: Decision) -> None:
        """Delete expired offsets, and groups without offsets and members."""
        for group in list(self.groups.values()):
            self._delete(decision, group, offsets.expired(group, decision.now_ms), _no_reply)

    def _delete(
        self,
        decision: Decision,
        group: Group,
        partitions: Iterable[TopicPartition],
        then: Callable[[Decision, ErrorCode], None],
    ) -> None:
        """Delete offsets, and the group if it has no others and no members. `then` decides when that is committed."""
        tombstones: list[Record] = offsets.delete(group, partitions)
        if group.state is State.EMPTY and not group.has_offsets:
            group.transition_to(State.DEAD, decision.now_ms)
            del self.groups[group.group_id]
            if group.generation_id > 0:
                tombstones.append((group_key(group.group_id), None))
        if tombstones:
            decision.append(tombstones, then)
        else:
            then(decision, ErrorCode.NONE)

    # ------------------------------------------------------------------------------------------- for administrators

    def describe(self, group_id: str) -> DescribedGroup:
        """Return state and members of a group. An unknown group is dead."""
        group = self.groups.get(group_id)
        stable = group is not None and group.state is State.STABLE
        return DescribedGroup(
            error_code=ErrorCode.NONE,
            group_id=group_id,
            group_state=(State.DEAD if group is None else group.state).value,
            protocol_type=(group and group.protocol_type) or "",
            protocol_data=(group and stable and group.protocol_name) or "",
            members=[] if group is None else [_described(group, each, stable) for each in group.members.values()],
        )

    def list_groups(self) -> list[ListedGroup]:
        """Return all groups."""
        return [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type="classic",
            )
            for group in self.groups.values()
        ]

    def delete_group(self, decision: Decision, group_id: str, send: Callable[[ErrorCode], None]) -> None:
        """Delete a group without members. `send` takes an error code."""
        group = self.groups.get(group_id)
        if group is None:
            decision.reply(send, ErrorCode.GROUP_ID_NOT_FOUND)
        elif group.state is not State.EMPTY:
            decision.reply(send, ErrorCode.NON_EMPTY_GROUP)
        else:
            everything = group.partitions_with_offsets
            self._delete(
                decision, group, everything, lambda later, error: later.reply(send, offsets.commit_error(error))
            )

    # --------------------------------------------------------------------------------------------------- the log

    def replay(self, key: bytes, value: bytes | None, now_ms: int, offset: int, producer_id: int | None = None) -> None:
        """Apply one record. Raises DecodeError for a record that cannot be read."""
        self._order = max(self._order, offset)
        parsed = read_key(key)
        known = self.groups.get(parsed.group_id)
        if isinstance(parsed, GroupKey):
            group_value = None if value is None else read_group_value(value)
            group = self._create(parsed.group_id, now_ms)
            if known is not None:
                group.offsets = known.offsets
                group.transactional_offsets = known.transactional_offsets
            if group_value is not None:
                group.load(group_value)
            return
        partition = TopicPartition(parsed.topic, parsed.partition)
        if value is None:
            if known is not None:
                offsets.forget(known, partition)
            return
        committed = CommittedOffset(read_offset_value(value), offset)
        group = known or self._create(parsed.group_id, now_ms)
        if producer_id is None:
            offsets.put(group.offsets, partition, committed)
        else:
            offsets.write(group, self._transaction(producer_id), partition, committed)

    def loaded(self, decision: Decision) -> int:
        """Drop groups that were deleted, and start the sessions of the others. Returns how many groups there are."""
        for group in list(self.groups.values()):
            if group.generation_id == 0 and not group.has_offsets:
                del self.groups[group.group_id]
            else:
                rebalance.start(decision, group)
        return len(self.groups)

    def unload(self, decision: Decision) -> None:
        """Drop all groups, because another broker coordinates them."""
        for group in self.groups.values():
            rebalance.stop(decision, group)
        self.groups.clear()
        self._transactions.clear()

    def _create(self, group_id: str, now_ms: int) -> Group:
        group = self.groups[group_id] = Group(group_id, self._config, now_ms)
        return group

    def _next_order(self) -> int:
        self._order += 1
        return self._order


def _described(group: Group, member: Member, stable: bool) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=group.metadata_of(member) if stable else b"",
        member_assignment=member.assignment if stable else b"",
    )


def _no_reply(_: Decision, __: ErrorCode) -> None:
    """If the tombstones are lost, the next expiry deletes again."""
