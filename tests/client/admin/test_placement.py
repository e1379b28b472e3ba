"""Placing replicas: spread over brokers and racks, with spread leaders and few moves."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from ottla.client.admin.placement import place
from ottla.wire.types import TopicPartition

Assignment = Mapping[TopicPartition, Sequence[int]]


def topic(name: str, *replicas: list[int]) -> dict[TopicPartition, list[int]]:
    return {TopicPartition(name, number): each for number, each in enumerate(replicas)}


def without_racks(*brokers: int) -> dict[int, None]:
    return dict.fromkeys(brokers)


def moves(before: Assignment, after: Assignment) -> int:
    return sum(len(set(after[each]) - set(before[each])) for each in before)


def load(assignment: Assignment) -> Counter[int]:
    return Counter(broker for replicas in assignment.values() for broker in replicas)


def leaders(assignment: Assignment) -> Counter[int]:
    return Counter(replicas[0] for replicas in assignment.values())


def spread(counts: Mapping[int, int], brokers: int) -> int:
    """Return the largest difference of brokers, also of those without replicas."""
    found = [*counts.values(), *[0] * (brokers - len(counts))]
    return max(found) - min(found)


def test_an_even_placement_stays_unchanged() -> None:
    before = topic("t", [1, 2], [2, 3], [3, 1])
    assert place(before, without_racks(1, 2, 3)) == before


def test_a_new_broker_gets_its_share_with_the_fewest_moves() -> None:
    before = topic("t", *[[1, 2]] * 6)
    after = place(before, without_racks(1, 2, 3))
    assert moves(before, after) == 4
    assert load(after) == {1: 4, 2: 4, 3: 4}
    assert leaders(after) == {1: 2, 2: 2, 3: 2}


def test_an_excluded_broker_loses_its_replicas_and_no_others_move() -> None:
    before = topic("t", [1, 2, 3], [2, 3, 1], [3, 1, 2])
    after = place(before, without_racks(2, 3, 4))
    assert moves(before, after) == 3
    assert 1 not in load(after)


def test_leaders_are_spread_without_moving_records() -> None:
    before = topic("t", *[[1, 2, 3]] * 6)
    after = place(before, without_racks(1, 2, 3))
    assert moves(before, after) == 0
    assert leaders(after) == {1: 2, 2: 2, 3: 2}


def test_topics_of_one_partition_are_spread_over_brokers_together() -> None:
    before = {TopicPartition(f"t{number}", 0): [1, 2] for number in range(12)}
    after = place(before, without_racks(1, 2, 3))
    assert load(after) == {1: 8, 2: 8, 3: 8}
    assert leaders(after) == {1: 4, 2: 4, 3: 4}
    assert moves(before, after) == 8


def test_replicas_are_added_up_to_the_replication_factor() -> None:
    after = place(topic("t", [1], [1], [1]), without_racks(1, 2, 3), 3)
    assert all(sorted(replicas) == [1, 2, 3] for replicas in after.values())
    assert leaders(after) == {1: 1, 2: 1, 3: 1}


def test_replicas_beyond_the_replication_factor_are_removed_and_none_moves() -> None:
    before = topic("t", [1, 2, 3], [1, 2, 3], [1, 2, 3])
    after = place(before, without_racks(1, 2, 3), 2)
    assert moves(before, after) == 0
    assert load(after) == {1: 2, 2: 2, 3: 2}


def test_a_partition_gets_a_second_replica_in_a_rack_only_when_each_rack_has_one() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    after = place(topic("t", *[[1, 2, 3]] * 12), racks)
    assert all({racks[broker] for broker in replicas} == {"a", "b", "c"} for replicas in after.values())
    assert spread(load(after), 6) == 0
    assert spread(leaders(after), 6) == 0


def test_racks_are_ignored_if_a_broker_has_none() -> None:
    after = place(topic("t", [1, 2], [2, 1]), {1: "a", 2: "a", 3: None})
    assert spread(load(after), 3) <= 1


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(ValueError, match="3 replicas of a partition need as many brokers, but there are 2"):
        place(topic("t", [1, 2, 3]), without_racks(1, 2))


@pytest.mark.trials(few=20, soak=300)
def test_any_assignment_becomes_an_even_one(trials: int, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(trials):
        brokers = chance.randint(1, 8)
        factor = chance.randint(1, brokers)
        before = {
            TopicPartition(f"t{name}", number): chance.sample(range(brokers), chance.randint(1, brokers))
            for name in range(chance.randint(1, 4))
            for number in range(chance.randint(1, 12))
        }
        after = place(before, without_racks(*range(brokers)), factor)
        assert all(len(set(replicas)) == factor for replicas in after.values())
        for name in {None, *(each.topic for each in before)}:
            mine = {each: replicas for each, replicas in after.items() if name in (None, each.topic)}
            assert spread(load(mine), brokers) <= 1, (before, after)
            if name is not None:
                assert spread(leaders(mine), brokers) <= 1, (before, after)
