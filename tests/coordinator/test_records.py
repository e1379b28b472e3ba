"""The bytes of keys and values, spelled out, because they must stay Kafka's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.records import (
    NO_TIMESTAMP,
    GroupKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    OffsetKey,
    group_key,
    group_value,
    offset_key,
    offset_value,
    read_group_value,
    read_key,
    read_offset_value,
    subscribed_topics,
)
from ottla.wire.errors import DecodeError

MEMBER = MemberMetadata(
    member_id="m",
    group_instance_id=None,
    client_id="c",
    client_host="/h",
    rebalance_timeout=300_000,
    session_timeout=45_000,
    subscription=b"\x01",
    assignment=b"\x02\x03",
)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)


def text(value: str) -> str:
    return len(value).to_bytes(2, "big").hex() + value.encode().hex()


def test_the_key_of_an_offset_is_of_version_1() -> None:
    expected = "0001" + text("group") + text("topic") + "00000007"
    assert offset_key("group", "topic", 7).hex() == expected
    assert read_key(bytes.fromhex(expected)) == OffsetKey("group", "topic", 7)
    assert read_key(bytes.fromhex("0000" + expected[4:])) == OffsetKey("group", "topic", 7)


def test_the_value_of_an_offset_is_of_version_3() -> None:
    value = OffsetCommitValue(offset=5, leader_epoch=2, metadata="note", commit_timestamp=1000)
    expected = "0003" + "0000000000000005" + "00000002" + text("note") + "00000000000003e8"
    assert offset_value(value).hex() == expected
    assert read_offset_value(bytes.fromhex(expected)) == value


@given(
    group=TEXTS,
    topic=TEXTS,
    partition=st.integers(0, 2**31 - 1),
    offset=st.integers(-(2**63), 2**63 - 1),
    leader_epoch=st.integers(-(2**31), 2**31 - 1),
    metadata=TEXTS,
    timestamp=st.integers(-(2**63), 2**63 - 1),
)
def test_every_offset_is_written_as_its_schema_says(
    group: str, topic: str, partition: int, offset: int, leader_epoch: int, metadata: str, timestamp: int
) -> None:
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    assert offset_key(group, topic, partition) == b"\0\1" + key.encode(1)
    value = OffsetCommitValue(offset=offset, leader_epoch=leader_epoch, metadata=metadata, commit_timestamp=timestamp)
    assert offset_value(value) == b"\0\3" + value.encode(3)


def test_an_offset_that_expires_by_itself_is_of_version_1() -> None:
    value = OffsetCommitValue(offset=5, leader_epoch=2, metadata="", commit_timestamp=1000, expire_timestamp=2000)
    expected = "0001" + "0000000000000005" + "0000" + "00000000000003e8" + "00000000000007d0"
    assert offset_value(value).hex() == expected
    read = read_offset_value(bytes.fromhex(expected))
    assert (read.expire_timestamp, read.leader_epoch) == (2000, -1)


def test_old_and_new_versions_of_an_offset_are_read() -> None:
    old = read_offset_value(bytes.fromhex("0000" + "0000000000000005" + "0000" + "00000000000003e8"))
    assert (old.offset, old.leader_epoch, old.expire_timestamp) == (5, -1, NO_TIMESTAMP)
    flexible = "0004" + "0000000000000005" + "00000002" + "01" + "00000000000003e8" + "00"
    assert read_offset_value(bytes.fromhex(flexible)).leader_epoch == 2


def test_the_key_of_a_group_is_of_version_2() -> None:
    assert group_key("group").hex() == "0002" + text("group")
    assert read_key(group_key("group")) == GroupKey("group")


def test_the_value_of_a_group_is_of_version_3() -> None:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=4,
        protocol="range",
        leader="m",
        current_state_timestamp=9,
        members=[MEMBER],
    )
    expected = "0003" + text("consumer") + "00000004" + text("range") + text("m") + "0000000000000009" + "00000001"
    expected += text("m") + "ffff" + text("c") + text("/h") + "000493e0" + "0000afc8" + "0000000101" + "000000020203"
    assert group_value(value).hex() == expected
    assert read_group_value(bytes.fromhex(expected)) == value


def test_a_group_without_members_has_neither_protocol_nor_leader() -> None:
    value = GroupMetadataValue(
        protocol_type="consumer", generation=5, protocol=None, leader=None, current_state_timestamp=9, members=[]
    )
    expected = "0003" + text("consumer") + "00000005" + "ffff" + "ffff" + "0000000000000009" + "00000000"
    assert group_value(value).hex() == expected


def test_a_group_of_version_0_has_one_timeout() -> None:
    data = "0000" + text("consumer") + "00000004" + text("range") + text("m") + "00000001"
    data += text("m") + text("c") + text("/h") + "0000afc8" + "0000000101" + "000000020203"
    value = read_group_value(bytes.fromhex(data))
    assert value.current_state_timestamp == NO_TIMESTAMP
    assert (value.members[0].rebalance_timeout, value.members[0].session_timeout) == (45_000, 45_000)


@pytest.mark.parametrize("version", ["0003", "ffff", "7fff"])
def test_keys_of_the_future_are_refused(version: str) -> None:
    with pytest.raises(DecodeError, match=f"{int.from_bytes(bytes.fromhex(version), 'big', signed=True)}"):
        read_key(bytes.fromhex(version + text("group")))


def test_values_of_the_future_are_refused() -> None:
    with pytest.raises(DecodeError, match="5"):
        read_offset_value(bytes.fromhex("0005" + "00" * 30))
    with pytest.raises(DecodeError, match="5"):
        read_group_value(bytes.fromhex("0005" + "00" * 30))


def test_a_key_that_ends_early_is_refused() -> None:
    with pytest.raises(DecodeError):
        read_key(b"\0")
    with pytest.raises(DecodeError):
        read_key(offset_key("group", "topic", 7)[:-1])


@pytest.mark.parametrize("version", ["0000", "0003"])
def test_the_topics_of_a_subscription_are_read_whatever_follows_them(version: str) -> None:
    data = bytes.fromhex(version + "00000002" + text("a") + text("b") + "ffffffff" + "0000000012345678")
    assert list(subscribed_topics(data)) == ["a", "b"]


@pytest.mark.parametrize("data", ["", "00", "ffff" + "00000000ffffffff", "0000" + "00000002" + text("a")])
def test_metadata_without_a_subscription_is_refused(data: str) -> None:
    with pytest.raises(DecodeError):
        subscribed_topics(bytes.fromhex(data))
