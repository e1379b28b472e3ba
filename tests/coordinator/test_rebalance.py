"""How generations end and begin, and what members get."""

import pytest

from ottla.coordinator.config import GroupConfig
from ottla.coordinator.group import LEGAL_TRANSITIONS, Group, State
from ottla.coordinator.records import GroupKey, read_group_value, read_key
from ottla.wire.errors import ErrorCode
from tests.coordinator.coordinating import GROUP, REBALANCE_MS, SESSION_MS, Answer, Coordinating

DELAY_MS = GroupConfig().initial_rebalance_delay_ms


@pytest.fixture
def coordinating() -> Coordinating:
    return Coordinating()


def rejoin(coordinating: Coordinating, member_ids: list[str]) -> list[Answer]:
    return [coordinating.join(each) for each in member_ids]


@pytest.mark.parametrize("start", State)
@pytest.mark.parametrize("end", State)
def test_only_legal_transitions_can_be_made(start: State, end: State) -> None:
    group = Group(GROUP, GroupConfig(), 0)
    group.state = start
    if end in LEGAL_TRANSITIONS[start]:
        group.transition_to(end, 5)
        assert (group.state, group.state_timestamp_ms) == (end, 5)
    else:
        with pytest.raises(RuntimeError, match=start.value):
            group.transition_to(end, 5)


# ------------------------------------------------------------------------------------------------ the first rebalance


def test_the_first_rebalance_waits_for_more_members(coordinating: Coordinating) -> None:
    _, answer = coordinating.enter()
    coordinating.pass_time(DELAY_MS - 1)
    assert answer.parked
    coordinating.pass_time(1)
    assert answer.response.generation_id == 1


def test_every_member_that_comes_in_time_prolongs_the_first_rebalance(coordinating: Coordinating) -> None:
    _, first = coordinating.enter()
    coordinating.pass_time(DELAY_MS - 1)
    _, second = coordinating.enter()
    coordinating.pass_time(DELAY_MS)
    assert first.parked
    assert second.parked
    coordinating.pass_time(1)
    assert first.response.generation_id == second.response.generation_id == 1


def test_the_first_rebalance_is_not_prolonged_beyond_the_rebalance_timeout(coordinating: Coordinating) -> None:
    _, first = coordinating.enter(rebalance_ms=3 * DELAY_MS)
    for _ in range(2):
        coordinating.pass_time(DELAY_MS - 10)
        coordinating.enter(rebalance_ms=3 * DELAY_MS)
    coordinating.pass_time(DELAY_MS + 20)
    assert not first.parked


def test_without_a_delay_a_group_begins_at_once() -> None:
    coordinating = Coordinating(GroupConfig(initial_rebalance_delay_ms=0))
    _, answer = coordinating.enter()
    coordinating.pass_time(0)
    assert answer.response.generation_id == 1


def test_later_rebalances_do_not_wait_for_more(coordinating: Coordinating) -> None:
    (member,) = coordinating.stable_group()
    _, new = coordinating.enter()
    assert new.parked
    coordinating.join(member)
    assert new.response.generation_id == 2


# --------------------------------------------------------------------------------------------- joining and syncing


def test_only_the_leader_gets_the_members(coordinating: Coordinating) -> None:
    entered = [coordinating.enter(protocols={"range": b"%d" % number}) for number in range(2)]
    coordinating.pass_time(2 * DELAY_MS)
    leader, follower = (answer.response for _, answer in entered)
    assert leader.leader == follower.leader == leader.member_id
    members = [(each.member_id, each.metadata) for each in leader.members]
    assert members == [(entered[0][0], b"0"), (entered[1][0], b"1")]
    assert follower.members == []
    assert (leader.protocol_type, leader.protocol_name) == ("consumer", "range")


def test_followers_wait_for_the_assignment(coordinating: Coordinating) -> None:
    entered = [coordinating.enter() for _ in range(2)]
    coordinating.pass_time(2 * DELAY_MS)
    (leader, _), (follower, _) = entered
    waiting = coordinating.sync(follower, 1)
    assert waiting.parked
    done = coordinating.sync(leader, 1, {leader: b"left", follower: b"right"})
    assert (done.response.assignment, waiting.response.assignment) == (b"left", b"right")
    assert (waiting.response.protocol_type, waiting.response.protocol_name) == ("consumer", "range")
    assert coordinating.group.state is State.STABLE


def test_the_assignment_is_committed_before_any_member_gets_it(coordinating: Coordinating) -> None:
    member, _ = coordinating.enter()
    coordinating.pass_time(DELAY_MS)
    coordinating.holding = True
    answer = coordinating.sync(member, 1, {member: b"all"})
    assert answer.parked
    assert coordinating.group.state is State.COMPLETING_REBALANCE
    coordinating.release()
    assert answer.response.assignment == b"all"


def test_the_record_of_a_generation_has_all_fields(coordinating: Coordinating) -> None:
    (member,) = coordinating.stable_group(client="me")
    key, value = coordinating.log[-1]
    assert read_key(key) == GroupKey(GROUP)
    assert value is not None
    record = read_group_value(value)
    assert (record.protocol_type, record.protocol, record.generation, record.leader) == ("consumer", "range", 1, member)
    (kept,) = record.members
    assert (kept.member_id, kept.client_id, kept.client_host) == (member, "me", "/127.0.0.1")
    assert (kept.session_timeout, kept.rebalance_timeout) == (SESSION_MS, REBALANCE_MS)
    assert (kept.subscription, kept.assignment) == (b"meta", b"a0")


def test_a_member_without_an_assignment_gets_an_empty_one(coordinating: Coordinating) -> None:
    entered = [coordinating.enter() for _ in range(2)]
    coordinating.pass_time(2 * DELAY_MS)
    (leader, _), (follower, _) = entered
    coordinating.sync(leader, 1, {leader: b"all"})
    assert coordinating.sync(follower, 1).response.assignment == b""


def test_members_that_sync_late_get_their_assignment(coordinating: Coordinating) -> None:
    entered = [coordinating.enter() for _ in range(2)]
    coordinating.pass_time(2 * DELAY_MS)
    (leader, _), (follower, _) = entered
    coordinating.sync(leader, 1, {follower: b"late"})
    assert coordinating.sync(follower, 1).response.assignment == b"late"


@pytest.mark.parametrize(
    ("error", "answered"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REBALANCE_IN_PROGRESS),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_assignment_that_cannot_be_committed_begins_a_rebalance(
    coordinating: Coordinating, error: ErrorCode, answered: ErrorCode
) -> None:
    member, _ = coordinating.enter()
    coordinating.pass_time(DELAY_MS)
    coordinating.failing = error
    assert coordinating.sync(member, 1, {member: b"all"}).error == answered
    assert coordinating.group.state is State.PREPARING_REBALANCE
    coordinating.failing = ErrorCode.NONE
    assert coordinating.join(member).response.generation_id == 2
    assert coordinating.sync(member, 2, {member: b"all"}).response.assignment == b"all"


def test_an_assignment_of_an_old_generation_that_is_committed_late_changes_nothing(coordinating: Coordinating) -> None:
    member, _ = coordinating.enter()
    coordinating.pass_time(DELAY_MS)
    coordinating.holding = True
    answer = coordinating.sync(member, 1, {member: b"old"})
    coordinating.enter()
    assert answer.error == ErrorCode.REBALANCE_IN_PROGRESS
    coordinating.join(member)
    coordinating.release()
    assert coordinating.group.state is State.COMPLETING_REBALANCE
    assert coordinating.group.members[member].assignment == b""


def test_a_join_that_is_repeated_is_answered_in_the_same_generation(coordinating: Coordinating) -> None:
    entered = [coordinating.enter() for _ in range(2)]
    coordinating.pass_time(2 * DELAY_MS)
    for number, (member, _) in enumerate(entered):
        again = coordinating.join(member).response
        assert (again.generation_id, len(again.members)) == (1, 0 if number else 2)


def test_a_parked_join_that_is_replaced_is_answered(coordinating: Coordinating) -> None:
    members = coordinating.stable_group(2)
    coordinating.enter()
    first = coordinating.join(members[0])
    second = coordinating.join(members[0])
    assert first.error == ErrorCode.REBALANCE_IN_PROGRESS
    assert second.parked


def test_a_parked_sync_that_is_replaced_is_answered(coordinating: Coordinating) -> None:
    entered = [coordinating.enter() for _ in range(2)]
    coordinating.pass_time(2 * DELAY_MS)
    follower = entered[1][0]
    first, second = coordinating.sync(follower, 1), coordinating.sync(follower, 1)
    assert first.error == ErrorCode.REBALANCE_IN_PROGRESS
    assert second.parked


def test_the_first_assignment_that_a_leader_sends_counts(coordinating: Coordinating) -> None:
    member, _ = coordinating.enter()
    coordinating.pass_time(DELAY_MS)
    coordinating.holding = True
    coordinating.sync(member, 1, {member: b"first"})
    again = coordinating.sync(member, 1, {member: b"second"})
    coordinating.release()
    assert again.response.assignment == b"first"
    assert read_group_value(coordinating.log[-1][1] or b"").members[0].assignment == b"first"


def test_a_leader_that_joins_again_begins_a_rebalance_a_follower_does_not(coordinating: Coordinating) -> None:
    leader, follower = coordinating.stable_group(2)
    assert coordinating.join(follower).response.generation_id == 1
    assert coordinating.join(leader).parked
    assert coordinating.heartbeat(follower, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_follower_with_new_metadata_begins_a_rebalance(coordinating: Coordinating) -> None:
    leader, follower = coordinating.stable_group(2)
    assert coordinating.join(follower, protocols={"range": b"new"}).parked
    members = coordinating.join(leader).response.members
    assert [each.metadata for each in members] == [b"meta", b"new"]


def test_parked_syncs_are_answered_when_another_rebalance_begins(coordinating: Coordinating) -> None:
    entered = [coordinating.enter() for _ in range(2)]
    coordinating.pass_time(2 * DELAY_MS)
    waiting = coordinating.sync(entered[1][0], 1)
    coordinating.enter()
    assert waiting.error == ErrorCode.REBALANCE_IN_PROGRESS


# ------------------------------------------------------------------------------------------------ going, and time


def test_a_member_that_does_not_join_in_time_is_removed(coordinating: Coordinating) -> None:
    stays, goes = coordinating.stable_group(2, session_ms=100_000)
    _, new = coordinating.enter()
    answer = coordinating.join(stays)
    coordinating.pass_time(REBALANCE_MS - 1)
    assert answer.parked
    coordinating.pass_time(1)
    assert (answer.response.generation_id, new.response.generation_id) == (2, 2)
    assert goes not in coordinating.group.members
    assert coordinating.heartbeat(goes, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_does_not_join_is_replaced(coordinating: Coordinating) -> None:
    leader, follower = coordinating.stable_group(2)
    answer = coordinating.join(follower, protocols={"range": b"new"})
    assert coordinating.leave((leader, None)) == [ErrorCode.NONE]
    assert answer.response.leader == follower


def test_a_member_that_leaves_begins_a_rebalance(coordinating: Coordinating) -> None:
    stays, goes = coordinating.stable_group(2)
    assert coordinating.leave((goes, None)) == [ErrorCode.NONE]
    assert coordinating.heartbeat(stays, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinating.join(stays).response.generation_id == 2


def test_the_last_member_that_leaves_makes_the_group_empty(coordinating: Coordinating) -> None:
    (member,) = coordinating.stable_group()
    coordinating.leave((member, None))
    assert (coordinating.group.state, coordinating.group.generation_id) == (State.EMPTY, 2)
    record = read_group_value(coordinating.log[-1][1] or b"")
    assert (record.generation, record.protocol, record.leader, len(record.members)) == (2, None, None, 0)
    assert record.protocol_type == "consumer"
    assert not coordinating.timers


def test_the_log_has_the_reason_of_each_rebalance(coordinating: Coordinating, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    def reasons() -> list[str]:
        lines = [each.getMessage() for each in caplog.records if each.msg.startswith("Preparing to rebalance")]
        caplog.clear()
        return [each.partition("(reason: ")[2].removesuffix(")") for each in lines]

    one, two = coordinating.stable_group(2, reason="I am new")
    assert reasons() == [f"Adding new member {one}; client reason: I am new"]
    coordinating.join(one, reason="there are more partitions")
    assert reasons() == [f"Leader re-joining: member {one} in Stable; client reason: there are more partitions"]
    coordinating.join(two)
    coordinating.settle([one, two])
    coordinating.join(two, protocols={"range": b"other"})
    assert reasons() == [f"Updating metadata for member {two} in Stable; client reason: not provided"]
    coordinating.join(one)
    coordinating.settle([one, two])
    coordinating.leave((two, None), reason="the consumer is being closed")
    assert reasons() == [f"Removing member {two} on LeaveGroup; client reason: the consumer is being closed"]
    coordinating.join(one)
    coordinating.settle([one])
    coordinating.pass_time(SESSION_MS)
    assert reasons() == [f"removing member {one} on heartbeat expiration"]
    again, _ = coordinating.enter(instance="first", reason="first start")
    assert reasons() == [f"Adding new member {again} with group instance id first; client reason: first start"]


def test_many_members_can_leave_at_once(coordinating: Coordinating) -> None:
    members = coordinating.stable_group(3)
    errors = coordinating.leave((members[0], None), ("nobody", None), (members[1], None))
    assert errors == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert list(coordinating.group.members) == [members[2]]


def test_parked_requests_of_a_member_that_leaves_are_answered(coordinating: Coordinating) -> None:
    entered = [coordinating.enter() for _ in range(2)]
    coordinating.leave((entered[1][0], None))
    assert (entered[1][1].error, entered[1][1].response.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    coordinating.pass_time(2 * DELAY_MS)
    third, answer = coordinating.enter()
    coordinating.join(entered[0][0])
    assert not answer.parked
    waiting = coordinating.sync(third, 2)
    coordinating.leave((third, None))
    assert waiting.error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_is_silent_for_its_session_timeout_is_removed(coordinating: Coordinating) -> None:
    stays, _ = coordinating.stable_group(2)
    for _ in range(3):
        coordinating.pass_time(SESSION_MS // 3)
        assert coordinating.heartbeat(stays, 1) == ErrorCode.NONE
    coordinating.pass_time(SESSION_MS // 3)
    assert list(coordinating.group.members) == [stays]
    assert coordinating.heartbeat(stays, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_heartbeats_keep_a_member(coordinating: Coordinating) -> None:
    (member,) = coordinating.stable_group()
    for _ in range(5):
        coordinating.pass_time(SESSION_MS - 1)
        assert coordinating.heartbeat(member, 1) == ErrorCode.NONE


def test_a_member_with_a_parked_request_is_not_removed(coordinating: Coordinating) -> None:
    waits, late = coordinating.stable_group(2, session_ms=6_000)
    coordinating.enter()
    answer = coordinating.join(waits)
    for _ in range(9):
        coordinating.pass_time(5_000)
        coordinating.heartbeat(late, 1)
    assert answer.parked
    assert waits in coordinating.group.members


def test_a_new_member_does_not_wait_for_ever(coordinating: Coordinating) -> None:
    (member,) = coordinating.stable_group(rebalance_ms=1_000_000)
    _, new = coordinating.enter()
    for _ in range(61):
        coordinating.pass_time(5_000)
        coordinating.heartbeat(member, 1)
    assert new.error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_never_syncs_is_removed(coordinating: Coordinating) -> None:
    entered = [coordinating.enter(session_ms=100_000) for _ in range(2)]
    coordinating.pass_time(2 * DELAY_MS)
    leader, late = (member_id for member_id, _ in entered)
    coordinating.sync(leader, 1, {leader: b"all"})
    coordinating.pass_time(REBALANCE_MS)
    assert list(coordinating.group.members) == [leader]
    assert coordinating.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinating.heartbeat(late, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_whose_leader_never_syncs_goes_on_without_it(coordinating: Coordinating) -> None:
    entered = [coordinating.enter(session_ms=100_000) for _ in range(2)]
    coordinating.pass_time(2 * DELAY_MS)
    leader, follower = (member_id for member_id, _ in entered)
    waiting = coordinating.sync(follower, 1)
    coordinating.pass_time(REBALANCE_MS)
    assert waiting.error == ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinating.join(follower).response.leader == follower
    assert leader not in coordinating.group.members


def test_members_that_sync_in_time_stay(coordinating: Coordinating) -> None:
    (member,) = coordinating.stable_group(session_ms=600_000)
    coordinating.pass_time(2 * REBALANCE_MS)
    assert coordinating.heartbeat(member, 1) == ErrorCode.NONE


# ------------------------------------------------------------------------------------------------- bad requests


def test_requests_of_unknown_members_are_refused(coordinating: Coordinating) -> None:
    assert coordinating.join("stranger").error == ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinating.sync("stranger", 1).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinating.heartbeat("stranger", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinating.leave(("stranger", None)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert not coordinating.shard.groups
    coordinating.stable_group()
    assert coordinating.join("stranger").error == ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinating.sync("stranger", 1).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinating.heartbeat("stranger", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinating.leave(("stranger", None), ("", "nobody")) == [ErrorCode.UNKNOWN_MEMBER_ID] * 2


@pytest.mark.parametrize("generation", [0, 2, -1])
def test_other_generations_are_refused(coordinating: Coordinating, generation: int) -> None:
    (member,) = coordinating.stable_group()
    assert coordinating.heartbeat(member, generation) == ErrorCode.ILLEGAL_GENERATION
    assert coordinating.sync(member, generation).error == ErrorCode.ILLEGAL_GENERATION


def test_a_sync_that_names_another_protocol_is_refused(coordinating: Coordinating) -> None:
    (member,) = coordinating.stable_group()
    error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert coordinating.sync(member, 1, protocol_type="connect").error == error
    assert coordinating.sync(member, 1, protocol_name="sticky").error == error
    assert coordinating.sync(member, 1, protocol_type=None, protocol_name=None).error == ErrorCode.NONE


def test_a_sync_while_a_rebalance_is_prepared_is_refused(coordinating: Coordinating) -> None:
    leader, follower = coordinating.stable_group(2)
    coordinating.join(leader)
    assert coordinating.sync(follower, 1).error == ErrorCode.REBALANCE_IN_PROGRESS
