"""A member of a classic consumer group: it joins, gets partitions, sends heartbeats, commits and leaves.

Owns the membership and the committed offsets. `consumer` reads the partitions. A rebalance (eager) runs only while
the caller waits in `next`, because then no partition is revoked in the middle of the caller's work.
Counterparts in Kafka: ClassicKafkaConsumer, AbstractCoordinator, ConsumerCoordinator.
"""

import math
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio

from ottla.client.admin.offsets import EARLIEST, LATEST
from ottla.client.cluster import ASK_ELSEWHERE, GROUP, Client, Coordinator, R, check, kafka_error
from ottla.client.connection import Connection
from ottla.client.consuming.assignors import ASSIGNORS, Member, chosen_assignors
from ottla.client.consuming.consumer import Chunk, Consumer
from ottla.client.consuming.group_commits import Positions, commit, fetch_committed
from ottla.client.errors import ClientError, ConnectionFailedError
from ottla.client.tasks import background
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.internal.consumer_protocol import (
    PROTOCOL_TYPE,
    assigned_partitions,
    assignment_bytes,
    subscribed_topics,
    subscription_bytes,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from ottla.wire.schema import Request
from ottla.wire.types import TopicPartition

_JOIN_SLACK_SECONDS: Final = 5.0
_LEAVE_SECONDS: Final = 5.0
_JOIN_AGAIN: Final = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION})
_PASSING: Final = ASK_ELSEWHERE | {ErrorCode.REQUEST_TIMED_OUT}
_RESETS: Final[Mapping[str, int]] = {"earliest": EARLIEST, "latest": LATEST}
OnPartitions = Callable[[Sequence[TopicPartition]], object]


def _ignore(partitions: Sequence[TopicPartition]) -> None:
    pass


class GroupMember:
    """A member of a group; made by `open_member`."""

    def __init__(
        self, client: Client, consumer: Consumer, topics: Sequence[str], pattern: re.Pattern[str] | None
    ) -> None:
        config = client.config
        self.group_id: str = config["group.id"]
        self.assigned: list[TopicPartition] = []
        self.on_assigned: OnPartitions = _ignore
        """Called with the partitions that a rebalance gave to this member."""
        self.on_revoked: OnPartitions = _ignore
        """Called before a rebalance, or the end, takes partitions away; never with none."""
        self._client = client
        self._consumer = consumer
        self._wanted = topics
        self._pattern = pattern
        self._target = Coordinator(GROUP, self.group_id)
        self._connection: Connection | None = None
        try:
            self._assignors = chosen_assignors(config["partition.assignment.strategy"])
        except KeyError as error:
            known = ", ".join(ASSIGNORS)
            raise ConfigError(f"partition.assignment.strategy: there is no {error}, only {known}") from None
        self._instance_id: str | None = config["group.instance.id"]
        self._member_id = ""
        self._generation = -1
        self._counts: dict[str, int] = {}
        """Partition counts of the topics that this member subscribes to, or assigned as the leader."""
        self._must_join = True
        self._waiting: trio.CancelScope | None = None
        self._processed: Positions = {}
        self._committed: Positions = {}
        self._failure: Exception | None = None
        self._failing_since = math.inf
        self._patience = config.seconds("default.api.timeout.ms")

    async def next(self, most_seconds: float = math.inf) -> Chunk | None:
        """Return the next chunk of an assigned partition; None after `most_seconds`.

        The time of a rebalance does not count. Cancelling this call ends the membership.
        """
        while True:
            if self._failure is not None:
                raise self._failure
            if self._must_join:
                await self._rejoin()
            with trio.move_on_after(most_seconds) as self._waiting:
                return await self._consumer.next()
            if self._failure is None and not self._must_join:
                return None

    @property
    def is_joined(self) -> bool:
        """Whether the member has its partitions, and no rebalance is due."""
        return not self._must_join

    def processed(self, partition: TopicPartition, next_offset: int, leader_epoch: int = -1) -> None:
        """Note the next offset to read, which `commit` and the automatic commits commit."""
        self._processed[partition] = (next_offset, leader_epoch)

    async def commit(self, places: Positions | None = None) -> None:
        """Commit these places, or those noted since the last commit. KafkaError if the coordinator refuses one."""
        if places is None:
            places = self._news()
        if places:
            await commit(self._client, self.group_id, places, self._generation, self._member_id, self._instance_id)
            self._committed.update(places)

    def _news(self) -> Positions:
        # The begin of a partition without records is committed, too, because the group must continue there later.
        begun = {each: (offset, -1) for each, offset in self._consumer.begun().items() if each not in self._committed}
        places = {**begun, **self._processed}
        return {each: place for each, place in places.items() if self._committed.get(each) != place}

    # Joining

    async def _rejoin(self) -> None:
        """Revoke the partitions, join the next generation, and begin at the committed offsets."""
        await self._commit_if_possible()
        self._revoke()
        while True:
            assignment = await self._join_once()
            if assignment is not None:
                break
            await trio.sleep(self._client.config.seconds("retry.backoff.ms"))
        self.assigned = assigned_partitions(assignment)
        self.on_assigned(self.assigned)
        found = await fetch_committed(self._client, self.group_id, self.assigned)
        self._processed = {}
        self._committed = dict(found)
        self._must_join = False
        self._consumer.assign({each: found[each][0] if each in found else self._reset(each) for each in self.assigned})

    def _revoke(self) -> None:
        if self.assigned:
            self.on_revoked(self.assigned)
        self._consumer.assign({})
        self.assigned = []

    def _reset(self, partition: TopicPartition) -> int:
        policy = self._client.config["auto.offset.reset"]
        if policy not in _RESETS:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"group {self.group_id} has no offset for {partition}, and auto.offset.reset={policy}",
            )
        return _RESETS[policy]

    async def _join_once(self) -> bytes | None:
        """Return the assignment; None if the member must join again."""
        topics = await self._topics()
        config = self._client.config
        metadata = subscription_bytes(topics, config["client.rack"] or None)
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=config["session.timeout.ms"],
            rebalance_timeout_ms=config["max.poll.interval.ms"],
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=each, metadata=metadata) for each in self._assignors],
            reason="",
        )
        seconds = config.seconds("max.poll.interval.ms") + _JOIN_SLACK_SECONDS
        joined = await self._ask(request, JoinGroupResponse, seconds)
        if joined is None or not self._is_accepted(joined.error_code, joined.member_id):
            return None
        self._member_id, self._generation = joined.member_id, joined.generation_id
        sync = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=await self._share_out(joined) if joined.leader == joined.member_id else [],
        )
        synced = await self._ask(sync, SyncGroupResponse, seconds)
        if synced is None or not self._is_accepted(synced.error_code):
            return None
        return bytes(synced.assignment)

    async def _share_out(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        if joined.skip_assignment:
            return []
        members = [
            Member(each.member_id, subscribed_topics(bytes(each.metadata)), each.group_instance_id)
            for each in joined.members
        ]
        await self._count({topic for member in members for topic in member.topics})
        shares = ASSIGNORS[joined.protocol_name or ""](members, self._counts)
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=assignment_bytes(partitions))
            for member_id, partitions in shares.items()
        ]

    def _is_accepted(self, code: int, member_id: str = "") -> bool:
        """Whether the coordinator accepts; if not, prepare the next attempt. KafkaError if a retry does not help."""
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = member_id
        elif code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id, self._generation = "", -1
        elif code not in (ErrorCode.NONE, *_JOIN_AGAIN, *_PASSING):
            raise kafka_error(code, f"group {self.group_id}")
        return code == ErrorCode.NONE

    async def _topics(self) -> list[str]:
        """Return the topics to subscribe to, and note their partition counts."""
        if self._pattern is None:
            await self._count(self._wanted)
            return list(self._wanted)
        found = {topic.name or "": topic for topic in (await self._client.metadata(None)).topics}
        chosen = [name for name, each in found.items() if self._pattern.fullmatch(name) and not each.is_internal]
        self._counts = {name: len(found[name].partitions) for name in chosen}
        return chosen

    async def _count(self, topics: Sequence[str] | set[str]) -> None:
        creates = bool(self._client.config["allow.auto.create.topics"])
        response = await self._client.metadata(topics, create=creates)
        for each in response.topics:
            if each.error_code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION):
                raise kafka_error(each.error_code, each.name)
        self._counts = {each.name or "": len(each.partitions) for each in response.topics}

    async def _ask(self, request: Request, response_type: type[R], seconds: float) -> R | None:
        """Return the coordinator's response; None if the coordinator cannot be reached, or changed."""
        try:
            if self._connection is None or self._connection.is_closed:
                self._connection = await self._client.dedicated(self._target)
            connection = self._connection
            with trio.fail_after(seconds):
                response = await connection.send(request, connection.version_of(type(request)))
        except trio.TooSlowError:
            await connection.close()
            return None
        except ConnectionFailedError:
            self._forget_coordinator()
            now = trio.current_time()
            self._failing_since = min(self._failing_since, now)
            is_known = bool(self._client.nodes) and now < self._failing_since + self._patience
            if not (is_known or self._client.is_patient):
                raise
            return None
        self._failing_since = math.inf
        assert isinstance(response, response_type)
        if getattr(response, "error_code", 0) in ASK_ELSEWHERE:
            self._forget_coordinator()
        return response

    def _forget_coordinator(self) -> None:
        self._connection = None
        self._client.forget(self._target)

    # Background tasks

    async def _heartbeat_forever(self) -> None:
        config = self._client.config
        while True:
            await trio.sleep(config.seconds("heartbeat.interval.ms"))
            if self._must_join:
                continue
            request = HeartbeatRequest(
                group_id=self.group_id,
                generation_id=self._generation,
                member_id=self._member_id,
                group_instance_id=self._instance_id,
            )
            try:
                response = await self._ask(request, HeartbeatResponse, config.seconds("session.timeout.ms"))
                if response is not None and not self._is_accepted(response.error_code):
                    self._join_again(response.error_code)
            except (ClientError, KafkaError) as error:
                self._fail(error)
                return

    def _join_again(self, code: int) -> None:
        if code in (*_JOIN_AGAIN, ErrorCode.UNKNOWN_MEMBER_ID):
            self._must_join = True
            if self._waiting is not None:
                self._waiting.cancel()

    def _fail(self, error: Exception) -> None:
        self._failure = error
        if self._waiting is not None:
            self._waiting.cancel()

    async def _commit_forever(self) -> None:
        while True:
            await trio.sleep(self._client.config.seconds("auto.commit.interval.ms"))
            if not self._must_join:
                await self._commit_if_possible()

    async def _commit_if_possible(self) -> None:
        """Commit; ignore a failure, because the next commit contains the same places."""
        if self._client.config["enable.auto.commit"] and self._generation >= 0:
            try:
                await self.commit()
            except KafkaError as error:
                self._join_again(error.code)
            except ClientError:
                pass

    async def _watch_topics(self) -> None:
        """Join again when the topics or their partition counts changed since the last assignment."""
        config = self._client.config
        while True:
            is_whole = all(self._counts.get(each) for each in self._wanted)
            await trio.sleep(config.seconds("metadata.max.age.ms" if is_whole else "retry.backoff.max.ms"))
            if self._must_join:
                continue
            before = self._counts
            try:
                if self._pattern is None:
                    await self._count({*before, *self._wanted})
                else:
                    await self._topics()
            except (ClientError, KafkaError):
                continue
            if self._counts != before:
                self._join_again(ErrorCode.REBALANCE_IN_PROGRESS)

    async def leave(self) -> None:
        """Commit if `enable.auto.commit`, and leave the group. A static member stays until its session ends."""
        with trio.move_on_after(_LEAVE_SECONDS, shield=True):
            await self._commit_if_possible()
            self._revoke()
            if self._generation >= 0 and self._instance_id is None:
                member = MemberIdentity(member_id=self._member_id, reason="the member ends")
                request = LeaveGroupRequest(group_id=self.group_id, member_id=self._member_id, members=[member])
                await self._ask(request, LeaveGroupResponse, _LEAVE_SECONDS)
            if self._connection is not None:
                await self._connection.close()


@asynccontextmanager
async def open_member(
    client: Client, consumer: Consumer, topics: Sequence[str] = (), pattern: re.Pattern[str] | None = None
) -> AsyncIterator[GroupMember]:
    """Yield a member of the group `group.id` that reads topics, or all topics whose names match a pattern."""
    check(ErrorCode.NONE if client.config["group.id"] else ErrorCode.INVALID_GROUP_ID)
    member = GroupMember(client, consumer, topics, pattern)
    async with background() as nursery:
        nursery.start_soon(member._heartbeat_forever)
        nursery.start_soon(member._watch_topics)
        nursery.start_soon(member._commit_forever)
        try:
            yield member
        finally:
            await member.leave()
