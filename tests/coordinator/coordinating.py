"""One shard of the coordinator without a clock, a log or a network: the effects of its decisions are recorded."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ottla.coordinator.config import GroupConfig
from ottla.coordinator.effects import Append, Caller, CancelTimer, Decision, Producer, Record, Reply, SetTimer
from ottla.coordinator.group import Group, TimerKey
from ottla.coordinator.group_shard import GroupShard
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import MemberIdentity
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from ottla.wire.types import TopicPartition

GROUP = "readers"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
START_MS = 1_700_000_000_000
PROTOCOLS = {"range": b"meta"}
DEFAULTS = GroupConfig()


class Marker(NamedTuple):
    """The end of a transaction in the log."""

    producer_id: int
    is_commit: bool


class Answer:
    """The responses to one request: none while it is parked, then one."""

    def __init__(self) -> None:
        self.responses: list[Any] = []

    def __call__(self, response: Any) -> None:
        self.responses.append(response)

    @property
    def parked(self) -> bool:
        return not self.responses

    @property
    def response(self) -> Any:
        assert len(self.responses) == 1, f"{len(self.responses)} answers"
        return self.responses[0]

    @property
    def error(self) -> ErrorCode:
        return ErrorCode(self.response.error_code)


def commit_request(
    offsets: dict[TopicPartition, int],
    member_id: str,
    generation: int,
    *,
    instance: str | None,
    metadata: str | None,
    group: str,
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=offset, committed_metadata=metadata
                    )
                ],
            )
            for (topic, partition), offset in offsets.items()
        ],
    )


def replay(shard: GroupShard, batches: Iterable[Append | Marker], now_ms: int = 0, first_offset: int = 0) -> int:
    """Replay batches in the order of the log. Returns the offset behind them."""
    offset = first_offset
    for batch in batches:
        if isinstance(batch, Marker):
            shard.transaction_ended(batch.producer_id, is_commit=batch.is_commit)
            offset += 1
            continue
        for key, value in batch.records:
            shard.replay(key, value, now_ms, offset, None if batch.producer is None else batch.producer.producer_id)
            offset += 1
    return offset


class Coordinating:
    """A shard, its timers, its log, and time. Appends are committed at once unless `holding`.

    `log` has the records of committed appends. `batches` is the same with transactions; it has the held appends too.
    """

    def __init__(self, config: GroupConfig = DEFAULTS, shard: GroupShard | None = None) -> None:
        self.config = config
        self.now_ms = START_MS
        self.ids = 0
        self.shard = shard or GroupShard(config, self.new_member_id)
        self.timers: dict[TimerKey, int] = {}
        self.log: list[Record] = []
        self.batches: list[Append | Marker] = []
        self.holding = False
        self.held: list[Append] = []
        self.failing = ErrorCode.NONE

    def new_member_id(self, prefix: str) -> str:
        self.ids += 1
        return f"{prefix}-{self.ids}"

    @property
    def group(self) -> Group:
        return self.shard.groups[GROUP]

    def decide(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Decide one event and carry out its effects."""
        decision = Decision(self.now_ms)
        result = function(decision, *arguments)
        for effect in decision.effects:
            if isinstance(effect, Reply):
                effect.send(effect.response)
            elif isinstance(effect, SetTimer):
                assert isinstance(effect.key, TimerKey)
                self.timers[effect.key] = self.now_ms + effect.delay_ms
            elif isinstance(effect, CancelTimer):
                assert isinstance(effect.key, TimerKey)
                self.timers.pop(effect.key, None)
            elif isinstance(effect, Append):
                self.append(effect)
        return result

    def append(self, effect: Append) -> None:
        self.batches.append(effect)
        if self.holding:
            self.held.append(effect)
        else:
            self.finish(effect, self.failing)

    def finish(self, appended: Append, error: ErrorCode = ErrorCode.NONE) -> None:
        if error:
            self.batches = [each for each in self.batches if each is not appended]
        else:
            self.log.extend(appended.records)
        self.decide(appended.then, error)

    def release(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """End all held appends, in their order."""
        held, self.held = self.held, []
        for appended in held:
            self.finish(appended, error)

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass. Timers fire when they are due."""
        end = self.now_ms + milliseconds
        while self.timers:
            key, due = min(self.timers.items(), key=lambda item: item[1])
            if due > end:
                break
            self.now_ms = max(self.now_ms, due)
            del self.timers[key]
            self.decide(self.shard.timer_fired, key)
        self.now_ms = end

    # ---------------------------------------------------------------------------------------------- requests

    def join(
        self,
        member_id: str = "",
        *,
        client: str = "client",
        instance: str | None = None,
        protocols: dict[str, bytes] | None = None,
        protocol_type: str = "consumer",
        version: int = 9,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        group: str = GROUP,
        reason: str | None = None,
    ) -> Answer:
        request = JoinGroupRequest(
            group_id=group,
            reason=reason,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in (PROTOCOLS if protocols is None else protocols).items()
            ],
        )
        answer = Answer()
        self.decide(self.shard.join_group, Caller(client, "/127.0.0.1", version), request, answer)
        return answer

    def enter(self, **arguments: Any) -> tuple[str, Answer]:
        """Join as a new member does: get an id first, then join with it."""
        if arguments.get("instance") is not None:
            answer = self.join(**arguments)
            return self.group.static_members[arguments["instance"]], answer
        member_id: str = self.join(**arguments).response.member_id
        return member_id, self.join(member_id, **arguments)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> Answer:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=assignment)
                for each, assignment in (assignments or {}).items()
            ],
        )
        answer = Answer()
        self.decide(self.shard.sync_group, request, answer)
        return answer

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        error: ErrorCode = self.decide(self.shard.heartbeat, request)
        return error

    def leave(self, *leaving: tuple[str, str | None], reason: str | None = None) -> list[ErrorCode]:
        identities = [
            MemberIdentity(member_id=each, group_instance_id=instance, reason=reason) for each, instance in leaving
        ]
        return [ErrorCode(each.error_code) for each in self.decide(self.shard.leave_group, GROUP, identities)]

    def commit(
        self,
        offsets: dict[TopicPartition, int],
        member_id: str = "",
        generation: int = -1,
        *,
        instance: str | None = None,
        metadata: str | None = "",
        retention_ms: int = -1,
        group: str = GROUP,
    ) -> Answer:
        request = commit_request(offsets, member_id, generation, instance=instance, metadata=metadata, group=group)
        request.retention_time_ms = retention_ms
        answer = Answer()
        self.decide(self.shard.offset_commit, request, answer)
        return answer

    def commit_in_transaction(
        self,
        offsets: dict[TopicPartition, int],
        producer_id: int = 1,
        member_id: str = "",
        generation: int = -1,
        *,
        instance: str | None = None,
        metadata: str | None = "",
        group: str = GROUP,
    ) -> Answer:
        request = commit_request(offsets, member_id, generation, instance=instance, metadata=metadata, group=group)
        answer = Answer()
        self.decide(self.shard.txn_offset_commit, request, Producer(producer_id, 0), answer)
        return answer

    def end_transaction(self, producer_id: int = 1, *, commit: bool) -> None:
        """Append a marker."""
        self.batches.append(Marker(producer_id, commit))
        self.shard.transaction_ended(producer_id, is_commit=commit)

    def committed(self, group: str = GROUP, *, stable: bool = False) -> dict[TopicPartition, int]:
        """Return all committed offsets of a group."""
        return {
            TopicPartition(topic.name, each.partition_index): each.committed_offset
            for topic in self.shard.offset_fetch(group, None, stable)
            for each in topic.partitions
        }

    # ---------------------------------------------------------------------------------------------- whole stories

    def stable_group(self, members: int = 1, **arguments: Any) -> list[str]:
        """Make a group that has assigned b"a0", b"a1", ... to its members. The first one leads."""
        entered = [self.enter(**arguments) for _ in range(members)]
        for _ in range(100):
            if not any(answer.parked for _, answer in entered):
                break
            self.pass_time(1_000)
        self.settle([member_id for member_id, _ in entered])
        for member_id, answer in entered:
            joined: JoinGroupResponse = answer.response
            assert (joined.error_code, joined.member_id) == (ErrorCode.NONE, member_id)
        return [member_id for member_id, _ in entered]

    def settle(self, member_ids: list[str]) -> list[SyncGroupResponse]:
        """Sync all members, the leader with an assignment."""
        assignments = {member_id: b"a%d" % number for number, member_id in enumerate(member_ids)}
        generation, leader = self.group.generation_id, self.group.leader_id
        name = self.group.protocol_name
        syncs = [
            self.sync(each, generation, assignments if each == leader else None, protocol_name=name)
            for each in member_ids
        ]
        return [each.response for each in syncs]
