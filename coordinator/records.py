"""Keys and values of __consumer_offsets, byte for byte Kafka's.

Owns their formats and versions, and the topics in the metadata of consumers. Must not know groups. Counterparts in
Kafka: GroupMetadataManager's static half, GroupCoordinatorRecordHelpers, ConsumerProtocol.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, NamedTuple

from ottla.wire.errors import DecodeError
from ottla.wire.schema import Message, Struct, V
from ottla.wire.types import Bytes, Int32, Int64, String

CONSUMER_PROTOCOL = "consumer"
NO_TIMESTAMP = -1

# The versions that Kafka 3.9 writes. Only version 1 of an offset has a time to expire at.
_OFFSET_KEY_VERSION = 1
_GROUP_KEY_VERSION = 2
_OFFSET_VALUE_VERSION = 3
_EXPIRING_OFFSET_VALUE_VERSION = 1
_GROUP_VALUE_VERSION = 3

# Every commit writes a key and a value. They are packed here, because encoding by the schema takes ten times as long.
_VERSION_AND_LENGTH = struct.Struct(">hh")
_LENGTH = struct.Struct(">h")
_PARTITION = struct.Struct(">i")
_VALUE_START = struct.Struct(">hqih")
_TIMESTAMP = struct.Struct(">q")


class OffsetCommitKey(Message, versions="0-1"):
    """The key of a committed offset."""

    group: String
    topic: String
    partition: Int32


class OffsetCommitValue(Message, versions="0-4", flexible="4+"):
    """A committed offset: the offset of the next record to read."""

    offset: Int64
    leader_epoch: Annotated[Int32, V("3+")] = -1
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Annotated[Int64, V("1")] = NO_TIMESTAMP


class GroupMetadataKey(Message, versions="2"):
    """The key of a group's last complete generation."""

    group: String


class MemberMetadata(Struct):
    """A member of that generation. `subscription` is its metadata for the chosen protocol."""

    member_id: String
    group_instance_id: Annotated[String | None, V("3+", nullable="3+")] = None
    client_id: String
    client_host: String
    rebalance_timeout: Annotated[Int32, V("1+")] = -1
    session_timeout: Int32
    subscription: Bytes
    assignment: Bytes


class GroupMetadataValue(Message, versions="0-4", flexible="4+"):
    """A group's last complete generation."""

    protocol_type: String
    generation: Int32
    protocol: Annotated[String | None, V(nullable="0+")]
    leader: Annotated[String | None, V(nullable="0+")]
    current_state_timestamp: Annotated[Int64, V("2+")] = NO_TIMESTAMP
    members: Sequence[MemberMetadata]


class ConsumerProtocolSubscription(Message, versions="0"):
    """The metadata of a consumer. Every later version begins like this one."""

    topics: Sequence[String]
    user_data: Annotated[Bytes | None, V(nullable="0+")] = None


class OffsetKey(NamedTuple):
    """The key of a committed offset, decoded."""

    group_id: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    """The key of a group, decoded."""

    group_id: str


@lru_cache(maxsize=4096)
def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """The key of a committed offset."""
    group, name = group_id.encode(), topic.encode()
    start = _VERSION_AND_LENGTH.pack(_OFFSET_KEY_VERSION, len(group))
    return b"".join((start, group, _LENGTH.pack(len(name)), name, _PARTITION.pack(partition)))


def offset_value(value: OffsetCommitValue) -> bytes:
    """The value of a committed offset."""
    if value.expire_timestamp != NO_TIMESTAMP:
        return _prefixed(value, _EXPIRING_OFFSET_VALUE_VERSION)
    metadata = value.metadata.encode()
    start = _VALUE_START.pack(_OFFSET_VALUE_VERSION, value.offset, value.leader_epoch, len(metadata))
    return b"".join((start, metadata, _TIMESTAMP.pack(value.commit_timestamp)))


def group_key(group_id: str) -> bytes:
    """The key of a group."""
    return _prefixed(GroupMetadataKey(group=group_id), _GROUP_KEY_VERSION)


def group_value(value: GroupMetadataValue) -> bytes:
    """The value of a group."""
    return _prefixed(value, _GROUP_VALUE_VERSION)


def read_key(data: bytes) -> OffsetKey | GroupKey:
    """Decode a key. Raises DecodeError for an unknown version too."""
    version = _version(data)
    if version in OffsetCommitKey.versions:
        key = OffsetCommitKey.decode(data[2:], version)
        return OffsetKey(key.group, key.topic, key.partition)
    if version in GroupMetadataKey.versions:
        return GroupKey(GroupMetadataKey.decode(data[2:], version).group)
    raise DecodeError(f"key of version {version}")


def read_offset_value(data: bytes) -> OffsetCommitValue:
    """Decode a committed offset of any version."""
    version = _version(data)
    if version not in OffsetCommitValue.versions:
        raise DecodeError(f"offset of version {version}")
    return OffsetCommitValue.decode(data[2:], version)


def read_group_value(data: bytes) -> GroupMetadataValue:
    """Decode a group of any version. Version 0 has one timeout for sessions and rebalances."""
    version = _version(data)
    if version not in GroupMetadataValue.versions:
        raise DecodeError(f"group of version {version}")
    value = GroupMetadataValue.decode(data[2:], version)
    if version == 0:
        for member in value.members:
            member.rebalance_timeout = member.session_timeout
    return value


def subscribed_topics(subscription: bytes) -> Sequence[str]:
    """The topics in the metadata of a consumer. Raises DecodeError if they cannot be read."""
    version = _version(subscription)
    if version < 0:
        raise DecodeError(f"subscription of version {version}")
    return ConsumerProtocolSubscription.decode(subscription[2:], 0).topics


def _prefixed(message: Message, version: int) -> bytes:
    return version.to_bytes(2, "big") + message.encode(version)


def _version(data: bytes) -> int:
    if len(data) < 2:
        raise DecodeError("no version")
    return int.from_bytes(data[:2], "big", signed=True)
