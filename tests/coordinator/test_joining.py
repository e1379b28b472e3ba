"""Which members may join, and their ids."""

import pytest

from ottla.coordinator.config import GroupConfig
from ottla.coordinator.group import State
from ottla.coordinator.records import read_group_value
from ottla.wire.errors import ErrorCode
from tests.coordinator.coordinating import SESSION_MS, START_MS, Coordinating

DELAY_MS = GroupConfig().initial_rebalance_delay_ms


@pytest.fixture
def coordinating() -> Coordinating:
    return Coordinating()


def parked_timers(coordinating: Coordinating) -> set[str]:
    return {key.member_id for key in coordinating.timers if key.kind == "member"}


# --------------------------------------------------------------------------------------------- ids given out first


def test_a_new_member_is_given_its_id_first(coordinating: Coordinating) -> None:
    answer = coordinating.join(client="me")
    assert (answer.error, answer.response.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "me-1")
    assert not coordinating.group.members
    assert coordinating.join("me-1").parked
    assert list(coordinating.group.members) == ["me-1"]


@pytest.mark.parametrize("version", [0, 3])
def test_members_of_old_versions_are_let_in_at_once(coordinating: Coordinating, version: int) -> None:
    assert coordinating.join(version=version).parked
    assert len(coordinating.group.members) == 1


def test_the_first_version_has_one_timeout(coordinating: Coordinating) -> None:
    coordinating.join(version=0, session_ms=7_000, rebalance_ms=-1)
    coordinating.join(version=1, session_ms=7_000, rebalance_ms=9_000)
    timeouts = [each.rebalance_timeout_ms for each in coordinating.group.members.values()]
    assert timeouts == [7_000, 9_000]


def test_an_id_that_never_joins_expires(coordinating: Coordinating) -> None:
    member = coordinating.join().response.member_id
    coordinating.pass_time(SESSION_MS)
    assert coordinating.join(member).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_ids_that_were_given_out(coordinating: Coordinating) -> None:
    (member,) = coordinating.stable_group()
    pending = coordinating.join().response.member_id
    answer = coordinating.join(member)
    assert answer.parked
    coordinating.join(pending)
    assert answer.response.generation_id == 2


@pytest.mark.parametrize("leaves", [True, False])
def test_a_rebalance_goes_on_when_an_id_that_was_given_out_leaves_or_expires(
    coordinating: Coordinating, leaves: bool
) -> None:
    (member,) = coordinating.stable_group(session_ms=100_000)
    pending = coordinating.join().response.member_id
    answer = coordinating.join(member)
    if leaves:
        assert coordinating.leave((pending, None)) == [ErrorCode.NONE]
    else:
        coordinating.pass_time(SESSION_MS)
    assert answer.response.generation_id == 2
    assert pending not in parked_timers(coordinating)


def test_an_id_that_was_given_out_cannot_join_as_a_static_member(coordinating: Coordinating) -> None:
    pending = coordinating.join().response.member_id
    assert coordinating.join(pending, instance="one").error == ErrorCode.UNKNOWN_MEMBER_ID


# ------------------------------------------------------------------------------------------ which members may join


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001, -1])
def test_session_timeouts_out_of_range_are_refused(coordinating: Coordinating, session_ms: int) -> None:
    assert coordinating.join(session_ms=session_ms).error == ErrorCode.INVALID_SESSION_TIMEOUT
    assert not coordinating.shard.groups


def test_a_group_takes_no_member_without_a_protocol(coordinating: Coordinating) -> None:
    assert coordinating.join(protocols={}).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert coordinating.join(protocol_type="").error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_member_must_support_a_protocol_that_all_members_support(coordinating: Coordinating) -> None:
    (member,) = coordinating.stable_group(protocols={"range": b"", "sticky": b""})
    error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert coordinating.join(protocols={"roundrobin": b""}).error == error
    assert coordinating.join(protocol_type="connect").error == error
    assert coordinating.join(member, protocols={"roundrobin": b""}).error == error
    assert coordinating.join(protocols={"roundrobin": b"", "sticky": b""}).error == ErrorCode.MEMBER_ID_REQUIRED


def test_an_empty_group_may_become_another_kind_of_group(coordinating: Coordinating) -> None:
    (member,) = coordinating.stable_group()
    coordinating.leave((member, None))
    _, answer = coordinating.enter(protocol_type="connect", protocols={"sessioned": b""})
    coordinating.pass_time(DELAY_MS)
    assert (answer.response.protocol_type, answer.response.protocol_name) == ("connect", "sessioned")


def test_the_protocol_with_the_most_votes_is_chosen(coordinating: Coordinating) -> None:
    likes = [("range", "sticky"), ("sticky", "range"), ("sticky", "range"), ("other", "range", "sticky")]
    entered = [coordinating.enter(protocols=dict.fromkeys(each, b"")) for each in likes]
    coordinating.pass_time(2 * DELAY_MS)
    # Two votes for each. A protocol that only one member supports gets no vote.
    assert {answer.response.protocol_name for _, answer in entered} == {"range"}
    _, answer = coordinating.enter(protocols={"sticky": b"", "range": b""})
    for (member, _), each in zip(entered, likes, strict=True):
        coordinating.join(member, protocols=dict.fromkeys(each, b""))
    assert answer.response.protocol_name == "sticky"


def test_a_full_group_takes_no_further_member() -> None:
    coordinating = Coordinating(GroupConfig(max_size=2))
    members = coordinating.stable_group(2)
    refused = coordinating.join()
    assert (refused.error, refused.response.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert coordinating.heartbeat(members[0], 1) == ErrorCode.NONE


def test_in_a_rebalance_the_first_to_join_again_have_the_room() -> None:
    coordinating = Coordinating(GroupConfig(max_size=2))
    members = coordinating.stable_group(2)
    answers = [coordinating.join(members[0])]
    pending = coordinating.join().response.member_id
    answers.append(coordinating.join(pending))
    assert coordinating.join(members[1]).error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [answer.response.generation_id for answer in answers] == [2, 2]
    assert members[1] not in parked_timers(coordinating)


# ------------------------------------------------------------------------------------------------ static members


def test_a_static_member_is_let_in_at_once_under_an_id_of_its_own(coordinating: Coordinating) -> None:
    answer = coordinating.join(instance="one")
    assert answer.parked
    coordinating.pass_time(DELAY_MS)
    assert answer.response.member_id == "one-1"
    assert answer.response.members[0].group_instance_id == "one"


def test_a_static_member_with_an_empty_instance_id_leaves_by_that_id(coordinating: Coordinating) -> None:
    coordinating.join(instance="")
    assert coordinating.leave(("", None)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert coordinating.leave(("", "")) == [ErrorCode.NONE]


def test_an_empty_protocol_name_is_sent_as_null(coordinating: Coordinating) -> None:
    answer = coordinating.join(instance="one", protocols={"": b"meta"})
    coordinating.pass_time(DELAY_MS)
    assert answer.response.protocol_name is None


def test_a_static_member_that_comes_back_causes_no_rebalance(coordinating: Coordinating) -> None:
    leader, old = coordinating.enter(instance="one")[0], coordinating.enter(instance="two")[0]
    coordinating.pass_time(2 * DELAY_MS)
    coordinating.settle([leader, old])
    back = coordinating.join(instance="two").response
    assert (back.error_code, back.generation_id, back.leader, back.members) == (ErrorCode.NONE, 1, leader, [])
    assert back.member_id != old
    assert coordinating.heartbeat(leader, 1) == ErrorCode.NONE
    assert coordinating.sync(back.member_id, 1).response.assignment == b"a1"
    record = read_group_value(coordinating.log[-1][1] or b"")
    assert [each.member_id for each in record.members] == [leader, back.member_id]
    assert parked_timers(coordinating) == {leader, back.member_id}


def test_the_old_id_of_a_static_member_is_fenced(coordinating: Coordinating) -> None:
    (old,) = coordinating.stable_group(instance="one")
    new = coordinating.join(instance="one").response.member_id
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert coordinating.heartbeat(old, 1, "one") == fenced
    assert coordinating.sync(old, 1, instance="one").error == fenced
    assert coordinating.join(old, instance="one").error == fenced
    assert coordinating.commit({}, old, 1, instance="one").response.topics == []
    assert coordinating.leave((old, "one")) == [fenced]
    assert coordinating.heartbeat(new, 1, "one") == ErrorCode.NONE
    assert coordinating.heartbeat(new, 1, "two") == ErrorCode.UNKNOWN_MEMBER_ID


def test_parked_requests_of_the_old_id_are_fenced(coordinating: Coordinating) -> None:
    leader, follower = coordinating.enter(instance="one"), coordinating.enter(instance="two")
    assert coordinating.join(instance="two").parked
    assert follower[1].error == ErrorCode.FENCED_INSTANCE_ID
    coordinating.pass_time(2 * DELAY_MS)
    waiting = coordinating.sync(coordinating.group.static_members["two"], 1)
    coordinating.join(instance="two")
    assert waiting.error == ErrorCode.FENCED_INSTANCE_ID
    assert not leader[1].parked


def test_a_static_leader_that_comes_back_leads_on_without_an_assignment(coordinating: Coordinating) -> None:
    coordinating.stable_group(instance="one")
    back = coordinating.join(instance="one").response
    assert back.leader == back.member_id
    assert back.skip_assignment
    assert [each.member_id for each in back.members] == [back.member_id]


def test_a_static_leader_of_an_old_version_comes_back_as_a_follower(coordinating: Coordinating) -> None:
    (old,) = coordinating.stable_group(instance="one", version=8)
    back = coordinating.join(instance="one", version=8).response
    assert (back.leader, back.skip_assignment, back.members) == (old, False, [])


def test_a_static_member_that_comes_back_with_other_protocols_begins_a_rebalance(coordinating: Coordinating) -> None:
    coordinating.stable_group(instance="one", protocols={"range": b"", "sticky": b""})
    answer = coordinating.join(instance="one", protocols={"sticky": b"", "range": b""})
    assert (answer.response.generation_id, answer.response.protocol_name) == (2, "sticky")


def test_a_static_member_that_comes_back_while_a_rebalance_completes_begins_another(
    coordinating: Coordinating,
) -> None:
    coordinating.enter(instance="one")
    coordinating.pass_time(DELAY_MS)
    assert coordinating.group.state is State.COMPLETING_REBALANCE
    assert coordinating.join(instance="one").response.generation_id == 2


def test_a_return_that_cannot_be_committed_is_undone(coordinating: Coordinating) -> None:
    (old,) = coordinating.stable_group(instance="one")
    coordinating.failing = ErrorCode.NOT_ENOUGH_REPLICAS
    refused = coordinating.join(instance="one", protocols={"range": b"new"})
    assert (refused.error, refused.response.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    assert coordinating.heartbeat(old, 1, "one") == ErrorCode.NONE
    assert coordinating.group.members[old].protocols == {"range": b"meta"}
    assert parked_timers(coordinating) == {old}


@pytest.mark.parametrize(("first", "second"), [(False, False), (True, False), (False, True)])
def test_of_two_returns_under_way_the_last_that_is_committed_counts(
    coordinating: Coordinating, first: bool, second: bool
) -> None:
    (old,) = coordinating.stable_group(instance="one")
    coordinating.holding = True
    answers = [coordinating.join(instance="one") for _ in range(2)]
    assert answers[0].error == ErrorCode.FENCED_INSTANCE_ID
    ids = [old, answers[0].response.member_id, coordinating.group.static_members["one"]]
    for committed, appended in zip((first, second), list(coordinating.held), strict=True):
        coordinating.finish(appended, ErrorCode.NONE if committed else ErrorCode.NOT_ENOUGH_REPLICAS)
    record = read_group_value(coordinating.log[-1][1] or b"")
    assert list(coordinating.group.members) == [each.member_id for each in record.members]
    assert list(coordinating.group.members) != ids[1:2] or first
    assert parked_timers(coordinating) == set(coordinating.group.members)


def test_a_rebalance_that_begins_during_a_return_answers_it(coordinating: Coordinating) -> None:
    coordinating.stable_group(instance="one")
    coordinating.holding = True
    back = coordinating.join(instance="one")
    _, new = coordinating.enter()
    assert back.response.generation_id == 2
    coordinating.release()
    assert new.response.generation_id == 2


def test_a_static_member_does_not_leave_a_rebalance_by_being_late(coordinating: Coordinating) -> None:
    one, two = (coordinating.enter(instance=each, session_ms=200_000)[0] for each in ("one", "two"))
    coordinating.pass_time(2 * DELAY_MS)
    coordinating.settle([one, two])
    answer = coordinating.join(one, instance="one")
    coordinating.pass_time(60_000)
    assert answer.response.generation_id == 2
    assert [each.group_instance_id for each in answer.response.members] == ["one", "two"]


def test_a_rebalance_of_static_members_alone_waits_until_one_joins(coordinating: Coordinating) -> None:
    one, two = (coordinating.enter(instance=each, session_ms=200_000)[0] for each in ("one", "two"))
    coordinating.pass_time(2 * DELAY_MS)
    coordinating.settle([one, two])
    coordinating.leave(("", "one"))
    coordinating.pass_time(120_000)
    assert coordinating.group.state is State.PREPARING_REBALANCE
    assert coordinating.join(two, instance="two").response.leader == two


def test_an_operator_removes_static_members_by_their_instance_ids(coordinating: Coordinating) -> None:
    coordinating.stable_group(instance="one")
    assert coordinating.leave(("", "one")) == [ErrorCode.NONE]
    assert coordinating.group.state is State.EMPTY
    assert coordinating.group.state_timestamp_ms is not None
    assert coordinating.group.state_timestamp_ms > START_MS


def test_a_return_that_is_dropped_before_it_is_committed_is_answered(coordinating: Coordinating) -> None:
    leader, late = (coordinating.enter(instance=each, session_ms=200_000)[0] for each in ("one", "two"))
    coordinating.pass_time(2 * DELAY_MS)
    coordinating.sync(leader, 1, {leader: b"", late: b""})
    coordinating.pass_time(50_000)
    coordinating.holding = True
    back = coordinating.join(instance="two")
    coordinating.pass_time(10_000)
    assert back.error == ErrorCode.UNKNOWN_MEMBER_ID
    coordinating.release()
    assert list(coordinating.group.members) == [leader]
