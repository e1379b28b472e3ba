"""The subscription and the assignment of a member of a classic consumer group; no coordinator reads them.

Owns both messages and their version prefix. Must not know how partitions are assigned.
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
    """A member's subscribed topics, and its owned partitions."""

    topics: Sequence[String]
    user_data: Annotated[Bytes | None, V(nullable="0+")] = None
    owned_partitions: Annotated[Sequence[TopicPartitions], V("1+")] = ()
    generation_id: Annotated[Int32, V("2+")] = -1
    rack_id: Annotated[String | None, V("3+", nullable="3+")] = None


class ConsumerProtocolAssignment(Message, versions="0-3"):
    """A member's assigned partitions."""

    assigned_partitions: Sequence[TopicPartitions]
    user_data: Annotated[Bytes | None, V(nullable="0+")] = None


def subscription_bytes(topics: Iterable[str], rack_id: str | None = None) -> bytes:
    """Return the subscription of a joining member without partitions."""
    subscription = ConsumerProtocolSubscription(topics=sorted(topics), rack_id=rack_id)
    return _VERSION.pack(_NEWEST) + subscription.encode(_NEWEST)


def subscribed_topics(data: bytes) -> list[str]:
    """Return the topics of a subscription. DecodeError: the bytes are none."""
    return list(ConsumerProtocolSubscription.decode(data[2:], _version(data)).topics)


def assignment_bytes(partitions: Iterable[TopicPartition]) -> bytes:
    """Return the assignment of these partitions."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    assigned = [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in by_topic.items()]
    return _VERSION.pack(_NEWEST) + ConsumerProtocolAssignment(assigned_partitions=assigned).encode(_NEWEST)


def assigned_partitions(data: bytes) -> list[TopicPartition]:
    """Return the partitions of an assignment; none for empty bytes. DecodeError: the bytes are none."""
    if not data:
        return []
    assignment = ConsumerProtocolAssignment.decode(data[2:], _version(data))
    return [TopicPartition(each.topic, number) for each in assignment.assigned_partitions for number in each.partitions]


def _version(data: bytes) -> int:
    """Return the version in which to decode, at most _NEWEST, because a later version begins like it."""
    if len(data) < _VERSION.size:
        raise DecodeError(f"{len(data)} bytes hold no version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise DecodeError(f"version {version}")
    return min(version, _NEWEST)
