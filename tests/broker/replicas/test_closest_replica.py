"""Which replica a consumer is sent to."""

from collections.abc import Mapping

import pytest

from ottla.broker.replicas.closest_replica import closest_replica
from ottla.broker.replicas.in_sync import InSyncReplicas, Replica
from ottla.broker.replicas.reads import NO_REPLICA

RACKS = {0: "a", 1: "b", 2: "b", 3: "b", 4: None}


class Led:
    """A partition that broker 0 leads: of each follower where its log starts, ends, and when it had caught up."""

    def __init__(self, followers: Mapping[int, tuple[int, int, int]], isr: tuple[int, ...] | None = None) -> None:
        self.is_leader = True
        self.leader_id = 0
        self.in_sync = InSyncReplicas((0, *followers) if isr is None else isr)
        self.followers: dict[int, Replica] = {}
        for broker_id, (start, end, caught_up_ms) in followers.items():
            replica = self.followers[broker_id] = Replica(broker_id)
            replica.log_start_offset, replica.log_end_offset = start, end
            replica.last_caught_up_time_ms = caught_up_ms


def chosen(partition: Led, rack_id: str = "b", fetch_offset: int = 5, racks: Mapping[int, str | None] = RACKS) -> int:
    return closest_replica(partition, fetch_offset, rack_id, racks.get)


def test_a_replica_in_the_rack_is_closest() -> None:
    assert chosen(Led({1: (0, 9, 0), 4: (0, 9, 0)})) == 1


@pytest.mark.parametrize("rack_id", ["a", "elsewhere", ""])
def test_a_consumer_stays_with_a_leader_in_its_rack_or_if_no_replica_is_in_its_rack(rack_id: str) -> None:
    followers = {1: (0, 9, 0), 4: (0, 9, 0)}
    assert chosen(Led(followers), rack_id) == NO_REPLICA
    if rack_id == "a":
        assert chosen(Led(followers), rack_id, racks=RACKS | {1: "a"}) == NO_REPLICA


@pytest.mark.parametrize(
    ("followers", "expected"),
    [
        ({1: (0, 8, 9), 2: (0, 9, 5), 3: (0, 7, 9)}, 2),
        # As far: who was at the end last.
        ({1: (0, 9, 7), 2: (0, 9, 5), 3: (0, 9, 6)}, 1),
        # Alike in all.
        ({1: (0, 9, 7), 2: (0, 9, 7), 3: (0, 9, 7)}, 3),
    ],
)
def test_of_several_replicas_the_one_with_the_highest_end_offset_is_chosen(
    followers: dict[int, tuple[int, int, int]], expected: int
) -> None:
    assert chosen(Led(followers)) == expected


@pytest.mark.parametrize(
    ("start", "end", "has_it"), [(5, 9, True), (6, 9, False), (0, 5, True), (0, 4, False), (-1, -1, False)]
)
def test_the_chosen_replica_has_the_offset(start: int, end: int, has_it: bool) -> None:
    assert chosen(Led({1: (start, end, 0)})) == (1 if has_it else NO_REPLICA)


def test_the_chosen_replica_is_in_sync_and_alive_and_only_a_leader_chooses() -> None:
    assert chosen(Led({1: (0, 9, 0), 2: (0, 8, 0)}, isr=(0, 2))) == 2
    assert chosen(Led({1: (0, 9, 0)}), racks={0: "a"}) == NO_REPLICA
    follower = Led({1: (0, 9, 0)})
    follower.is_leader = False
    assert chosen(follower) == NO_REPLICA


def test_a_member_that_is_only_proposed_is_not_in_sync_yet() -> None:
    partition = Led({1: (0, 9, 0)}, isr=(0,))
    partition.in_sync = partition.in_sync.propose((0, 1))
    assert chosen(partition) == NO_REPLICA
