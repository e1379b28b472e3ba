"""The coordinator at work: finds the shard of a group, and carries out what is decided.

Owns which partitions of __consumer_offsets are served, loaded or neither, and when offsets are looked through for
expired ones. It must not know a rule of groups, nor how a log is written: `OffsetsLog` is what it needs of one.
Counterparts in Kafka: GroupCoordinatorAdapter, CoordinatorRuntime, and the purgatories of the classic coordinator.
"""

import logging
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Any, Final, Protocol

import trio

from ottla.coordinator import offsets, rebalance
from ottla.coordinator.config import GroupConfig
from ottla.coordinator.effects import Append, Caller, CancelTimer, Decision, Effect, Record, Reply, TimerKey
from ottla.coordinator.group_shard import GroupShard
from ottla.coordinator.records import UnknownRecordError
from ottla.coordinator.timers import CallLater, Timers
from ottla.wire.errors import DecodeError, ErrorCode
from ottla.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

__all__ = ["Caller", "GroupCoordinator", "OffsetsLog"]

logger = logging.getLogger("kafka.coordinator.group.GroupMetadataManager")

_CLASSIC: Final = "classic"
# The first versions in which a response has the field that these name.
_NULL_PROTOCOL_FROM: Final = 7
_MANY_LEAVE_FROM: Final = 3
_FETCH_ERROR_FROM: Final = 2
_FETCH_MANY_FROM: Final = 8


class OffsetsLog(Protocol):
    """What the coordinator needs of __consumer_offsets."""

    def append(self, partition: int, records: Sequence[Record], done: Callable[[ErrorCode], None]) -> None:
        """Append the records in one batch; `done` once, when it is committed or has failed. Raises nothing."""


class _Partition:
    """A partition of __consumer_offsets that this broker leads."""

    __slots__ = ("leader_epoch", "loading", "shard")

    def __init__(self, leader_epoch: int, shard: GroupShard) -> None:
        self.leader_epoch = leader_epoch
        self.shard = shard
        self.loading = True


def _random_member_id(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4()}"


@lru_cache(maxsize=4096)
def _java_hash(text: str) -> int:
    """What Java's String.hashCode says, made positive as Kafka makes it."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    # The sign bit set means a negative number; of those the lowest has no positive counterpart.
    if value & 0x80000000:
        value = 0x100000000 - value
    return value & 0x7FFFFFFF


class GroupCoordinator:
    """The groups whose partitions of __consumer_offsets this broker leads.

    Every request is a call that does not wait; its `reply` is called once, now or later, and must not raise.
    """

    def __init__(
        self,
        log: OffsetsLog,
        config: GroupConfig,
        *,
        now_ms: Callable[[], int],
        call_later: CallLater,
        partition_count: Callable[[], int | None],
        new_member_id: Callable[[str], str] = _random_member_id,
    ) -> None:
        self._log = log
        self._config = config
        self._now_ms = now_ms
        self._partition_count = partition_count
        self._new_member_id = new_member_id
        self._partitions: dict[int, _Partition] = {}
        self._timers: Timers[tuple[int, TimerKey]] = Timers(call_later, self._fire)
        self._decided: deque[tuple[tuple[int, GroupShard], Sequence[Effect]]] = deque()
        self._performing = False
        self._active = True

    def partition_for(self, group_id: str) -> int | None:
        """The partition that keeps a group; None while there is no __consumer_offsets."""
        count = self._partition_count()
        return None if count is None else _java_hash(group_id) % count

    # ------------------------------------------------------------------------------------------------ membership

    def join_group(self, caller: Caller, request: JoinGroupRequest, reply: Callable[[JoinGroupResponse], None]) -> None:
        """Answered when the rebalance that it begins, or takes part in, has gathered its members."""
        if caller.api_version < _NULL_PROTOCOL_FROM:
            reply = partial(_with_protocol_name, reply)
        found = self._find(request.group_id)
        if isinstance(found, ErrorCode):
            reply(rebalance.join_error(found, request.member_id))
        else:
            self._decide(found, found[1].join_group, caller, request, reply)

    def sync_group(
        self, _caller: Caller, request: SyncGroupRequest, reply: Callable[[SyncGroupResponse], None]
    ) -> None:
        """Answered when the leader's assignment is committed."""
        found = self._find(request.group_id)
        if found is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # Old clients do not expect that one here. Whatever rebalance they are in has been lost anyway.
            found = ErrorCode.REBALANCE_IN_PROGRESS
        if isinstance(found, ErrorCode):
            reply(rebalance.sync_error(found))
        else:
            self._decide(found, found[1].sync_group, request, reply)

    def heartbeat(self, _caller: Caller, request: HeartbeatRequest, reply: Callable[[HeartbeatResponse], None]) -> None:
        """Answered at once."""
        found = self._find(request.group_id)
        if isinstance(found, ErrorCode):
            # While groups are loaded nobody is missed.
            error = ErrorCode.NONE if found is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else found
        else:
            error = self._decide(found, found[1].heartbeat, request)
        reply(HeartbeatResponse(error_code=error))

    def leave_group(
        self, caller: Caller, request: LeaveGroupRequest, reply: Callable[[LeaveGroupResponse], None]
    ) -> None:
        """Answered at once."""
        many = caller.api_version >= _MANY_LEAVE_FROM
        found = self._find(request.group_id)
        if isinstance(found, ErrorCode):
            reply(LeaveGroupResponse(error_code=found))
            return
        leaving = request.members if many else [MemberIdentity(member_id=request.member_id)]
        members = self._decide(found, found[1].leave_group, request, leaving)
        if many:
            reply(LeaveGroupResponse(error_code=ErrorCode.NONE, members=members))
        else:
            reply(LeaveGroupResponse(error_code=members[0].error_code))

    # --------------------------------------------------------------------------------------------------- offsets

    def offset_commit(
        self, _caller: Caller, request: OffsetCommitRequest, reply: Callable[[OffsetCommitResponse], None]
    ) -> None:
        """Answered when the offsets are committed to the log."""
        found = self._find(request.group_id, may_be_empty=True)
        if isinstance(found, ErrorCode):
            reply(offsets.refused_commit(request, found))
        else:
            self._decide(found, found[1].offset_commit, request, reply)

    def offset_fetch(
        self, caller: Caller, request: OffsetFetchRequest, reply: Callable[[OffsetFetchResponse], None]
    ) -> None:
        """Answered at once."""
        version = caller.api_version
        if version >= _FETCH_MANY_FROM:
            groups = [self._fetch(each, request.require_stable) for each in request.groups]
            reply(OffsetFetchResponse(groups=groups))
            return
        error, topics = self._fetch_topics(request.group_id, request.topics, request.require_stable)
        if error and version < _FETCH_ERROR_FROM:
            # The first versions have no other place for it than each partition.
            topics = [
                OffsetFetchResponseTopics(
                    name=topic.name, partitions=[_fetch_failed(each, error) for each in topic.partition_indexes]
                )
                for topic in request.topics or ()
            ]
        reply(OffsetFetchResponse(error_code=error, topics=[_of_one_group(topic) for topic in topics]))

    def _fetch(self, group: OffsetFetchRequestGroup, require_stable: bool) -> OffsetFetchResponseGroup:
        error, topics = self._fetch_topics(group.group_id, group.topics, require_stable)
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics, error_code=error)

    def _fetch_topics(
        self, group_id: str, topics: offsets.FetchTopics | None, require_stable: bool
    ) -> tuple[ErrorCode, list[OffsetFetchResponseTopics]]:
        found = self._find(group_id, may_be_empty=True)
        if isinstance(found, ErrorCode):
            return found, []
        return ErrorCode.NONE, found[1].offset_fetch(group_id, topics, require_stable)

    def offset_delete(
        self, _caller: Caller, request: OffsetDeleteRequest, reply: Callable[[OffsetDeleteResponse], None]
    ) -> None:
        """Answered when the tombstones are committed."""
        found = self._find(request.group_id)
        if isinstance(found, ErrorCode):
            reply(OffsetDeleteResponse(error_code=found, topics=()))
        else:
            self._decide(found, found[1].offset_delete, request, reply)

    # ------------------------------------------------------------------------------------------ for administrators

    def describe_groups(
        self, _caller: Caller, request: DescribeGroupsRequest, reply: Callable[[DescribeGroupsResponse], None]
    ) -> None:
        """Answered at once."""
        reply(DescribeGroupsResponse(groups=[self._describe(group_id) for group_id in request.groups]))

    def _describe(self, group_id: str) -> DescribedGroup:
        found = self._find(group_id, may_be_empty=True)
        if not isinstance(found, ErrorCode):
            return found[1].describe(group_id)
        return DescribedGroup(
            error_code=found, group_id=group_id, group_state="", protocol_type="", protocol_data="", members=()
        )

    def list_groups(
        self, _caller: Caller, request: ListGroupsRequest, reply: Callable[[ListGroupsResponse], None]
    ) -> None:
        """Answered at once; with an error beside the groups that are known while others are being loaded."""
        if not self._active:
            reply(ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, groups=()))
            return
        partitions = list(self._partitions.values())
        loading = any(partition.loading for partition in partitions)
        states = {state.lower() for state in request.states_filter}
        types = {kind.lower() for kind in request.types_filter}
        groups = [
            group
            for partition in partitions
            if not partition.loading and (not types or _CLASSIC in types)
            for group in partition.shard.list_groups()
            if not states or group.group_state.lower() in states
        ]
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.NONE
        reply(ListGroupsResponse(error_code=error, groups=groups))

    def delete_groups(
        self, _caller: Caller, request: DeleteGroupsRequest, reply: Callable[[DeleteGroupsResponse], None]
    ) -> None:
        """Answered when all that could be deleted is so in the log."""
        group_ids = list(dict.fromkeys(request.groups_names))
        errors: dict[str, ErrorCode] = {}

        def answer(group_id: str, error: ErrorCode) -> None:
            errors[group_id] = error
            if len(errors) == len(group_ids):
                results = [DeletableGroupResult(group_id=each, error_code=errors[each]) for each in group_ids]
                reply(DeleteGroupsResponse(results=results))

        if not group_ids:
            reply(DeleteGroupsResponse(results=()))
        for group_id in group_ids:
            found = self._find(group_id, may_be_empty=True)
            if isinstance(found, ErrorCode):
                answer(group_id, found)
            else:
                self._decide(found, found[1].delete_group, group_id, partial(answer, group_id))

    # -------------------------------------------------------------------------------------------- roles and loading

    def begin_loading(self, partition: int, leader_epoch: int) -> bool:
        """This broker leads the partition: whether its groups are to be loaded now. Until then nobody can ask for them.

        Not if an equal or newer epoch is loaded, or being so, and not if an older one is loaded: then this broker has
        led all along, and what it holds is what the log holds.
        """
        known = self._partitions.get(partition)
        if known is not None and (not known.loading or known.leader_epoch >= leader_epoch):
            known.leader_epoch = max(known.leader_epoch, leader_epoch)
            return False
        self._partitions[partition] = _Partition(leader_epoch, GroupShard(self._new_member_id))
        return True

    def is_loading(self, partition: int, leader_epoch: int) -> bool:
        """Whether the loader of that epoch is to go on."""
        return self._loading(partition, leader_epoch) is not None

    def replay(self, partition: int, leader_epoch: int, key: bytes, value: bytes | None) -> None:
        """Take in one record, in the order of the log. Nothing happens unless that epoch is loading."""
        loading = self._loading(partition, leader_epoch)
        if loading is None:
            return
        try:
            loading.shard.replay(key, value, self._now_ms())
        except (UnknownRecordError, DecodeError) as error:
            logger.warning("Ignoring a record while loading __consumer_offsets-%d: %s", partition, error)

    def loaded(self, partition: int, leader_epoch: int) -> None:
        """All records have been replayed: serve. Nothing happens unless that epoch is loading."""
        loading = self._loading(partition, leader_epoch)
        if loading is not None:
            loading.loading = False
            self._decide((partition, loading.shard), loading.shard.loaded)
            count = len(loading.shard.groups)
            level = logging.INFO if count else logging.DEBUG
            logger.log(level, "Loaded %d groups of __consumer_offsets-%d", count, partition)

    def unload(self, partition: int, leader_epoch: int | None = None) -> None:
        """This broker leads the partition no longer. Nothing happens if a newer epoch is loaded, or being so."""
        known = self._partitions.get(partition)
        if known is None or (leader_epoch is not None and leader_epoch < known.leader_epoch):
            return
        # What is decided from here on, such as answers to commits, is for requests alone.
        self._decide((partition, known.shard), known.shard.unload)
        del self._partitions[partition]
        self._timers.cancel_all(lambda key: key[0] == partition)

    def topics_deleted(self, names: Iterable[str]) -> None:
        """Forget the offsets for these topics."""
        gone = frozenset(names)
        for number, partition in list(self._partitions.items()):
            if not partition.loading:
                self._decide((number, partition.shard), partition.shard.topics_deleted, gone)

    def shut_down(self) -> None:
        """Serve nobody any more."""
        self._active = False
        for partition in list(self._partitions):
            self.unload(partition)

    def _loading(self, partition: int, leader_epoch: int) -> _Partition | None:
        known = self._partitions.get(partition)
        return known if known is not None and known.loading and known.leader_epoch == leader_epoch else None

    def _find(self, group_id: str, *, may_be_empty: bool = False) -> tuple[int, GroupShard] | ErrorCode:
        """The shard of a group, or why there is none. Offsets could once be kept without naming a group."""
        if not group_id and not may_be_empty:
            return ErrorCode.INVALID_GROUP_ID
        if not self._active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        number = self.partition_for(group_id)
        partition = None if number is None else self._partitions.get(number)
        if number is None or partition is None:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if partition.loading else (number, partition.shard)

    # ------------------------------------------------------------------------------------------------------ effects

    def _decide(self, where: tuple[int, GroupShard], function: Callable[..., Any], *arguments: Any) -> Any:
        """Let an event be decided and carry the effects out, in the order in which they were decided."""
        decision = Decision(self._config, self._now_ms())
        result = function(decision, *arguments)
        self._decided.append((where, decision.effects))
        # An effect may cause an event, such as an append that is committed at once: its effects come after ours.
        if not self._performing:
            self._performing = True
            while self._decided:
                where, effects = self._decided.popleft()
                for effect in effects:
                    try:
                        self._perform(where, effect)
                    except Exception:
                        # The others wait for theirs.
                        logger.exception("An effect could not be carried out")
            self._performing = False
        return result

    def _perform(self, where: tuple[int, GroupShard], effect: Effect) -> None:
        number, shard = where
        if isinstance(effect, Reply):
            effect.send(effect.response)
        elif isinstance(effect, Append):
            self._log.append(number, effect.records, partial(self._decide, where, effect.then))
        elif isinstance(effect, CancelTimer):
            self._timers.cancel((number, effect.key))
        elif (partition := self._partitions.get(number)) is not None and partition.shard is shard:
            self._timers.set((number, effect.key), effect.delay_ms)

    def _fire(self, key: tuple[int, TimerKey]) -> None:
        number, timer = key
        partition = self._partitions[number]
        self._decide((number, partition.shard), partition.shard.timer_fired, timer)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Let offsets expire, until cancelled."""
        task_status.started()
        while True:
            await trio.sleep(self._config.retention_check_interval_ms / 1000)
            for number, partition in list(self._partitions.items()):
                if not partition.loading and self._partitions.get(number) is partition:
                    try:
                        self._decide((number, partition.shard), partition.shard.expire)
                    except Exception:
                        logger.exception("Offsets of __consumer_offsets-%d could not expire", number)
                # Many groups take their time: others go first.
                await trio.lowlevel.checkpoint()


def _with_protocol_name(reply: Callable[[JoinGroupResponse], None], response: JoinGroupResponse) -> None:
    """Old versions have no null there."""
    if response.protocol_name is None:
        response.protocol_name = ""
    reply(response)


def _fetch_failed(partition: int, error: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition_index=partition, committed_offset=-1, metadata="", error_code=error)


def _of_one_group(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    """The same in the words of the versions that knew one group."""
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
