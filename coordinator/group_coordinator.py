"""The requests of groups, each in all its versions, on the shards of __consumer_offsets.

Owns which shard a request goes to, the answer where there is none, and the differences between versions of requests.
Must not know a rule of groups, or when a partition is loaded: `group_shard` and `runtime` do. Counterparts in Kafka:
GroupCoordinatorAdapter, GroupCoordinatorService.
"""

import logging
import uuid
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from ottla.coordinator import offsets, rebalance
from ottla.coordinator.config import GroupConfig
from ottla.coordinator.effects import Caller, Producer
from ottla.coordinator.group_shard import GroupShard
from ottla.coordinator.runtime import CoordinatorLog, CoordinatorRuntime, LedPartition
from ottla.coordinator.timers import CallLater
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

logger = logging.getLogger("kafka.coordinator.group.GroupMetadataManager")

_CLASSIC: Final = "classic"
# The first versions of requests whose response has the named field.
_NULL_PROTOCOL_FROM: Final = 7
_MANY_LEAVE_FROM: Final = 3
_FETCH_ERROR_FROM: Final = 2
_FETCH_MANY_FROM: Final = 8


def _random_member_id(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4()}"


class GroupCoordinator:
    """The coordinator of all groups whose partitions of __consumer_offsets this broker leads.

    No method blocks. `reply` is called exactly once, now or later, and must not raise.
    """

    def __init__(
        self,
        log: CoordinatorLog,
        config: GroupConfig,
        *,
        now_ms: Callable[[], int],
        call_later: CallLater,
        partition_count: Callable[[], int | None],
        new_member_id: Callable[[str], str] = _random_member_id,
    ) -> None:
        self._check_interval_ms = config.retention_check_interval_ms
        self.runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            "__consumer_offsets",
            "groups",
            logger,
            log,
            lambda: GroupShard(config, new_member_id),
            now_ms=now_ms,
            call_later=call_later,
            partition_count=partition_count,
        )

    async def run(self) -> None:
        """Delete expired offsets, every `offsets.retention.check.interval.ms`, until cancelled."""
        await self.runtime.run(self._check_interval_ms, GroupShard.expire)

    def topics_deleted(self, names: Iterable[str]) -> None:
        """Delete the offsets of these topics."""
        deleted = frozenset(names)
        for led in self.runtime.served():
            self.runtime.decide(led, led.shard.topics_deleted, deleted)

    def _find(self, group_id: str) -> LedPartition[GroupShard] | ErrorCode:
        """Like `runtime.find`, for requests that need a group with a name. Old clients keep offsets without one."""
        return self.runtime.find(group_id) if group_id else ErrorCode.INVALID_GROUP_ID

    # ------------------------------------------------------------------------------------------------ membership

    def join_group(self, caller: Caller, request: JoinGroupRequest, reply: Callable[[JoinGroupResponse], None]) -> None:
        """Reply when the rebalance that the member begins, or joins, has gathered its members."""
        if caller.api_version < _NULL_PROTOCOL_FROM:
            reply = partial(_with_protocol_name, reply)
        found = self._find(request.group_id)
        if isinstance(found, ErrorCode):
            reply(rebalance.join_error(found, request.member_id))
        else:
            self.runtime.decide(found, found.shard.join_group, caller, request, reply)

    def sync_group(self, request: SyncGroupRequest, reply: Callable[[SyncGroupResponse], None]) -> None:
        """Reply when the assignment of the group's leader is committed."""
        found = self._find(request.group_id)
        if found is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # Old clients do not know that error here. The rebalance that they sync for is lost anyway.
            found = ErrorCode.REBALANCE_IN_PROGRESS
        if isinstance(found, ErrorCode):
            reply(rebalance.sync_error(found))
        else:
            self.runtime.decide(found, found.shard.sync_group, request, reply)

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        """Restart the session of a member."""
        found = self._find(request.group_id)
        if isinstance(found, ErrorCode):
            # No session ends while groups are loading.
            error = ErrorCode.NONE if found is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else found
        else:
            error = self.runtime.decide(found, found.shard.heartbeat, request)
        return HeartbeatResponse(error_code=error)

    def leave_group(self, request: LeaveGroupRequest, version: int) -> LeaveGroupResponse:
        """Remove members from a group."""
        many = version >= _MANY_LEAVE_FROM
        found = self._find(request.group_id)
        if isinstance(found, ErrorCode):
            return LeaveGroupResponse(error_code=found)
        leaving = request.members if many else [MemberIdentity(member_id=request.member_id)]
        members = self.runtime.decide(found, found.shard.leave_group, request.group_id, leaving)
        if many:
            return LeaveGroupResponse(error_code=ErrorCode.NONE, members=members)
        return LeaveGroupResponse(error_code=members[0].error_code)

    # --------------------------------------------------------------------------------------------------- offsets

    def offset_commit(self, request: OffsetCommitRequest, reply: Callable[[OffsetCommitResponse], None]) -> None:
        """Reply when the offsets are committed to the log."""
        found = self.runtime.find(request.group_id)
        if isinstance(found, ErrorCode):
            reply(offsets.refused_commit(request, found))
        else:
            self.runtime.decide(found, found.shard.offset_commit, request, reply)

    def begin_txn_commit(self, group_id: str) -> ErrorCode:
        """Create the group if it is unknown, before the transaction is verified. Returns an error if it is not here."""
        found = self._find(group_id)
        if isinstance(found, ErrorCode):
            return found
        self.runtime.decide(found, found.shard.begin_txn_commit, group_id)
        return ErrorCode.NONE

    def txn_offset_commit(
        self,
        request: TxnOffsetCommitRequest,
        version: int,
        reply: Callable[[TxnOffsetCommitResponse], None],
        guard: object = None,
    ) -> None:
        """Reply when the offsets are in the log. They count when their transaction commits. `guard`: see `Producer`."""
        found = self._find(request.group_id)
        if isinstance(found, ErrorCode):
            reply(refused_txn_commit(request, version, found))
        else:
            producer = Producer(request.producer_id, request.producer_epoch, guard)
            self.runtime.decide(
                found,
                found.shard.txn_offset_commit,
                _plain(request),
                producer,
                lambda response: reply(_of_transaction(response, version)),
            )

    def transaction_ended(self, partition: int, producer_id: int, is_commit: bool) -> None:
        """Let the offsets of a transaction count, or drop them, because its marker is in this partition of the log.

        Appends under way are taken for earlier than the marker: they count, or are dropped, when they end. Nothing
        happens while the partition is loading, because the replay comes to the marker.
        """
        for led in self.runtime.served():
            if led.number == partition:
                led.shard.transaction_ended(producer_id, is_commit=is_commit)

    def offset_delete(self, request: OffsetDeleteRequest, reply: Callable[[OffsetDeleteResponse], None]) -> None:
        """Reply when the tombstones are committed."""
        found = self._find(request.group_id)
        if isinstance(found, ErrorCode):
            reply(OffsetDeleteResponse(error_code=found, topics=()))
        else:
            self.runtime.decide(found, found.shard.offset_delete, request, reply)

    def delete_groups(self, request: DeleteGroupsRequest, reply: Callable[[DeleteGroupsResponse], None]) -> None:
        """Reply when the tombstones of all groups are committed, or have failed."""
        group_ids = list(dict.fromkeys(request.groups_names))
        errors: dict[str, ErrorCode] = {}

        def deleted(group_id: str, error: ErrorCode) -> None:
            errors[group_id] = error
            if len(errors) == len(group_ids):
                results = [DeletableGroupResult(group_id=each, error_code=errors[each]) for each in group_ids]
                reply(DeleteGroupsResponse(results=results))

        if not group_ids:
            reply(DeleteGroupsResponse(results=()))
        for group_id in group_ids:
            found = self.runtime.find(group_id)
            if isinstance(found, ErrorCode):
                deleted(group_id, found)
            else:
                self.runtime.decide(found, found.shard.delete_group, group_id, partial(deleted, group_id))

    # ----------------------------------------------------------------------------------------------------- reads

    def offset_fetch(self, request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
        """Return committed offsets."""
        stable = request.require_stable
        if version >= _FETCH_MANY_FROM:
            groups = [self._fetch(each.group_id, each.topics, stable) for each in request.groups]
            return OffsetFetchResponse(groups=groups)
        group = self._fetch(request.group_id, request.topics, stable)
        error = group.error_code
        if error and version < _FETCH_ERROR_FROM:
            # In these versions only a partition has an error.
            group.topics = [
                OffsetFetchResponseTopics(
                    name=topic.name, partitions=[_fetch_failed(each, error) for each in topic.partition_indexes]
                )
                for topic in request.topics or ()
            ]
        return OffsetFetchResponse(error_code=error, topics=[_of_one_group(topic) for topic in group.topics])

    def _fetch(
        self, group_id: str, topics: offsets.FetchTopics | None, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        found = self.runtime.find(group_id)
        if isinstance(found, ErrorCode):
            return OffsetFetchResponseGroup(group_id=group_id, topics=(), error_code=found)
        fetched = found.shard.offset_fetch(group_id, topics, require_stable)
        return OffsetFetchResponseGroup(group_id=group_id, topics=fetched, error_code=ErrorCode.NONE)

    def describe_groups(self, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        """Return states and members of groups."""
        return DescribeGroupsResponse(groups=[self._describe(group_id) for group_id in request.groups])

    def _describe(self, group_id: str) -> DescribedGroup:
        found = self.runtime.find(group_id)
        if not isinstance(found, ErrorCode):
            return found.shard.describe(group_id)
        return DescribedGroup(
            error_code=found, group_id=group_id, group_state="", protocol_type="", protocol_data="", members=()
        )

    def list_groups(self, request: ListGroupsRequest) -> ListGroupsResponse:
        """Return all groups. While a partition is loading, an error stands beside the groups of the others."""
        states = {state.lower() for state in request.states_filter}
        types = {kind.lower() for kind in request.types_filter}
        groups = [
            group
            for led in self.runtime.served()
            if not types or _CLASSIC in types
            for group in led.shard.list_groups()
            if not states or group.group_state.lower() in states
        ]
        return ListGroupsResponse(error_code=self.runtime.status(), groups=groups)


def _with_protocol_name(reply: Callable[[JoinGroupResponse], None], response: JoinGroupResponse) -> None:
    """Reply to an old version, which has no null protocol name."""
    if response.protocol_name is None:
        response.protocol_name = ""
    reply(response)


def refused_txn_commit(request: TxnOffsetCommitRequest, version: int, error: ErrorCode) -> TxnOffsetCommitResponse:
    """The response with one error for each partition, translated as for an error of the append."""
    return _of_transaction(offsets.refused_commit(request, error), version)


def _plain(request: TxnOffsetCommitRequest) -> OffsetCommitRequest:
    """Return the same as an OffsetCommit."""
    return OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=each.partition_index,
                        committed_offset=each.committed_offset,
                        committed_leader_epoch=each.committed_leader_epoch,
                        committed_metadata=each.committed_metadata,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _of_transaction(response: OffsetCommitResponse, version: int) -> TxnOffsetCommitResponse:
    """Return the same as the response of a TxnOffsetCommit."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index,
                        error_code=offsets.txn_commit_error(ErrorCode(each.error_code), version),
                    )
                    for each in topic.partitions
                ],
            )
            for topic in response.topics
        ]
    )


def _fetch_failed(partition: int, error: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition_index=partition, committed_offset=-1, metadata="", error_code=error)


def _of_one_group(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    """Return the same as a message of the versions that fetch for one group."""
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=each.partition_index,
                committed_offset=each.committed_offset,
                committed_leader_epoch=each.committed_leader_epoch,
                metadata=each.metadata,
                error_code=each.error_code,
            )
            for each in topic.partitions
        ],
    )
