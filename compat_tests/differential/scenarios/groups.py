"""Classic groups and their members: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and FindCoordinator.

A member has a connection of its own with its name, because a waiting request must not block the others.
"""

import functools
import struct
import time
from typing import Any

from compat_tests.differential.both import PATIENCE_S, Both, PerSide, of_each
from compat_tests.differential.scenarios import GROUP_SCENARIOS, scenario

scenario = functools.partial(scenario, among=GROUP_SCENARIOS)

NOBODY: PerSide = PerSide("", "")
MEMBER_ID_REQUIRED = 79
KEEPS_NOBODY_WAITING = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 10_000}


def subscription(*topics: str) -> bytes:
    """Return a consumer's metadata with its subscribed topics."""
    names = b"".join(struct.pack(">h", len(each)) + each.encode() for each in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def protocols(*names: str, metadata: bytes = subscription("some-topic")) -> list[dict[str, Any]]:
    """Return protocols for JoinGroup, in the order of preference."""
    return [{"name": name, "metadata": metadata} for name in names]


def group_name(both: Both) -> str:
    """Return a new name."""
    return both.new_name().replace("topic", "group")


class Member:
    """A member of a group on each side."""

    def __init__(self, both: Both, group: str, name: str, instance: str | None = None) -> None:
        self.both, self.group, self.name, self.instance = both, group, name, instance
        self.id = NOBODY
        self.generation = PerSide(-1, -1)
        self.protocols = protocols("range")

    def begin_join(self, **fields: Any) -> None:
        """Send JoinGroup; a new dynamic member requests its id first."""
        if self.id == NOBODY and self.instance is None and self.both.version_of("JoinGroup") >= 4:
            self.learn(self.both.ask("JoinGroup", line=self.name, **self.join_fields(**fields)))
        self.both.send("JoinGroup", self.name, **self.join_fields(**fields))

    def end_join(self) -> PerSide:
        """Wait for the answer to JoinGroup."""
        answers = self.both.receive("JoinGroup", self.name)
        self.learn(answers)
        return answers

    def join(self, **fields: Any) -> PerSide:
        """Join without waiting for other members."""
        self.begin_join(**fields)
        return self.end_join()

    def join_fields(self, **fields: Any) -> dict[str, Any]:
        """Return the fields of JoinGroup."""
        return {
            **KEEPS_NOBODY_WAITING,
            "group_id": self.group,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "protocol_type": "consumer",
            "protocols": self.protocols,
            "reason": "a test",
            **fields,
        }

    def learn(self, answers: PerSide) -> None:
        """Remember the member id and the generation."""
        if all(each["error_code"] in (0, MEMBER_ID_REQUIRED) for each in answers):
            self.id = of_each(answers, lambda answer: answer["member_id"])
            self.generation = of_each(answers, lambda answer: answer["generation_id"])

    def sync_fields(self, *assigned: "Member", **fields: Any) -> dict[str, Any]:
        """Return the fields of SyncGroup; `assigned` are the members in a leader's assignment."""
        return {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [{"member_id": m.id, "assignment": b"for " + m.name.encode()} for m in assigned],
            **fields,
        }

    def sync(self, *assigned: "Member", **fields: Any) -> PerSide:
        """Send SyncGroup, with the assignment if this member is the leader."""
        return self.both.ask("SyncGroup", line=self.name, **self.sync_fields(*assigned, **fields))

    def heartbeat(self, **fields: Any) -> PerSide:
        """Send a heartbeat."""
        own = {"group_id": self.group, "generation_id": self.generation, "member_id": self.id}
        return self.both.ask("Heartbeat", line=self.name, **{**own, "group_instance_id": self.instance, **fields})

    def leave(self, **fields: Any) -> PerSide:
        """Leave the group."""
        one = {"member_id": self.id, "group_instance_id": self.instance, "reason": "done"}
        return self.both.ask(
            "LeaveGroup", line=self.name, **{"group_id": self.group, "member_id": self.id, "members": [one], **fields}
        )


def described(both: Both, *groups: str, **fields: Any) -> PerSide:
    """Compare the descriptions of groups."""
    return both.ask("DescribeGroups", groups=list(groups), **fields)


def wait_for(both: Both, group: str, state: str, members: int = 1) -> None:
    """Wait until a group is in a state, with so many members, on both sides."""
    deadline = time.monotonic() + PATIENCE_S
    version = both.version_of("DescribeGroups")
    while True:
        told = both.ask_without_comparing("DescribeGroups", version, groups=[group])
        found = [(each["groups"][0]["group_state"], len(each["groups"][0]["members"])) for each in told]
        if found == [(state, members)] * 2:
            return
        assert time.monotonic() < deadline, (found, state, members)
        time.sleep(0.01)


def stable(both: Both, *names: str, **fields: Any) -> list[Member]:
    """Return the members of a new stable group, the leader first."""
    group = group_name(both)
    leader, *others = members = [Member(both, group, name) for name in names]
    leader.join(**fields)
    for number, each in enumerate(others):
        each.begin_join(**fields)
        wait_for(both, group, "PreparingRebalance", number + 2)
    if others:
        leader.join(**fields)
        for each in others:
            each.end_join()
    leader.sync(*members)
    for each in others:
        each.sync()
    wait_for(both, group, "Stable", len(members))
    return members


def gone(*members: Member) -> None:
    """Make members leave, so that they do not affect later requests."""
    for each in members:
        each.leave()


@scenario("JoinGroup")
def join_alone(both: Both) -> None:
    member = Member(both, group_name(both), "one")
    member.join()
    described(both, member.group)
    member.sync(member)
    described(both, member.group)
    # A leader that joins again without changes requests a rebalance.
    member.join()
    member.heartbeat()
    member.sync(member)
    member.protocols = protocols("roundrobin", "range")
    member.join()
    member.sync(member, protocol_name="roundrobin")
    described(both, member.group)
    member.leave()
    described(both, member.group)


@scenario("JoinGroup")
def join_what_is_refused(both: Both) -> None:
    group = group_name(both)
    one = Member(both, group, "one")
    for session_timeout_ms in (5_999, 1_800_001, 0, -1):
        both.ask("JoinGroup", **one.join_fields(session_timeout_ms=session_timeout_ms))
    refused: tuple[dict[str, Any], ...] = (
        {"group_id": ""},
        {"protocols": []},
        {"protocol_type": ""},
        {"member_id": "nobody"},
        {"member_id": "nobody", "group_id": group_name(both)},
        {"member_id": "nobody", "group_id": ""},
        {"group_id": "", "session_timeout_ms": 1},
    )
    for fields in refused:
        both.ask("JoinGroup", **one.join_fields(**fields))
    described(both, group)


@scenario("JoinGroup")
def join_a_group_of_others(both: Both) -> None:
    one, two = stable(both, "one", "two")
    newcomer = Member(both, one.group, "newcomer")
    refused: tuple[dict[str, Any], ...] = (
        {"protocol_type": "connect"},
        {"protocol_type": ""},
        {"protocols": protocols("sticky")},
        {"protocols": []},
        {"member_id": "nobody"},
        {"member_id": "nobody", "protocol_type": "connect"},
    )
    for fields in refused:
        both.ask("JoinGroup", **newcomer.join_fields(**fields))
    for fields in (*refused[:3], {"session_timeout_ms": 1}):
        both.ask("JoinGroup", **two.join_fields(**fields))
    # A follower that joins again without changes gets the current generation.
    two.join()
    described(both, one.group)
    gone(one, two)


@scenario("JoinGroup")
def members_join_and_leave(both: Both) -> None:
    one = Member(both, group_name(both), "one")
    one.protocols = protocols("range", "roundrobin", "sticky")
    one.join()
    one.sync(one)
    two = Member(both, one.group, "two")
    two.protocols = protocols("roundrobin", "sticky")
    two.begin_join()
    wait_for(both, one.group, "PreparingRebalance", 2)
    described(both, one.group)
    one.heartbeat()
    one.sync(one)
    one.join()
    two.end_join()
    described(both, one.group)
    one.heartbeat()
    two.heartbeat()
    both.send("SyncGroup", "two", **two.sync_fields(protocol_name="roundrobin"))
    one.sync(one, two, protocol_name="roundrobin")
    both.receive("SyncGroup", "two")
    described(both, one.group)
    # A follower that joins with other protocols causes a rebalance.
    two.protocols = protocols("roundrobin")
    two.begin_join()
    wait_for(both, one.group, "PreparingRebalance", 2)
    one.join()
    two.end_join()
    one.leave()
    two.heartbeat()
    two.join()
    two.sync(two, protocol_name="roundrobin")
    described(both, one.group)
    gone(two)


@scenario("JoinGroup")
def who_does_not_come_back_in_time_is_out(both: Both) -> None:
    if both.version == 0:
        return  # which has no timeout for rebalances
    one, two = stable(both, "one", "two", rebalance_timeout_ms=300)
    one.join(rebalance_timeout_ms=300)
    one.sync(one)
    described(both, one.group)
    two.heartbeat()
    two.join()
    # Nor is a member that joins, but sends no SyncGroup.
    three = Member(both, one.group, "three")
    three.begin_join(rebalance_timeout_ms=300)
    wait_for(both, one.group, "PreparingRebalance", 2)
    one.join(rebalance_timeout_ms=300)
    three.end_join()
    # Sent to both at once, because waiting for one broker would miss the timeout of the other.
    both.send("SyncGroup", "three", **three.sync_fields())
    both.receive("SyncGroup", "three")
    one.heartbeat()
    three.join()
    three.sync(three)
    described(both, one.group)
    gone(three)


@scenario("JoinGroup")
def a_group_has_a_size(both: Both) -> None:
    members = stable(both, "one", "two", "three", "four")
    both.ask("JoinGroup", **Member(both, members[0].group, "five").join_fields())
    described(both, members[0].group)
    gone(*members)


@scenario("JoinGroup")
def static_members(both: Both) -> None:
    if both.version < 5:
        return  # which has none
    one = Member(both, group_name(both), "one", instance="first")
    one.join()
    one.sync(one)
    two = Member(both, one.group, "two", instance="second")
    two.begin_join()
    wait_for(both, one.group, "PreparingRebalance", 2)
    one.join()
    two.end_join()
    both.send("SyncGroup", "two", **two.sync_fields())
    one.sync(one, two)
    both.receive("SyncGroup", "two")
    described(both, one.group)
    for back in (Member(both, one.group, "two again", "second"), Member(both, one.group, "one again", "first")):
        back.join()
        back.sync()
        back.heartbeat()
        described(both, one.group)
    # Those that they have replaced.
    for old in (one, two):
        old.heartbeat()
        old.sync()
        both.ask("JoinGroup", line=old.name, **old.join_fields())
        old.leave()
        old.heartbeat(group_instance_id=None)
    wrong = Member(both, one.group, "wrong", instance="third")
    wrong.id, wrong.generation = PerSide("nobody", "nobody"), PerSide(2, 2)
    wrong.heartbeat()
    wrong.sync()
    both.ask("JoinGroup", line=wrong.name, **wrong.join_fields())
    wrong.leave()
    for instance in ("first", "second"):
        Member(both, one.group, "operator", instance).leave()
    described(both, one.group)


@scenario("JoinGroup")
def a_static_member_that_comes_back_with_something_new(both: Both) -> None:
    if both.version < 5:
        return  # which has none
    one = Member(both, group_name(both), "one", instance="first")
    one.join()
    back = Member(both, one.group, "back", instance="first")
    back.join()
    described(both, one.group)
    back.sync(back)
    again = Member(both, one.group, "again", instance="first")
    again.protocols = protocols("roundrobin", "range")
    again.join()
    described(both, one.group)
    again.sync(again, protocol_name="roundrobin")
    back.heartbeat()
    again.leave()
    described(both, one.group)


@scenario("SyncGroup")
def sync_groups(both: Both) -> None:
    one, two = stable(both, "one", "two")
    one.sync()
    two.sync(two)
    for fields in (
        {"group_id": ""},
        {"group_id": group_name(both)},
        {"member_id": "nobody"},
        {"member_id": ""},
        {"generation_id": 0},
        {"generation_id": -1},
        {"generation_id": 99},
        {"protocol_type": "connect"},
        {"protocol_type": None},
        {"protocol_name": "sticky"},
        {"protocol_name": None},
        {"group_instance_id": "nobody"},
    ):
        two.sync(**fields)
    gone(one, two)


@scenario("SyncGroup")
def assignments_that_are_odd(both: Both) -> None:
    one, two = stable(both, "one", "two")
    two.protocols = protocols("range", "sticky")
    two.begin_join()
    wait_for(both, one.group, "PreparingRebalance", 2)
    both.ask("SyncGroup", **two.sync_fields())
    one.join()
    two.end_join()
    stranger = Member(both, one.group, "stranger")
    stranger.id = PerSide("stranger", "stranger")
    one.sync(one, stranger)
    two.sync()
    one.sync()
    described(both, one.group)
    gone(one, two)


@scenario("Heartbeat")
def heartbeats(both: Both) -> None:
    (one,) = stable(both, "one")
    for fields in (
        {},
        {"group_id": ""},
        {"group_id": group_name(both)},
        {"member_id": "nobody"},
        {"member_id": ""},
        {"generation_id": 0},
        {"generation_id": 2},
        {"generation_id": -1},
        {"group_instance_id": "nobody"},
        {"member_id": "nobody", "generation_id": 7},
    ):
        one.heartbeat(**fields)
    one.join()
    one.heartbeat()
    one.sync(one)
    one.heartbeat()
    one.leave()
    one.heartbeat()


@scenario("Heartbeat")
def heartbeats_of_who_has_not_joined(both: Both) -> None:
    one = Member(both, group_name(both), "one")
    one.learn(both.ask("JoinGroup", **one.join_fields()))
    one.heartbeat()
    one.heartbeat(generation_id=0)
    one.leave()
    one.heartbeat()
    described(both, one.group)


@scenario("LeaveGroup")
def leave_groups(both: Both) -> None:
    one, two, three = stable(both, "one", "two", "three")
    both.ask("LeaveGroup", group_id=one.group, members=[])
    one.leave(group_id="")
    one.leave(group_id=group_name(both))
    Member(both, one.group, "nobody").leave()
    stranger = Member(both, one.group, "stranger", instance="nobody")
    stranger.leave()
    stranger.id = PerSide("nobody", "nobody")
    stranger.leave()
    named = [
        {"member_id": each.id, "group_instance_id": instance}
        for each, instance in ((two, None), (stranger, None), (three, "nobody"), (two, None))
    ]
    both.ask("LeaveGroup", group_id=one.group, member_id=two.id, members=named)
    described(both, one.group)
    one.heartbeat()
    three.leave()
    one.leave()
    one.leave()
    described(both, one.group)


@scenario("LeaveGroup")
def leave_by_instance(both: Both) -> None:
    if both.version < 3:
        return  # which knows none
    one = Member(both, group_name(both), "one", instance="first")
    one.join()
    one.sync(one)
    for member_id in ("", "nobody"):
        known = {"member_id": member_id, "group_instance_id": "first"}
        both.ask("LeaveGroup", group_id=one.group, members=[known, {**known, "group_instance_id": "second"}])
    described(both, one.group)
    one.leave()


@scenario("FindCoordinator")
def find_coordinators(both: Both) -> None:
    for kind in (0, 3, -1):
        for key in ("", "some"):
            both.ask("FindCoordinator", key=key, key_type=kind, coordinator_keys=[key])
    both.ask("FindCoordinator", key_type=0, coordinator_keys=[])
    both.ask("FindCoordinator", key_type=0, coordinator_keys=["one", "two", "one", ""])
