"""The assignors assign partitions like those of Kafka."""

import pytest

from ottla.client.consuming.assignors import Member, assign_range, assign_round_robin, chosen_assignors
from ottla.wire.types import TopicPartition

A = Member("a", ["t", "u"])
B = Member("b", ["t"])
C = Member("c", ["t", "u"])
COUNTS = {"t": 4, "u": 3}


def shares(found: dict[str, list[TopicPartition]]) -> dict[str, list[str]]:
    return {member: list(map(str, partitions)) for member, partitions in found.items()}


def test_range_assigns_ranges_of_each_topic_and_the_remainder_to_the_first_members() -> None:
    assert shares(assign_range([C, B, A], COUNTS)) == {
        "a": ["t-0", "t-1", "u-0", "u-1"],
        "b": ["t-2"],
        "c": ["t-3", "u-2"],
    }


def test_round_robin_continues_over_topics_and_skips_members_without_a_subscription() -> None:
    assert shares(assign_round_robin([C, B, A], COUNTS)) == {
        "a": ["t-0", "t-3", "u-1"],
        "b": ["t-1"],
        "c": ["t-2", "u-0", "u-2"],
    }


def test_static_members_come_first_by_their_instance_ids() -> None:
    static = Member("z", ["t"], "0")
    assert shares(assign_range([A, B, static], {"t": 4})) == {"z": ["t-0", "t-1"], "a": ["t-2"], "b": ["t-3"]}


def test_a_topic_that_does_not_exist_has_no_partitions_to_assign() -> None:
    assert shares(assign_range([A], {})) == shares(assign_round_robin([A], {})) == {"a": []}


def test_assignors_are_named_by_their_protocol_or_by_kafkas_class() -> None:
    names = ["range", "org.apache.kafka.clients.consumer.RoundRobinAssignor"]
    assert chosen_assignors(names) == ["range", "roundrobin"]
    with pytest.raises(KeyError):
        chosen_assignors(["cooperative-sticky"])
