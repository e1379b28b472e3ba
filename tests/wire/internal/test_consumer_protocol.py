"""Subscriptions and assignments have Kafka's bytes."""

import pytest

from ottla.wire.errors import DecodeError
from ottla.wire.internal.consumer_protocol import (
    ConsumerProtocolSubscription,
    assigned_partitions,
    assignment_bytes,
    subscribed_topics,
    subscription_bytes,
)
from ottla.wire.types import TopicPartition

PARTITIONS = [TopicPartition("a", 1), TopicPartition("a", 2), TopicPartition("b", 0)]


def test_a_subscription_has_the_bytes_of_kafkas_client() -> None:
    # Version 3, the topics in order, no user data, no owned partitions, no generation, no rack.
    expected = "0003 00000002 0001 61 0001 62 ffffffff 00000000 ffffffff ffff"
    assert subscription_bytes(["b", "a"]) == bytes.fromhex(expected)
    assert subscribed_topics(subscription_bytes(["b", "a"])) == ["a", "b"]


def test_an_assignment_has_the_bytes_of_kafkas_client() -> None:
    expected = "0003 00000002 0001 61 00000002 00000001 00000002 0001 62 00000001 00000000 ffffffff"
    assert assignment_bytes(PARTITIONS) == bytes.fromhex(expected)
    assert assigned_partitions(assignment_bytes(PARTITIONS)) == PARTITIONS


def test_older_and_later_versions_are_read() -> None:
    old = ConsumerProtocolSubscription(topics=["t"]).encode(0)
    assert subscribed_topics(b"\0\0" + old) == ["t"]
    assert subscribed_topics(b"\0\x09" + subscription_bytes(["t"])[2:] + b"more") == ["t"]


def test_a_member_without_partitions_may_send_nothing() -> None:
    assert assigned_partitions(b"") == []


@pytest.mark.parametrize("data", [b"\0", b"\xff\xff", b"\0\x03\0"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        assigned_partitions(data)
