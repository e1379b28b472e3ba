"""What members of a classic consumer group tell each other, in bytes that the coordinator hands on unread.

Owns both messages and the number in front of them. Must not know how partitions are assigned.
Counterparts in Kafka: ConsumerProtocol, ConsumerProtocolSubscription, ConsumerProtocolAssignment.
"""

from collections.abc import Iterable, Sequence
from struct import Struct as Layout
from typing import Annotated, Final

from ottla.wire.errors import DecodeError
from ottla.wire.schema import Message, Struct, V
from ottla.wire.types import Bytes, Int32, String, TopicPartition

PROTOCOL_TYPE: Final = "consumer"
_NEWEST: Final = 3
_VERSION: Final = Layout(">h")


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic: String
    partitions: Sequence[Int32]


class ConsumerProtocolSubscription(Message, versions="0-3"):
    """What a member wants, and what it has."""

    topics: Sequence[String]
    user_data: Annotated[Bytes | None, V(nullable="0+")] = None
    owned_partitions: Annotated[Sequence[TopicPartitions], V("1+")] = ()
    generation_id: Annotated[Int32, V("2+")] = -1
    rack_id: Annotated[String | None, V("3+", nullable="3+")] = None


class ConsumerProtocolAssignment(Message, versions="0-3"):
    """What a member gets."""

    assigned_partitions: Sequence[TopicPartitions]
    user_data: Annotated[Bytes | None, V(nullable="0+")] = None


def subscription_bytes(topics: Iterable[str], rack_id: str | None = None) -> bytes:
    """Return what a member that has no partitions sends when it joins."""
    subscription = ConsumerProtocolSubscription(topics=sorted(topics), rack_id=rack_id)
    return _VERSION.pack(_NEWEST) + subscription.encode(_NEWEST)


def subscribed_topics(data: bytes) -> list[str]:
    """Return the topics that a member wants. DecodeError for bytes that are no subscription."""
    return list(ConsumerProtocolSubscription.decode(data[2:], _version(data)).topics)


def assignment_bytes(partitions: Iterable[TopicPartition]) -> bytes:
    """Return what the leader of a group sends to a member."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    assigned = [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in by_topic.items()]
    return _VERSION.pack(_NEWEST) + ConsumerProtocolAssignment(assigned_partitions=assigned).encode(_NEWEST)


def assigned_partitions(data: bytes) -> list[TopicPartition]:
    """Return the partitions that a member gets: none for no bytes. DecodeError for bytes that are no assignment."""
    if not data:
        return []
    assignment = ConsumerProtocolAssignment.decode(data[2:], _version(data))
    return [TopicPartition(each.topic, number) for each in assignment.assigned_partitions for number in each.partitions]


def _version(data: bytes) -> int:
    """Return the version in which to read: a later one begins like the newest that is known."""
    if len(data) < _VERSION.size:
        raise DecodeError(f"{len(data)} bytes hold no version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise DecodeError(f"version {version}")
    return min(version, _NEWEST)
