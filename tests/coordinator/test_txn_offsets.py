"""Offsets committed in transactions: who may commit them, when they count, and what deletes them."""

from itertools import permutations, product

import pytest

from ottla.coordinator.config import GroupConfig
from ottla.coordinator.effects import Append, Producer
from ottla.coordinator.group import State
from ottla.coordinator.records import NO_TIMESTAMP, group_key, offset_key, read_offset_value
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.offset_fetch import OffsetFetchRequestTopic
from ottla.wire.types import TopicPartition
from tests.coordinator.coordinating import GROUP, START_MS, Answer, Coordinating, replay
from tests.coordinator.test_offsets import RETENTION_MS, TO_A, delete, errors, expire

A, B = TopicPartition("a", 0), TopicPartition("b", 1)
DONE = {A: ErrorCode.NONE}


@pytest.fixture
def coordinating() -> Coordinating:
    return Coordinating(GroupConfig(retention_ms=RETENTION_MS))


def unstable(coordinating: Coordinating) -> set[TopicPartition]:
    """The partitions for which a stable fetch gets an error."""
    asked = [OffsetFetchRequestTopic(name=each.topic, partition_indexes=[each.partition]) for each in (A, B)]
    return {
        TopicPartition(topic.name, each.partition_index)
        for topic in coordinating.shard.offset_fetch(GROUP, asked, True)
        for each in topic.partitions
        if each.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    }


def restart(coordinating: Coordinating) -> Coordinating:
    """Replay the log, as another broker does that leads the partition from now on."""
    replayed = Coordinating(coordinating.config)
    replay(replayed.shard, coordinating.batches)
    replayed.decide(replayed.shard.loaded)
    replayed.batches = coordinating.batches
    return replayed


# ---------------------------------------------------------------------------------------------------------- checks


def test_a_commit_of_a_producer_without_a_member_creates_a_group(coordinating: Coordinating) -> None:
    assert errors(coordinating.commit_in_transaction({A: 5})) == DONE
    assert (coordinating.group.state, coordinating.group.protocol_type) == (State.EMPTY, None)
    assert errors(coordinating.commit_in_transaction({A: 6}, member_id="anyone", instance="any")) == DONE


def test_the_offsets_are_one_append_in_the_transaction(coordinating: Coordinating) -> None:
    coordinating.commit_in_transaction({A: 5, B: 7}, 9)
    (append,) = coordinating.batches
    assert isinstance(append, Append)
    assert append.producer == Producer(9, 0)
    assert [key for key, _ in append.records] == [offset_key(GROUP, "a", 0), offset_key(GROUP, "b", 1)]
    value = read_offset_value(append.records[0][1] or b"")
    assert (value.offset, value.leader_epoch, value.metadata) == (5, -1, "")
    assert (value.commit_timestamp, value.expire_timestamp) == (START_MS, NO_TIMESTAMP)


def test_a_generation_in_an_unknown_group_is_an_unknown_member(coordinating: Coordinating) -> None:
    assert errors(coordinating.commit_in_transaction({A: 1}, member_id="m", generation=1)) == {
        A: ErrorCode.UNKNOWN_MEMBER_ID
    }
    # As in Kafka the group exists from now on, until the next expiry.
    assert coordinating.group.state is State.EMPTY
    assert not coordinating.batches
    expire(coordinating)
    assert not coordinating.shard.groups


def test_in_a_group_with_members_the_generation_is_checked_if_there_is_one(coordinating: Coordinating) -> None:
    (member,) = coordinating.stable_group(instance="one")

    def commit(member_id: str = "", generation: int = -1, instance: str | None = None) -> ErrorCode:
        return errors(coordinating.commit_in_transaction({A: 1}, 1, member_id, generation, instance=instance))[A]

    assert commit() == ErrorCode.NONE
    assert commit(member, 1) == ErrorCode.NONE
    assert commit(member, 1, "one") == ErrorCode.NONE
    assert commit(member) == ErrorCode.ILLEGAL_GENERATION
    assert commit(member, 0) == ErrorCode.ILLEGAL_GENERATION
    assert commit(member, 2) == ErrorCode.ILLEGAL_GENERATION
    assert commit("nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit("", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit("nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(member, 1, "another") == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit("nobody", 1, "one") == ErrorCode.FENCED_INSTANCE_ID
    assert commit("", -1, "one") == ErrorCode.FENCED_INSTANCE_ID


def test_members_commit_in_transactions_at_every_stage_of_a_rebalance(coordinating: Coordinating) -> None:
    one, two = coordinating.stable_group(2)
    coordinating.join(one)
    assert coordinating.shard.describe(GROUP).group_state == "PreparingRebalance"
    assert errors(coordinating.commit_in_transaction({A: 1}, 1, two, 1)) == DONE
    coordinating.join(two)
    assert coordinating.group.state is State.COMPLETING_REBALANCE
    assert errors(coordinating.commit_in_transaction({A: 2}, 1, two, 2)) == DONE


def test_a_commit_in_a_transaction_does_not_restart_the_session_of_its_member(coordinating: Coordinating) -> None:
    (member,) = coordinating.stable_group()
    coordinating.pass_time(9_999)
    assert errors(coordinating.commit_in_transaction({A: 1}, 1, member, 1)) == DONE
    coordinating.pass_time(1)
    assert coordinating.group.state is State.EMPTY


def test_long_metadata_is_refused(coordinating: Coordinating) -> None:
    answer = coordinating.commit_in_transaction({A: 1}, metadata="x" * 4_097)
    assert errors(answer) == {A: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert not coordinating.batches
    assert not unstable(coordinating)
    assert errors(coordinating.commit_in_transaction({A: 1}, metadata="x" * 4_096)) == DONE


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
    ],
)
def test_an_append_that_fails_is_answered_as_for_a_plain_commit(
    coordinating: Coordinating, failure: ErrorCode, error: ErrorCode
) -> None:
    coordinating.commit_in_transaction({A: 1})
    coordinating.failing = failure
    assert errors(coordinating.commit_in_transaction({A: 2, B: 2})) == {A: error, B: error}
    coordinating.end_transaction(commit=True)
    assert coordinating.committed(stable=True) == {A: 1}


# ---------------------------------------------------------------------------------------------------- transactions


@pytest.mark.parametrize(("commit", "offset"), [(True, 5), (False, 1)])
def test_offsets_are_pending_until_the_marker(coordinating: Coordinating, commit: bool, offset: int) -> None:
    coordinating.commit({A: 1, B: 1})
    coordinating.holding = True
    answer = coordinating.commit_in_transaction({A: 4})
    assert answer.parked
    assert unstable(coordinating) == {A}
    coordinating.release()
    coordinating.holding = False
    assert errors(answer) == DONE
    coordinating.commit_in_transaction({A: 5})
    assert (unstable(coordinating), coordinating.committed()) == ({A}, {A: 1, B: 1})
    coordinating.end_transaction(2, commit=commit)
    assert unstable(coordinating) == {A}
    coordinating.end_transaction(commit=commit)
    assert coordinating.committed(stable=True) == {A: offset, B: 1}


def test_the_markers_of_several_producers_end_their_own_transactions(coordinating: Coordinating) -> None:
    coordinating.commit_in_transaction({A: 1, B: 1}, 1)
    coordinating.commit_in_transaction({A: 2}, 2)
    coordinating.commit_in_transaction({A: 3}, 3, group="others")
    coordinating.commit_in_transaction({B: 3}, 1, group="others")
    coordinating.end_transaction(2, commit=False)
    assert (unstable(coordinating), coordinating.committed()) == ({A, B}, {})
    coordinating.end_transaction(1, commit=True)
    assert coordinating.committed(stable=True) == {A: 1, B: 1}
    assert coordinating.committed("others") == {B: 3}
    coordinating.end_transaction(3, commit=True)
    assert coordinating.committed("others", stable=True) == {A: 3, B: 3}


@pytest.mark.parametrize("first", [1, 2])
def test_of_two_transactions_the_offset_counts_that_is_later_in_the_log(coordinating: Coordinating, first: int) -> None:
    coordinating.commit_in_transaction({A: 7}, 1)
    coordinating.commit_in_transaction({A: 3}, 2)
    coordinating.end_transaction(first, commit=True)
    assert unstable(coordinating) == {A}
    coordinating.end_transaction(3 - first, commit=True)
    assert coordinating.committed(stable=True) == {A: 3}


def test_a_plain_commit_counts_if_it_was_made_later_than_that_of_the_transaction(coordinating: Coordinating) -> None:
    coordinating.commit({A: 1})
    coordinating.commit_in_transaction({A: 7, B: 7})
    coordinating.commit({A: 2})
    assert coordinating.committed() == {A: 2}
    coordinating.end_transaction(commit=True)
    assert coordinating.committed(stable=True) == {A: 2, B: 7}


def test_a_marker_without_offsets_changes_nothing(coordinating: Coordinating) -> None:
    coordinating.commit({A: 1})
    coordinating.end_transaction(commit=True)
    coordinating.commit_in_transaction({A: 2})
    coordinating.end_transaction(commit=True)
    coordinating.end_transaction(commit=False)
    assert coordinating.committed(stable=True) == {A: 2}


def test_a_marker_does_not_end_the_next_transaction(coordinating: Coordinating) -> None:
    coordinating.commit_in_transaction({A: 1})
    coordinating.end_transaction(commit=True)
    coordinating.commit_in_transaction({A: 2, B: 2})
    assert (unstable(coordinating), coordinating.committed()) == ({A, B}, {A: 1})
    coordinating.end_transaction(commit=False)
    assert coordinating.committed(stable=True) == {A: 1}


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_ends_appends_under_way_when_they_end(coordinating: Coordinating, commit: bool) -> None:
    coordinating.holding = True
    ended = coordinating.commit_in_transaction({A: 1})
    coordinating.end_transaction(commit=commit)
    following = coordinating.commit_in_transaction({B: 2})
    assert (unstable(coordinating), coordinating.committed()) == ({A, B}, {})
    coordinating.release()
    assert (errors(ended), errors(following)) == (DONE, {B: ErrorCode.NONE})
    assert (unstable(coordinating), coordinating.committed()) == ({B}, {A: 1} if commit else {})


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("kinds", list(permutations(["in transaction", "plain", "in transaction, too"])))
def test_all_orders_of_appends_their_ends_and_the_marker_end_as_the_log_says(
    kinds: tuple[str, ...], commit: bool
) -> None:
    outcomes = product([ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS], repeat=3)
    for ends, ended_before_marker in product(outcomes, range(4)):
        coordinating = Coordinating()
        coordinating.commit({A: 0})
        coordinating.holding = True
        for offset, kind in enumerate(kinds, 1):
            (coordinating.commit if kind == "plain" else coordinating.commit_in_transaction)({A: offset})
        held, coordinating.held = coordinating.held, []
        for appended, error in zip(held[:ended_before_marker], ends, strict=False):
            coordinating.finish(appended, error)
        coordinating.end_transaction(commit=commit)
        for appended, error in zip(held[ended_before_marker:], ends[ended_before_marker:], strict=True):
            assert unstable(coordinating) == {A}
            coordinating.finish(appended, error)
        counting = [
            offset
            for offset, (kind, error) in enumerate(zip(kinds, ends, strict=True), 1)
            if not error and (commit or kind == "plain")
        ]
        assert coordinating.committed(stable=True) == {A: max(counting, default=0)}
        assert restart(coordinating).committed(stable=True) == coordinating.committed()


# -------------------------------------------------------------------------------------------------------- deletion


def test_offsets_of_open_transactions_are_deleted_with_tombstones(coordinating: Coordinating) -> None:
    coordinating.commit({A: 1})
    coordinating.commit_in_transaction({A: 2, B: 2})
    assert errors(delete(coordinating, B)) == {B: ErrorCode.NONE}
    assert coordinating.log[-1] == (offset_key(GROUP, "b", 1), None)
    assert unstable(coordinating) == {A}
    assert errors(delete(coordinating, A)) == DONE
    assert coordinating.log[-1] == (offset_key(GROUP, "a", 0), None)
    # The group has no offsets and no members any more.
    assert not coordinating.shard.groups
    coordinating.commit({B: 5})
    coordinating.end_transaction(commit=True)
    assert coordinating.committed(stable=True) == {B: 5}
    assert restart(coordinating).committed(stable=True) == {B: 5}


def test_offsets_that_are_deleted_while_they_are_appended_do_not_count(coordinating: Coordinating) -> None:
    coordinating.commit({B: 1})
    coordinating.holding = True
    committing = coordinating.commit_in_transaction({A: 2})
    deleting = delete(coordinating, A)
    coordinating.release()
    assert (errors(committing), errors(deleting)) == (DONE, DONE)
    coordinating.end_transaction(commit=True)
    assert coordinating.committed(stable=True) == {B: 1}
    assert restart(coordinating).committed(stable=True) == {B: 1}


def test_a_commit_after_a_deletion_counts_in_the_same_transaction(coordinating: Coordinating) -> None:
    coordinating.commit_in_transaction({A: 2, B: 2})
    delete(coordinating, A)
    coordinating.commit_in_transaction({A: 3})
    coordinating.end_transaction(commit=True)
    assert coordinating.committed(stable=True) == {A: 3, B: 2}
    assert restart(coordinating).committed(stable=True) == {A: 3, B: 2}


def test_deleting_a_topic_deletes_its_offsets_in_transactions(coordinating: Coordinating) -> None:
    coordinating.commit_in_transaction({A: 1, B: 1})
    coordinating.decide(coordinating.shard.topics_deleted, frozenset("a"))
    assert coordinating.log[2:] == [(offset_key(GROUP, "a", 0), None)]
    coordinating.end_transaction(commit=True)
    assert coordinating.committed(stable=True) == {B: 1}


def test_deleting_a_group_deletes_its_offsets_in_transactions(coordinating: Coordinating) -> None:
    (member,) = coordinating.stable_group()
    coordinating.commit_in_transaction({A: 1}, 1, member, 1)
    coordinating.commit_in_transaction({A: 2, B: 2}, 2, member, 1)
    answer = Answer()
    coordinating.decide(coordinating.shard.delete_group, GROUP, answer)
    assert answer.response == ErrorCode.NON_EMPTY_GROUP
    coordinating.leave((member, None))
    answer = Answer()
    coordinating.decide(coordinating.shard.delete_group, GROUP, answer)
    assert answer.response == ErrorCode.NONE
    assert coordinating.log[-3:] == [
        (offset_key(GROUP, "a", 0), None), (offset_key(GROUP, "b", 1), None), (group_key(GROUP), None),
    ]  # fmt: skip
    coordinating.end_transaction(1, commit=True)
    coordinating.end_transaction(2, commit=True)
    assert not coordinating.shard.groups
    assert not restart(coordinating).shard.groups


def test_a_group_with_an_open_transaction_is_not_deleted_before_its_end(coordinating: Coordinating) -> None:
    (member,) = coordinating.stable_group()
    coordinating.commit_in_transaction({A: 1}, 1, member, 1)
    coordinating.leave((member, None))
    coordinating.pass_time(RETENTION_MS)
    expire(coordinating)
    assert list(coordinating.shard.groups) == [GROUP]
    coordinating.end_transaction(commit=False)
    expire(coordinating)
    assert not coordinating.shard.groups


def test_an_offset_does_not_expire_while_a_transaction_commits_another(coordinating: Coordinating) -> None:
    coordinating.commit({A: 1, B: 1})
    coordinating.pass_time(RETENTION_MS - 1)
    coordinating.commit_in_transaction({A: 2})
    coordinating.pass_time(1)
    expire(coordinating)
    assert coordinating.committed() == {A: 1}
    coordinating.end_transaction(commit=True)
    coordinating.pass_time(RETENTION_MS - 2)
    expire(coordinating)
    assert coordinating.committed() == {A: 2}
    coordinating.pass_time(1)
    expire(coordinating)
    assert not coordinating.shard.groups


def test_offsets_of_subscribed_topics_in_transactions_stay(coordinating: Coordinating) -> None:
    (member,) = coordinating.stable_group(protocols={"range": TO_A})
    coordinating.commit_in_transaction({A: 1, B: 1}, 1, member, 1)
    assert errors(delete(coordinating, A, B)) == {A: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, B: ErrorCode.NONE}
    coordinating.end_transaction(commit=True)
    assert coordinating.committed(stable=True) == {A: 1}


# --------------------------------------------------------------------------------------------------------- loading


@pytest.mark.parametrize(("commit", "offset"), [(True, 2), (False, 1)])
def test_transactions_that_are_open_after_a_load_end_with_their_marker(
    coordinating: Coordinating, commit: bool, offset: int
) -> None:
    coordinating.commit({A: 1})
    coordinating.commit_in_transaction({A: 2})
    coordinating.commit_in_transaction({B: 3}, 2)
    coordinating.commit({B: 4})
    loaded = restart(coordinating)
    assert (unstable(loaded), loaded.committed()) == ({A, B}, {A: 1, B: 4})
    loaded.end_transaction(1, commit=commit)
    loaded.end_transaction(2, commit=commit)
    assert loaded.committed(stable=True) == {A: offset, B: 4}


def test_a_commit_after_a_load_is_later_than_all_in_the_log(coordinating: Coordinating) -> None:
    for _ in range(5):
        coordinating.commit({A: 1, B: 1})
    coordinating.commit_in_transaction({A: 1, B: 1})
    loaded = restart(coordinating)
    loaded.commit({A: 2})
    loaded.commit_in_transaction({B: 2})
    loaded.end_transaction(commit=True)
    assert loaded.committed(stable=True) == {A: 2, B: 2}


def test_a_group_that_only_has_an_open_transaction_is_loaded(coordinating: Coordinating) -> None:
    coordinating.commit_in_transaction({A: 1})
    loaded = restart(coordinating)
    assert list(loaded.shard.groups) == [GROUP]
    loaded.end_transaction(commit=True)
    assert loaded.committed(stable=True) == {A: 1}


def test_a_generation_that_is_loaded_later_keeps_the_offsets_of_open_transactions(coordinating: Coordinating) -> None:
    coordinating.commit_in_transaction({A: 1})
    coordinating.stable_group()
    loaded = restart(coordinating)
    assert (unstable(loaded), loaded.group.state) == ({A}, State.STABLE)


def test_an_unloaded_shard_forgets_its_transactions(coordinating: Coordinating) -> None:
    coordinating.commit_in_transaction({A: 1})
    coordinating.holding = True
    committing = coordinating.commit_in_transaction({B: 1})
    coordinating.decide(coordinating.shard.unload)
    coordinating.end_transaction(commit=True)
    coordinating.release(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert errors(committing) == {B: ErrorCode.NOT_COORDINATOR}
    assert not coordinating.shard.groups
