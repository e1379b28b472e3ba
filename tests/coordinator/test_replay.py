"""Replaying any prefix of any history gives the same state as the history itself."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.config import GroupConfig
from ottla.coordinator.effects import Append
from ottla.coordinator.group import Group, State
from ottla.coordinator.group_shard import GroupShard
from ottla.coordinator.records import read_group_value
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.types import TopicPartition
from tests.coordinator.coordinating import GROUP, Answer, Coordinating, Marker, replay

CONFIG: Final = GroupConfig(retention_ms=60_000, max_size=4)
SIMPLE: Final = "simple"
INSTANCES: Final = (None, None, None, "one", "two")
SAYINGS: Final[tuple[dict[str, bytes], ...]] = (
    {"range": bytes.fromhex("000000000001000161ffffffff")},
    {"range": b"?", "sticky": b""},
    {"sticky": b"", "range": bytes.fromhex("000000000001000162ffffffff")},
)
TOPICS: Final = ("a", "b")
PRODUCERS: Final = 3


class Client:
    """A consumer that acts in any order."""

    def __init__(self, instance: str | None) -> None:
        self.instance = instance
        self.member_id = ""
        self.joined: JoinGroupResponse | None = None
        self.joining: Answer | None = None

    def read(self) -> None:
        """Read the response to its last join, if there is one."""
        if self.joining is None or self.joining.parked:
            return
        answer, self.joining = self.joining, None
        begins_anew = answer.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
        self.member_id = "" if begins_anew else answer.response.member_id
        self.joined = None if answer.error else answer.response

    @property
    def generation(self) -> int:
        return -1 if self.joined is None else self.joined.generation_id


class History(Coordinating):
    """A shard, five clients, and all events that can happen to them."""

    def __init__(self) -> None:
        super().__init__(CONFIG)
        self.clients = [Client(instance) for instance in INSTANCES]
        self.answers: list[Answer] = []
        self.snapshots: dict[int, dict[str, Any]] = {}

    def finish(self, appended: Append, error: ErrorCode = ErrorCode.NONE) -> None:
        # These appends do not fail, because the shard does not undo them: deletions, and the loss of the last member.
        records = appended.records
        if any(value is None or (key[1] == 2 and not read_group_value(value).members) for key, value in records):
            error = ErrorCode.NONE
        super().finish(appended, error)

    def act(self, action: str, client: Client, number: int) -> None:
        client.read()
        answer = getattr(self, f"do_{action}")(client, number)
        if answer is not None:
            self.answers.append(answer)

    def do_join(self, client: Client, number: int) -> Answer:
        version = 9 if number % 4 else 3
        joining = self.join(
            client.member_id,
            instance=client.instance if version == 9 else None,
            protocols=SAYINGS[number % len(SAYINGS)],
            version=version,
            rebalance_ms=20_000,
        )
        client.joining = joining
        client.read()
        return joining

    def do_forget(self, client: Client, _: int) -> None:
        client.member_id, client.joined = "", None

    def do_return(self, client: Client, number: int) -> Answer:
        self.do_forget(client, number)
        return self.do_join(client, 1)

    def do_settle(self, _: Client, number: int) -> None:
        """Let some clients follow the protocol for a while, mostly until the group is stable."""
        members = self.clients[number % 4 : number % 4 + 2]
        for _round in range(10):
            for client in members:
                client.read()
                if client.joining is not None:
                    continue
                if client.joined is None or self.heartbeat(client.member_id, client.generation):
                    self.answers.append(self.do_join(client, 1))
                else:
                    self.answers.append(self.do_sync(client, number))
            self.pass_time(1_000)

    def do_sync(self, client: Client, number: int) -> Answer:
        members = () if client.joined is None else client.joined.members
        assignments = {each.member_id: b"%d" % (number + place) for place, each in enumerate(members)}
        return self.sync(client.member_id, client.generation, assignments, instance=client.instance, protocol_name=None)

    def do_heartbeat(self, client: Client, _: int) -> None:
        self.heartbeat(client.member_id, client.generation, client.instance)

    def do_leave(self, client: Client, number: int) -> None:
        self.leave(("" if number % 2 else client.member_id, client.instance))

    def do_commit(self, client: Client, number: int) -> Answer:
        offsets = {TopicPartition(TOPICS[number % 2], 0): number, TopicPartition(TOPICS[0], number % 3): number}
        return self.commit(offsets, client.member_id, client.generation, instance=client.instance)

    def do_commit_alone(self, _: Client, number: int) -> Answer:
        retention_ms = 30_000 if number % 5 == 0 else -1
        group = GROUP if number % 3 else SIMPLE
        return self.commit({TopicPartition(TOPICS[number % 2], 0): number}, retention_ms=retention_ms, group=group)

    def do_commit_in_transaction(self, _: Client, number: int) -> Answer:
        offsets = {TopicPartition(TOPICS[number % 2], 0): number, TopicPartition(TOPICS[0], number % 3): number}
        return self.commit_in_transaction(offsets, number % PRODUCERS, group=GROUP if number % 4 else SIMPLE)

    def do_end_transaction(self, _: Client, number: int) -> None:
        self.end_transaction(number % PRODUCERS, commit=number % 4 > 0)

    def do_wait(self, _: Client, number: int) -> None:
        self.pass_time((100, 1_000, 3_000, 9_000, 70_000)[number % 5])

    def do_hold(self, _: Client, __: int) -> None:
        self.holding = True

    def do_release(self, _: Client, number: int) -> None:
        self.holding = False
        self.release(ErrorCode.NONE if number % 3 else ErrorCode.NOT_ENOUGH_REPLICAS)

    def do_delete_group(self, _: Client, number: int) -> None:
        self.decide(self.shard.delete_group, GROUP if number % 2 else SIMPLE, lambda _: None)

    def do_delete_offset(self, _: Client, number: int) -> Answer:
        partitions = [OffsetDeleteRequestPartition(partition_index=number % 3)]
        topics = [OffsetDeleteRequestTopic(name=TOPICS[number % 2], partitions=partitions)]
        answer = Answer()
        self.decide(self.shard.offset_delete, OffsetDeleteRequest(group_id=GROUP, topics=topics), answer)
        return answer

    def do_delete_topic(self, _: Client, number: int) -> None:
        self.decide(self.shard.topics_deleted, frozenset(TOPICS[number % 2]))

    def do_expire(self, _: Client, __: int) -> None:
        self.decide(self.shard.expire)

    def do_move(self, client: Client, number: int) -> None:
        """Let another broker load the log."""
        self.decide(self.shard.unload)
        self.do_release(client, number)
        self.timers.clear()
        self.shard = GroupShard(CONFIG, self.new_member_id)
        replay(self.shard, self.batches, self.now_ms)
        self.decide(self.shard.loaded)

    # ------------------------------------------------------------------------------------------ invariants

    def look(self) -> None:
        """Check the groups, and keep a view of them if no append is pending."""
        for group in self.shard.groups.values():
            check_invariants(
                group, {(key.kind, key.member_id) for key in self.timers if key.group_id == group.group_id}
            )
        for answer in self.answers:
            assert len(answer.responses) <= 1
        if not self.held:
            self.snapshots[len(self.batches)] = {name: view(group) for name, group in self.shard.groups.items()}

    def end(self) -> None:
        self.decide(self.shard.unload)
        self.release()
        for answer in self.answers:
            assert len(answer.responses) == 1


def offsets_of(group: Group) -> dict[TopicPartition | tuple[int, TopicPartition], Any]:
    """The committed offsets, and those of open transactions."""
    committed = {partition: repr(each.value) for partition, each in group.offsets.items()}
    assert all(group.transactional_offsets.values())
    return committed | {
        (producer_id, partition): repr(each.value)
        for producer_id, written in group.transactional_offsets.items()
        for partition, each in written.items()
    }


def view(group: Group) -> tuple[Any, ...]:
    """The part of a group that a replay must restore: all of it, unless the group is rebalancing."""
    offsets = offsets_of(group)
    if group.state in (State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE):
        return ("rebalancing", group.generation_id, offsets)
    if any(member.awaiting_join is not None for member in group.members.values()):
        return ("rebalancing", group.generation_id, offsets)
    if group.state is State.EMPTY:
        more = (group.protocol_type, group.state_timestamp_ms) if group.generation_id else ()
        return (State.EMPTY, group.generation_id, offsets, more)
    members = [
        (
            member.member_id, member.instance_id, member.client_id, member.client_host, member.session_timeout_ms,
            member.rebalance_timeout_ms, group.metadata_of(member), member.assignment,
        )
        for member in group.members.values()
    ]  # fmt: skip
    protocol = (group.protocol_type, group.protocol_name, group.subscribed_topics)
    return (State.STABLE, group.generation_id, offsets, group.leader_id, protocol, members)


def check_invariants(group: Group, timers: set[tuple[str, str]]) -> None:
    parked = {each.member_id for each in group.members.values() if each.awaiting_join or each.awaiting_sync}
    awaiting_join = {each.member_id for each in group.members.values() if each.awaiting_join}
    assert group.state is not State.DEAD
    assert group.awaiting_join_count == len(awaiting_join)
    assert group.pending_sync <= group.members.keys()
    assert not group.pending_members & group.members.keys()
    assert group.static_members == {each.instance_id: name for name, each in group.members.items() if each.instance_id}
    assert (group.leader_id in group.members) if group.members else group.leader_id is None
    for member_id in (group.members.keys() - parked) | group.pending_members:
        assert ("member", member_id) in timers
    assert (("join", "") in timers) == (group.state is State.PREPARING_REBALANCE)
    assert (("sync", "") in timers) == bool(group.pending_sync)
    if group.state is State.EMPTY:
        assert not group.members
    if group.state is State.COMPLETING_REBALANCE:
        assert not awaiting_join
        assert group.members


ACTIONS: Final = [name[3:] for name in dir(History) if name.startswith("do_")]
# Actions that build up a group, more often than those that end it.
LIKELY: Final = ["join", "sync", "wait", "commit", "settle", "return", "commit_in_transaction"] * 3
STEP = st.tuples(st.sampled_from(ACTIONS + LIKELY), st.integers(0, len(INSTANCES) - 1), st.integers(0, 11))


HISTORIES: Final = st.lists(STEP, min_size=40, max_size=200)


def lived_through(steps: list[tuple[str, int, int]]) -> History:
    history = History()
    history.look()
    for action, client, number in steps:
        history.act(action, history.clients[client], number)
        history.look()
    history.end()
    return history


@given(HISTORIES)
def test_replaying_any_prefix_of_any_history_gives_the_state_of_living_through_it(
    steps: list[tuple[str, int, int]],
) -> None:
    history = lived_through(steps)
    replayed = GroupShard(CONFIG, lambda prefix: prefix)
    offset = 0
    for length in range(len(history.batches) + 1):
        if length:
            offset = replay(replayed, history.batches[length - 1 : length], first_offset=offset)
        if length in history.snapshots:
            compare(history.snapshots[length], replayed)


@given(HISTORIES, st.data())
def test_replaying_it_compacted_to_anywhere_gives_the_same_state(
    steps: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    history = lived_through(steps)
    length = data.draw(st.sampled_from(sorted(history.snapshots)))
    # The cleaner stops before the first transaction that is open.
    dirty = data.draw(st.sampled_from([each for each in range(length + 1) if not open_after(history.batches[:each])]))
    replayed = GroupShard(CONFIG, lambda prefix: prefix)
    offset = compacted(history.batches[:dirty], replayed, lambda: data.draw(st.booleans()))
    replay(replayed, history.batches[dirty:length], first_offset=offset)
    compare(history.snapshots[length], replayed)


def open_after(batches: Sequence[Append | Marker]) -> set[int]:
    """The producers whose transactions are open at the end."""
    producers: set[int] = set()
    for batch in batches:
        if isinstance(batch, Marker):
            producers.discard(batch.producer_id)
        elif batch.producer is not None:
            producers.add(batch.producer.producer_id)
    return producers


def compacted(batches: Sequence[Append | Marker], shard: GroupShard, keeps: Callable[[], bool]) -> int:
    """Replay what the cleaner keeps: of each key the last record, if not aborted, and tombstones if `keeps`."""
    ends = [each if isinstance(each, Marker) else None for each in batches]
    kept: list[tuple[int, int, Append | Marker]] = []
    last: dict[bytes, int] = {}
    offset = 0
    for place, batch in enumerate(batches):
        if isinstance(batch, Marker):
            kept.append((offset, 0, batch))
            offset += 1
            continue
        producer = batch.producer
        is_aborted = producer is not None and not next(
            end.is_commit for end in ends[place:] if end is not None and end.producer_id == producer.producer_id
        )
        for number, (key, _) in enumerate(batch.records):
            if not is_aborted:
                last[key] = offset
                kept.append((offset, number, batch))
            offset += 1
    for at, number, batch in kept:
        if isinstance(batch, Marker):
            replay(shard, [batch], first_offset=at)
        elif last[batch.records[number][0]] == at and (batch.records[number][1] is not None or keeps()):
            replay(shard, [batch._replace(records=[batch.records[number]])], first_offset=at)
    return offset


def compare(lived: dict[str, Any], replayed: GroupShard) -> None:
    groups = {name: group for name, group in replayed.groups.items() if group.generation_id or group.has_offsets}
    for name, group in groups.items():
        assert name in lived
        kind, generation_id, *more = lived[name]
        if kind == "rebalancing":
            assert group.generation_id <= generation_id
            assert offsets_of(group) == more[0]
        else:
            assert view(group) == lived[name]
    for name in lived.keys() - groups.keys():
        kind, generation_id, offsets, *_ = lived[name]
        assert not offsets
        # The first record of a group is written when its first generation has an assignment, or no member.
        assert kind == "rebalancing" or generation_id == 0
