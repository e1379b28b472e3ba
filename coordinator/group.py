"""A group: its state, its members, the offsets it has committed.

Owns the data of a group, the legal changes of its state, and what follows from its members alone: the leader, the
protocol that all members support, the topics they subscribe to. Must not know the requests of groups: `joining`,
`rebalance` and `offsets` decide them. Counterparts in Kafka: GroupMetadata, MemberMetadata.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from typing import Final, NamedTuple

from ottla.coordinator.config import GroupConfig
from ottla.coordinator.effects import Decision, Send
from ottla.coordinator.records import (
    CONSUMER_PROTOCOL,
    NO_TIMESTAMP,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitValue,
    group_value,
    subscribed_topics,
)
from ottla.wire.errors import DecodeError, ErrorCode
from ottla.wire.types import TopicPartition


class TimerKey(NamedTuple):
    """The name of a timer. `member_id` is empty for a timer of the whole group."""

    kind: str
    group_id: str
    member_id: str = ""


class State(Enum):
    """The state of a group.

    EMPTY: no members, but perhaps offsets. PREPARING_REBALANCE: joins are parked until every member has joined again or
    the rebalance timeout is over. COMPLETING_REBALANCE: a new generation; syncs are parked until the assignment of the
    leader is committed. STABLE: every member has its assignment, or can get it. DEAD: deleted, or coordinated by
    another broker; nothing is parked, and the shard does not have the group any more.
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


LEGAL_TRANSITIONS: Final = {
    State.EMPTY: {State.PREPARING_REBALANCE, State.DEAD},
    State.PREPARING_REBALANCE: {State.COMPLETING_REBALANCE, State.EMPTY, State.DEAD},
    State.COMPLETING_REBALANCE: {State.STABLE, State.PREPARING_REBALANCE, State.DEAD},
    State.STABLE: {State.PREPARING_REBALANCE, State.DEAD},
    State.DEAD: set(),
}

Protocols = Mapping[str, bytes]
"""The protocols that a member supports, best first, each with the member's metadata for it."""


class Identity(NamedTuple):
    """The fields of a static member that change when it comes back within a generation."""

    generation_id: int
    member_id: str
    protocols: Protocols
    rebalance_timeout_ms: int
    session_timeout_ms: int


class Member:
    """A member of a group, static if it has an instance id.

    `awaiting_join` and `awaiting_sync` are its parked requests. `is_new` is true until its first rebalance is complete.
    `stored` is the identity in the log of a static member that has come back, until its new identity is committed.
    """

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "stored",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = b""
        self.awaiting_join: Send | None = None
        self.awaiting_sync: Send | None = None
        self.is_new = False
        self.stored: Identity | None = None

    def has_protocols(self, protocols: Protocols) -> bool:
        """Whether these are its protocols, in the same order and with the same metadata."""
        return list(self.protocols.items()) == list(protocols.items())


class CommittedOffset(NamedTuple):
    """A committed offset. `order` numbers the commits of one partition of __consumer_offsets."""

    value: OffsetCommitValue
    order: int


class Transaction:
    """A producer's transaction that commits offsets. `is_commit` is None until its marker is in the log.

    `group_ids` are the groups with offsets of this transaction in `transactional_offsets`.
    """

    __slots__ = ("group_ids", "is_commit", "producer_id")

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.group_ids: set[str] = set()
        self.is_commit: bool | None = None


class InitialDelay(NamedTuple):
    """How long the first rebalance of a group waits for more members: now, and after that at most."""

    current_ms: int
    remaining_ms: int


class Group:
    """A group. Only decisions change it. `awaiting_join_count` and `pending_sync` follow the members."""

    def __init__(self, group_id: str, config: GroupConfig, now_ms: int) -> None:
        self.group_id = group_id
        self.config = config
        self.state = State.EMPTY
        self.state_timestamp_ms: int | None = now_ms
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation_id = 0
        self.assigned_generation_id = 0
        """The last generation for which the leader sent an assignment."""
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.pending_members: set[str] = set()
        """Ids that the coordinator gave out and that have not joined yet (KIP-394)."""
        self.pending_sync: set[str] = set()
        self.awaiting_join_count = 0
        self.initial_delay: InitialDelay | None = None
        self.new_member_added = False
        self.subscribed_topics: frozenset[str] | None = None
        """The topics that the consumers subscribe to; None if they cannot be read."""
        self.offsets: dict[TopicPartition, CommittedOffset] = {}
        self.pending_offsets: dict[TopicPartition, list[int]] = {}
        """The order of each commit that is being appended."""
        self.transactional_offsets: dict[int, dict[TopicPartition, CommittedOffset]] = {}
        """The offsets in the log that a transaction may still abort, by producer id. No producer has an empty dict."""
        self._supporters: Counter[str] = Counter()

    # ------------------------------------------------------------------------------------------------ state

    def transition_to(self, state: State, now_ms: int) -> None:
        """Change the state."""
        if state not in LEGAL_TRANSITIONS[self.state]:
            raise RuntimeError(f"Group {self.group_id} cannot go from {self.state.value} to {state.value}")
        self.state = state
        self.state_timestamp_ms = now_ms

    def begin_generation(self, now_ms: int) -> None:
        """Begin a new generation with the present members."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.update_subscriptions()
        self.transition_to(State.COMPLETING_REBALANCE if self.members else State.EMPTY, now_ms)
        self.pending_sync.clear()

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance can begin."""
        return State.PREPARING_REBALANCE in LEGAL_TRANSITIONS[self.state]

    # ------------------------------------------------------------------------------------------------ members

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a member. The first one sets the protocol type of the group."""
        if not self.members:
            self.protocol_type = protocol_type
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._supporters.update(member.protocols.keys())
        self.pending_members.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member, or an id of `pending_members`. It must have no parked request."""
        self.pending_members.discard(member_id)
        self.pending_sync.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is not None:
            self._remove_protocols(member)
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)

    def rename_static_member(self, member: Member, new_member_id: str) -> None:
        """Change the id of a static member that has come back, or whose return failed."""
        old_member_id = member.member_id
        assert member.instance_id is not None
        # In its old place, because the leader gets the members in this order.
        self.members = {
            (new_member_id if member_id == old_member_id else member_id): each
            for member_id, each in self.members.items()
        }
        member.member_id = new_member_id
        self.static_members[member.instance_id] = new_member_id
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        if old_member_id in self.pending_sync:
            self.pending_sync.remove(old_member_id)
            self.pending_sync.add(new_member_id)

    def identity_of(self, member: Member) -> Identity:
        """Return the identity of a member in this generation."""
        rebalance_ms, session_ms = member.rebalance_timeout_ms, member.session_timeout_ms
        return Identity(self.generation_id, member.member_id, member.protocols, rebalance_ms, session_ms)

    def restore_member(self, member: Member) -> None:
        """Give a static member whose return failed the identity that the log has."""
        stored = member.stored
        assert stored is not None
        self.change_member(member, stored.protocols, stored.rebalance_timeout_ms, stored.session_timeout_ms)
        self.rename_static_member(member, stored.member_id)

    def change_member(
        self, member: Member, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        """Take over the fields of a repeated join."""
        self._remove_protocols(member)
        self._supporters.update(protocols.keys())
        member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def park_join(self, member: Member, send: Send) -> Send | None:
        """Park a join. Returns the join that it replaces."""
        replaced = member.awaiting_join
        member.awaiting_join = send
        self.awaiting_join_count += replaced is None
        return replaced

    def take_join(self, member: Member) -> Send | None:
        """Return the member's parked join and forget it. The caller must answer it."""
        send, member.awaiting_join = member.awaiting_join, None
        self.awaiting_join_count -= send is not None
        return send

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """The error of a request with these ids: NONE for a member that owns the instance id, if there is one."""
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def has_room_for(self, member_id: str) -> bool:
        """Whether a member may join. Members that have not joined again take no room in a rebalance."""
        max_size = self.config.max_size
        member = self.members.get(member_id)
        if self.state is State.PREPARING_REBALANCE:
            return (member is not None and member.awaiting_join is not None) or self.awaiting_join_count < max_size
        if self.state in (State.COMPLETING_REBALANCE, State.STABLE):
            return member is not None or len(self.members) < max_size
        return True

    @property
    def all_joined(self) -> bool:
        """Whether all members and all pending members have joined."""
        return self.awaiting_join_count == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long a rebalance waits for joins: the longest timeout of its members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Make a joined member the leader. Returns False if no member has joined."""
        leader = self.members.get(self.leader_id or "")
        if leader is not None and leader.awaiting_join is not None:
            return True
        joined = next((member for member in self.members.values() if member.awaiting_join is not None), None)
        if joined is None:
            return False
        self.leader_id = joined.member_id
        return True

    # ------------------------------------------------------------------------------------------------ protocols

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols can join, because all members support one of them."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(protocols)
        return protocol_type == self.protocol_type and any(self._supporters[p] == len(self.members) for p in protocols)

    def select_protocol(self) -> str:
        """The protocol with the most votes. Each member votes for its best one among those that all members support."""
        all_members = len(self.members)
        votes = Counter(
            next(protocol for protocol in member.protocols if self._supporters[protocol] == all_members)
            for member in self.members.values()
        )
        return votes.most_common(1)[0][0]

    def metadata_of(self, member: Member) -> bytes:
        """The metadata of a member for the chosen protocol."""
        return member.protocols[self.protocol_name or ""]

    def _remove_protocols(self, member: Member) -> None:
        for protocol in member.protocols:
            self._supporters[protocol] -= 1
            if not self._supporters[protocol]:
                del self._supporters[protocol]

    def update_subscriptions(self) -> None:
        """Read `subscribed_topics` from the metadata of the consumers."""
        self.subscribed_topics = None
        if self.protocol_type == CONSUMER_PROTOCOL:
            with suppress(DecodeError):
                topics = (subscribed_topics(self.metadata_of(member)) for member in self.members.values())
                self.subscribed_topics = frozenset().union(*topics)

    # ------------------------------------------------------------------------------------------------ records

    @property
    def has_offsets(self) -> bool:
        """Whether offsets are committed, being appended, or part of an open transaction."""
        return bool(self.offsets or self.pending_offsets or self.transactional_offsets)

    def is_pending(self, partition: TopicPartition) -> bool:
        """Whether an offset of this partition is being appended, or part of an open transaction."""
        return partition in self.pending_offsets or any(
            partition in written for written in self.transactional_offsets.values()
        )

    @property
    def partitions_with_offsets(self) -> list[TopicPartition]:
        """The partitions of which offsets are committed, being appended, or part of an open transaction."""
        transactional = (each for written in self.transactional_offsets.values() for each in written)
        return [*self.offsets, *self.pending_offsets, *transactional]

    def record(self, assignment: Mapping[str, bytes]) -> bytes:
        """The value of this generation's record."""
        return group_value(
            GroupMetadataValue(
                protocol_type=self.protocol_type or "",
                generation=self.generation_id,
                protocol=self.protocol_name,
                leader=self.leader_id,
                current_state_timestamp=NO_TIMESTAMP if self.state_timestamp_ms is None else self.state_timestamp_ms,
                members=[
                    MemberMetadata(
                        member_id=member.member_id,
                        group_instance_id=member.instance_id,
                        client_id=member.client_id,
                        client_host=member.client_host,
                        rebalance_timeout=member.rebalance_timeout_ms,
                        session_timeout=member.session_timeout_ms,
                        subscription=self.metadata_of(member),
                        assignment=assignment[member.member_id],
                    )
                    for member in self.members.values()
                ],
            )
        )

    def load(self, value: GroupMetadataValue) -> None:
        """Take over the value of a record. Only for a new group."""
        self.generation_id = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol_name = value.protocol
        timestamp = value.current_state_timestamp
        self.state_timestamp_ms = None if timestamp == NO_TIMESTAMP else timestamp
        for each in value.members:
            member = Member(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                each.rebalance_timeout,
                each.session_timeout,
                {value.protocol or "": each.subscription},
            )
            member.assignment = each.assignment
            self.add(member, value.protocol_type)
        self.leader_id = value.leader
        self.state = State.STABLE if self.members else State.EMPTY
        self.update_subscriptions()


def member_timer(group: Group, member_id: str) -> TimerKey:
    """The timer that removes a silent member, or an id that has not joined."""
    return TimerKey("member", group.group_id, member_id)


def join_timer(group: Group) -> TimerKey:
    """The timer that ends the wait of a rebalance for joins."""
    return TimerKey("join", group.group_id)


def sync_timer(group: Group) -> TimerKey:
    """The timer that removes members that have not synced."""
    return TimerKey("sync", group.group_id)


def restart_session(decision: Decision, group: Group, member: Member) -> None:
    """Set the timer of a member to its session timeout."""
    decision.set_timer(member_timer(group, member.member_id), member.session_timeout_ms)
