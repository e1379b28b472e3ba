from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.replicas import in_sync as isr
from ottla.broker.replicas.in_sync import InSyncReplicas, Replica

LEADER = 0
MAX_LAG_MS = 30_000
NOW_MS = 1_000_000


def follower(broker_id: int, log_end_offset: int, last_caught_up_time_ms: int = 0) -> Replica:
    replica = Replica(broker_id)
    replica.log_end_offset = log_end_offset
    replica.last_caught_up_time_ms = last_caught_up_time_ms
    return replica


def followers(*replicas: Replica) -> dict[int, Replica]:
    return {replica.broker_id: replica for replica in replicas}


def watermark(
    current: int,
    leader_end: int,
    replicas: Iterable[Replica],
    in_sync: InSyncReplicas,
    min_isr: int = 1,
    is_alive: Callable[[int], bool] = lambda broker_id: True,
) -> int:
    return isr.high_watermark(current, leader_end, followers(*replicas), in_sync, min_isr, NOW_MS, MAX_LAG_MS, is_alive)


def test_a_lone_leader_has_its_own_end_as_high_watermark() -> None:
    assert watermark(3, 10, [], InSyncReplicas([LEADER])) == 10


def test_the_slowest_in_sync_follower_sets_the_high_watermark() -> None:
    replicas = [follower(1, 8), follower(2, 5)]
    assert watermark(3, 10, replicas, InSyncReplicas([LEADER, 1, 2])) == 5


def test_a_follower_out_of_sync_for_long_does_not_hold_the_high_watermark_back() -> None:
    assert watermark(3, 10, [follower(1, 4)], InSyncReplicas([LEADER])) == 10


def test_a_follower_that_caught_up_but_is_not_in_the_set_yet_holds_the_high_watermark_back() -> None:
    assert watermark(3, 10, [follower(1, 4, NOW_MS - MAX_LAG_MS)], InSyncReplicas([LEADER])) == 4
    assert watermark(3, 10, [follower(1, 4, NOW_MS - MAX_LAG_MS - 1)], InSyncReplicas([LEADER])) == 10


def test_a_dead_follower_that_was_caught_up_does_not_hold_the_high_watermark_back() -> None:
    assert watermark(3, 10, [follower(1, 4, NOW_MS)], InSyncReplicas([LEADER]), is_alive=lambda _: False) == 10
    assert watermark(3, 10, [follower(1, 4, NOW_MS)], InSyncReplicas([LEADER, 1]), is_alive=lambda _: False) == 4


def test_a_follower_being_added_or_removed_counts_until_the_controller_answers() -> None:
    assert watermark(3, 10, [follower(1, 6)], InSyncReplicas([LEADER]).propose([LEADER, 1])) == 6
    assert watermark(3, 10, [follower(1, 6)], InSyncReplicas([LEADER, 1]).propose([LEADER])) == 6


def test_the_high_watermark_rests_below_min_isr() -> None:
    assert watermark(3, 10, [follower(1, 9)], InSyncReplicas([LEADER]), min_isr=2) == 3


def test_a_proposed_member_does_not_count_for_min_isr() -> None:
    assert watermark(3, 10, [follower(1, 9)], InSyncReplicas([LEADER]).propose([LEADER, 1]), min_isr=2) == 3


def test_only_one_change_of_the_in_sync_replicas_is_under_way() -> None:
    state = InSyncReplicas([LEADER]).propose([LEADER, 1])
    assert state.maximal == {LEADER, 1}
    with pytest.raises(ValueError, match="under way"):
        state.propose([LEADER])


def test_members_that_join_come_last_and_those_that_stay_keep_their_place() -> None:
    in_sync = InSyncReplicas((3, 1))
    assert in_sync.propose({1, 2, 3}).proposed_in_order == [3, 1, 2]
    assert InSyncReplicas((3, 2, 1)).propose({1, 3}).proposed_in_order == [3, 1]


def test_min_isr_is_never_more_than_there_are_replicas() -> None:
    assert isr.effective_min_isr(2, 1) == 1
    assert isr.effective_min_isr(2, 3) == 2


def test_a_fetch_at_the_leaders_end_catches_up_now() -> None:
    replica = Replica(1)
    replica.fetched(10, 0, now_ms=500, leader_end_offset=10, broker_epoch=7)
    assert (replica.log_end_offset, replica.last_caught_up_time_ms, replica.broker_epoch) == (10, 500, 7)


def test_a_follower_always_one_step_behind_a_busy_leader_is_caught_up_to_its_previous_fetch() -> None:
    replica = Replica(1)
    replica.fetched(10, 0, now_ms=500, leader_end_offset=20, broker_epoch=-1)
    replica.fetched(20, 0, now_ms=600, leader_end_offset=30, broker_epoch=-1)
    assert replica.last_caught_up_time_ms == 500
    replica.fetched(25, 0, now_ms=700, leader_end_offset=40, broker_epoch=-1)
    assert replica.last_caught_up_time_ms == 500


def test_a_new_leader_forgets_positions_and_one_elected_again_keeps_them() -> None:
    replica = Replica(1)
    replica.fetched(10, 2, now_ms=500, leader_end_offset=20, broker_epoch=3)
    replica.reset(900, 20, is_new_leader=False, is_in_sync=True)
    assert (replica.log_end_offset, replica.log_start_offset, replica.last_caught_up_time_ms) == (10, 2, 900)
    replica.reset(950, 20, is_new_leader=True, is_in_sync=False)
    assert (replica.log_end_offset, replica.log_start_offset, replica.last_caught_up_time_ms) == (-1, -1, 0)


def test_a_follower_may_join_with_all_that_is_committed_and_all_from_before_the_epoch() -> None:
    alone = InSyncReplicas([LEADER])
    assert isr.may_join(follower(1, 10), alone, 10, 8)
    assert not isr.may_join(follower(1, 9), alone, 10, 8)
    assert not isr.may_join(follower(1, 10), alone, 5, 11)
    assert not isr.may_join(follower(1, 10), InSyncReplicas([LEADER, 1]), 10, 8)
    assert not isr.may_join(follower(1, 10), alone.propose([LEADER, 2]), 10, 8)


def test_only_members_that_lag_for_too_long_are_out_of_sync() -> None:
    late = NOW_MS - MAX_LAG_MS - 1
    replicas = followers(follower(1, 5, late), follower(2, 10, late), follower(3, 5, NOW_MS), follower(4, 5, late))
    state = InSyncReplicas([LEADER, 1, 2, 3])
    assert isr.out_of_sync(replicas, state, 10, NOW_MS, MAX_LAG_MS) == {1}
    assert isr.out_of_sync(replicas, state.propose([LEADER]), 10, NOW_MS, MAX_LAG_MS) == set()


offsets = st.integers(0, 50)
replica_sets = st.builds(
    lambda ends: [follower(number, *position) for number, position in enumerate(ends, 1)],
    st.lists(st.tuples(st.integers(-1, 50), st.sampled_from([0, NOW_MS])), max_size=4),
)


@given(current=offsets, grown=offsets, replicas=replica_sets, data=st.data())
def test_no_member_of_either_set_lacks_a_committed_record(
    current: int, grown: int, replicas: list[Replica], data: st.DataObject
) -> None:
    ids = [replica.broker_id for replica in replicas]
    members = st.sets(st.sampled_from(ids)) if ids else st.just(set[int]())
    state = InSyncReplicas([LEADER, *data.draw(members)])
    if data.draw(st.booleans()):
        state = state.propose([LEADER, *data.draw(members)])
    min_isr = data.draw(st.integers(1, 3))
    leader_end = current + grown
    result = watermark(current, leader_end, replicas, state, min_isr)
    assert current <= result <= leader_end
    if result > current:
        assert len(state.committed) >= min_isr
        assert all(r.log_end_offset >= result for r in replicas if r.broker_id in state.maximal)


@given(current=offsets, replicas=replica_sets, fetches=st.lists(st.tuples(st.integers(1, 4), offsets), max_size=20))
def test_the_high_watermark_never_falls_and_reaches_the_end_once_all_replicas_have(
    current: int, replicas: list[Replica], fetches: list[tuple[int, int]]
) -> None:
    state = InSyncReplicas([LEADER, *(replica.broker_id for replica in replicas)])
    end = max(current, 50)
    mark = current
    for broker_id, offset in fetches:
        for replica in replicas:
            if replica.broker_id == broker_id:
                replica.fetched(max(replica.log_end_offset, min(offset, end)), 0, NOW_MS, end, -1)
        moved = watermark(mark, end, replicas, state)
        assert moved >= mark
        mark = moved
    for replica in replicas:
        replica.fetched(end, 0, NOW_MS, end, -1)
    assert watermark(mark, end, replicas, state) == end


@given(replicas=replica_sets)
def test_a_replica_that_left_the_in_sync_replicas_no_longer_holds_the_high_watermark_back(
    replicas: list[Replica],
) -> None:
    state = InSyncReplicas([LEADER, *(replica.broker_id for replica in replicas)])
    everyone = followers(*replicas)
    gone = isr.out_of_sync(everyone, state, 51, NOW_MS, MAX_LAG_MS)
    mark = isr.high_watermark(
        0, 51, everyone, InSyncReplicas(state.committed - gone), 1, NOW_MS, MAX_LAG_MS, lambda broker_id: True
    )
    assert mark == max(0, min([51, *(r.log_end_offset for r in replicas if r.broker_id not in gone)]))
