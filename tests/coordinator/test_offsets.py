"""Commit, fetch, deletion and expiry of offsets."""

import pytest

from ottla.coordinator.config import GroupConfig
from ottla.coordinator.group import State
from ottla.coordinator.records import (
    NO_TIMESTAMP,
    OffsetKey,
    group_key,
    offset_key,
    read_key,
    read_offset_value,
)
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequestTopic
from ottla.wire.types import TopicPartition
from tests.coordinator.coordinating import GROUP, START_MS, Answer, Coordinating

A, B = TopicPartition("a", 0), TopicPartition("b", 1)
RETENTION_MS = 60_000
# A subscription to topic "a", version 0.
TO_A = bytes.fromhex("0000" + "00000001" + "000161" + "ffffffff")


@pytest.fixture
def coordinating() -> Coordinating:
    return Coordinating(GroupConfig(retention_ms=RETENTION_MS))


def errors(answer: Answer) -> dict[TopicPartition, ErrorCode]:
    return {
        TopicPartition(topic.name, each.partition_index): ErrorCode(each.error_code)
        for topic in answer.response.topics
        for each in topic.partitions
    }


def delete(coordinating: Coordinating, *partitions: TopicPartition) -> Answer:
    topics = [
        OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=partition)])
        for topic, partition in partitions
    ]
    answer = Answer()
    coordinating.decide(coordinating.shard.offset_delete, OffsetDeleteRequest(group_id=GROUP, topics=topics), answer)
    return answer


def expire(coordinating: Coordinating) -> None:
    coordinating.decide(coordinating.shard.expire)


# --------------------------------------------------------------------------------------------------------- commits


def test_a_commit_of_a_client_that_is_no_member_creates_a_simple_group(coordinating: Coordinating) -> None:
    assert errors(coordinating.commit({A: 5, B: 7})) == {A: ErrorCode.NONE, B: ErrorCode.NONE}
    assert coordinating.committed() == {A: 5, B: 7}
    assert (coordinating.group.state, coordinating.group.protocol_type) == (State.EMPTY, None)
    (key, value), _ = coordinating.log
    assert read_key(key) == OffsetKey(GROUP, "a", 0)
    kept = read_offset_value(value or b"")
    assert (kept.offset, kept.leader_epoch, kept.metadata) == (5, -1, "")
    assert (kept.commit_timestamp, kept.expire_timestamp) == (START_MS, NO_TIMESTAMP)


def test_a_commit_restarts_the_session_of_its_member(coordinating: Coordinating) -> None:
    (member,) = coordinating.stable_group()
    for offset in range(3):
        coordinating.pass_time(9_999)
        assert errors(coordinating.commit({A: offset}, member, 1)) == {A: ErrorCode.NONE}
    assert coordinating.committed() == {A: 2}


def test_only_members_of_this_generation_commit_in_a_group_with_members(coordinating: Coordinating) -> None:
    (member,) = coordinating.stable_group()
    assert errors(coordinating.commit({A: 1})) == {A: ErrorCode.UNKNOWN_MEMBER_ID}
    assert errors(coordinating.commit({A: 1}, "nobody", 1)) == {A: ErrorCode.UNKNOWN_MEMBER_ID}
    assert errors(coordinating.commit({A: 1}, member, 0)) == {A: ErrorCode.ILLEGAL_GENERATION}
    assert errors(coordinating.commit({A: 1}, member, -1)) == {A: ErrorCode.ILLEGAL_GENERATION}
    assert errors(coordinating.commit({A: 1}, member, 1, instance="nobody")) == {A: ErrorCode.UNKNOWN_MEMBER_ID}
    assert coordinating.committed() == {}


def test_a_commit_of_a_generation_to_an_unknown_group_is_refused(coordinating: Coordinating) -> None:
    assert errors(coordinating.commit({A: 1}, "nobody", 1)) == {A: ErrorCode.ILLEGAL_GENERATION}
    assert not coordinating.shard.groups


@pytest.mark.parametrize(("member", "instance"), [("", None), ("nobody", None), ("", "nobody")])
def test_every_client_can_commit_to_a_group_without_members(
    coordinating: Coordinating, member: str, instance: str | None
) -> None:
    assert errors(coordinating.commit({A: 1}, member, instance=instance)) == {A: ErrorCode.NONE}
    assert errors(coordinating.commit({A: 2}, member, 0, instance=instance)) == {A: ErrorCode.UNKNOWN_MEMBER_ID}


def test_members_commit_before_they_join_again_but_not_before_they_sync(coordinating: Coordinating) -> None:
    one, two = coordinating.stable_group(2)
    coordinating.join(one)
    assert errors(coordinating.commit({A: 1}, two, 1)) == {A: ErrorCode.NONE}
    coordinating.join(two)
    assert coordinating.group.state is State.COMPLETING_REBALANCE
    assert errors(coordinating.commit({A: 2}, two, 2)) == {A: ErrorCode.REBALANCE_IN_PROGRESS}


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ("x" * 4_096, ErrorCode.NONE),
        ("x" * 4_097, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("\N{GRINNING FACE}" * 2_048, ErrorCode.NONE),
        ("\N{GRINNING FACE}" * 2_049, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        (None, ErrorCode.NONE),
    ],
)
def test_long_metadata_is_refused(coordinating: Coordinating, metadata: str | None, error: ErrorCode) -> None:
    assert errors(coordinating.commit({A: 1}, metadata=metadata)) == {A: error}
    assert bool(coordinating.log) is (error == ErrorCode.NONE)


def test_a_commit_counts_when_it_is_committed(coordinating: Coordinating) -> None:
    coordinating.commit({A: 1})
    coordinating.holding = True
    answer = coordinating.commit({A: 2})
    assert answer.parked
    assert coordinating.committed() == {A: 1}
    coordinating.release()
    assert coordinating.committed() == {A: 2}


def test_commits_count_in_the_order_in_which_they_came(coordinating: Coordinating) -> None:
    coordinating.holding = True
    answers = [coordinating.commit({A: offset}) for offset in (1, 2)]
    coordinating.held.reverse()
    coordinating.release()
    assert coordinating.committed() == {A: 2}
    assert not any(answer.parked for answer in answers)


def test_a_commit_that_fails_does_not_count(coordinating: Coordinating) -> None:
    coordinating.commit({A: 1})
    coordinating.failing = ErrorCode.NOT_ENOUGH_REPLICAS
    assert errors(coordinating.commit({A: 2})) == {A: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert coordinating.committed(stable=True) == {A: 1}


# -------------------------------------------------------------------------------------------------------- fetches


def test_a_stable_fetch_gets_an_error_for_pending_commits(coordinating: Coordinating) -> None:
    coordinating.commit({A: 1, B: 1})
    coordinating.holding = True
    coordinating.commit({A: 2})
    answers = {topic.name: topic.partitions[0] for topic in coordinating.shard.offset_fetch(GROUP, None, True)}
    assert (answers["a"].error_code, answers["a"].committed_offset) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert (answers["b"].error_code, answers["b"].committed_offset) == (ErrorCode.NONE, 1)
    coordinating.release()
    assert coordinating.committed(stable=True) == {A: 2, B: 1}


@pytest.mark.parametrize("there", [True, False])
def test_a_fetch_of_a_partition_without_a_commit_returns_no_offset(coordinating: Coordinating, there: bool) -> None:
    if there:
        coordinating.commit({B: 1})
    asked = [
        OffsetFetchRequestTopic(name="a", partition_indexes=[0, 3, 0]),
        OffsetFetchRequestTopic(name="c", partition_indexes=[]),
    ]
    (topic,) = coordinating.shard.offset_fetch(GROUP, asked, False)
    fetched = [
        (each.partition_index, each.committed_offset, each.metadata, each.error_code) for each in topic.partitions
    ]
    assert fetched == [(0, -1, "", ErrorCode.NONE), (3, -1, "", ErrorCode.NONE)]


# ------------------------------------------------------------------------------------------------------- deletion


def test_offsets_are_deleted_with_tombstones(coordinating: Coordinating) -> None:
    coordinating.commit({A: 1, B: 1})
    assert errors(delete(coordinating, A)) == {A: ErrorCode.NONE}
    assert coordinating.committed() == {B: 1}
    assert coordinating.log[2:] == [(offset_key(GROUP, "a", 0), None)]
    assert errors(delete(coordinating, A)) == {A: ErrorCode.NONE}
    assert len(coordinating.log) == 3


def test_deleting_the_last_offset_deletes_a_group_without_members(coordinating: Coordinating) -> None:
    (member,) = coordinating.stable_group()
    coordinating.commit({A: 1}, member, 1)
    coordinating.leave((member, None))
    delete(coordinating, A)
    assert coordinating.log[-2:] == [(offset_key(GROUP, "a", 0), None), (group_key(GROUP), None)]
    assert not coordinating.shard.groups
    assert delete(coordinating, A).error == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_deletion_of_no_partition_keeps_a_group_without_offsets(coordinating: Coordinating) -> None:
    coordinating.failing = ErrorCode.NOT_LEADER_OR_FOLLOWER
    coordinating.commit({A: 1})
    coordinating.failing = ErrorCode.NONE
    assert delete(coordinating).error == ErrorCode.NONE
    assert list(coordinating.shard.groups) == [GROUP]
    delete(coordinating, A)
    assert not coordinating.shard.groups


def test_deleting_a_topic_deletes_all_groups_without_offsets_and_members(coordinating: Coordinating) -> None:
    (member,) = coordinating.stable_group()
    coordinating.leave((member, None))
    coordinating.decide(coordinating.shard.topics_deleted, frozenset({"another"}))
    assert not coordinating.shard.groups


def test_offsets_of_topics_that_members_subscribe_to_stay(coordinating: Coordinating) -> None:
    (member,) = coordinating.stable_group(protocols={"range": TO_A})
    coordinating.commit({A: 1, B: 1}, member, 1)
    assert errors(delete(coordinating, A, B)) == {A: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, B: ErrorCode.NONE}
    assert coordinating.committed() == {A: 1}


def test_a_subscription_that_cannot_be_read_counts_as_all_topics(coordinating: Coordinating) -> None:
    (member,) = coordinating.stable_group(protocols={"range": b"?"})
    coordinating.commit({A: 1}, member, 1)
    assert errors(delete(coordinating, A)) == {A: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}


def test_a_deletion_that_cannot_be_committed_gets_an_error(coordinating: Coordinating) -> None:
    coordinating.commit({A: 1})
    coordinating.failing = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert errors(delete(coordinating, A)) == {A: ErrorCode.NOT_COORDINATOR}


def test_a_pending_commit_is_deleted_too(coordinating: Coordinating) -> None:
    coordinating.commit({A: 1})
    coordinating.holding = True
    committing = coordinating.commit({A: 2, B: 2})
    coordinating.decide(coordinating.shard.topics_deleted, frozenset("a"))
    coordinating.release()
    assert errors(committing) == {A: ErrorCode.NONE, B: ErrorCode.NONE}
    assert coordinating.committed(stable=True) == {B: 2}
    assert coordinating.log[-1] == (offset_key(GROUP, "a", 0), None)


def test_a_group_whose_first_commit_is_pending_is_not_deleted(coordinating: Coordinating) -> None:
    coordinating.holding = True
    coordinating.commit({A: 1})
    expire(coordinating)
    coordinating.release()
    assert coordinating.committed() == {A: 1}


# --------------------------------------------------------------------------------------------------------- expiry


def test_offsets_of_a_simple_group_expire_after_their_commit(coordinating: Coordinating) -> None:
    coordinating.commit({A: 1})
    coordinating.pass_time(1)
    coordinating.commit({B: 1})
    coordinating.pass_time(RETENTION_MS - 2)
    expire(coordinating)
    assert coordinating.committed() == {A: 1, B: 1}
    coordinating.pass_time(1)
    expire(coordinating)
    assert coordinating.committed() == {B: 1}
    coordinating.pass_time(1)
    expire(coordinating)
    assert not coordinating.shard.groups
    # A group without members has no record of its own.
    assert coordinating.log[-1] == (offset_key(GROUP, "b", 1), None)


def test_offsets_of_a_group_expire_after_its_last_member_has_left(coordinating: Coordinating) -> None:
    (member,) = coordinating.stable_group(protocols={"range": TO_A}, session_ms=RETENTION_MS)
    coordinating.commit({A: 1}, member, 1)
    coordinating.pass_time(RETENTION_MS - 1)
    coordinating.leave((member, None))
    coordinating.pass_time(RETENTION_MS - 1)
    expire(coordinating)
    assert coordinating.committed() == {A: 1}
    coordinating.pass_time(1)
    expire(coordinating)
    assert coordinating.log[-2:] == [(offset_key(GROUP, "a", 0), None), (group_key(GROUP), None)]


def test_offsets_that_a_stable_group_no_longer_subscribes_to_expire(coordinating: Coordinating) -> None:
    (member,) = coordinating.stable_group(protocols={"range": TO_A}, session_ms=2 * RETENTION_MS)
    coordinating.commit({A: 1, B: 1}, member, 1)
    coordinating.pass_time(RETENTION_MS)
    expire(coordinating)
    assert coordinating.committed() == {A: 1}


@pytest.mark.parametrize(
    ("kind", "said"), [("consumer", b"?"), ("connect", TO_A)], ids=["unreadable", "not of consumers"]
)
def test_nothing_expires_in_a_group_with_unknown_subscriptions(
    coordinating: Coordinating, kind: str, said: bytes
) -> None:
    member, _ = coordinating.enter(protocol_type=kind, protocols={"range": said}, session_ms=2 * RETENTION_MS)
    coordinating.pass_time(coordinating.config.initial_rebalance_delay_ms)
    coordinating.sync(member, 1, {member: b""}, protocol_type=kind)
    coordinating.commit({B: 1}, member, 1)
    coordinating.pass_time(RETENTION_MS)
    expire(coordinating)
    assert coordinating.committed() == {B: 1}
    if kind == "connect":
        assert delete(coordinating, B).error == ErrorCode.NON_EMPTY_GROUP


def test_nothing_expires_during_a_rebalance(coordinating: Coordinating) -> None:
    one, two = coordinating.stable_group(
        2, protocols={"range": TO_A}, session_ms=2 * RETENTION_MS, rebalance_ms=3 * RETENTION_MS
    )
    coordinating.commit({B: 1}, one, 1)
    coordinating.join(one, protocols={"range": TO_A}, session_ms=2 * RETENTION_MS, rebalance_ms=3 * RETENTION_MS)
    coordinating.pass_time(RETENTION_MS)
    assert coordinating.group.state is State.PREPARING_REBALANCE
    expire(coordinating)
    assert coordinating.committed() == {B: 1}
    assert two in coordinating.group.members


def test_a_commit_may_bring_its_own_time_to_expire(coordinating: Coordinating) -> None:
    coordinating.commit({A: 1}, retention_ms=10)
    assert read_offset_value(coordinating.log[0][1] or b"").expire_timestamp == START_MS + 10
    coordinating.pass_time(9)
    expire(coordinating)
    assert coordinating.committed() == {A: 1}
    coordinating.pass_time(1)
    expire(coordinating)
    assert coordinating.committed() == {}


def test_an_offset_with_a_pending_commit_does_not_expire(coordinating: Coordinating) -> None:
    coordinating.commit({A: 1})
    coordinating.pass_time(RETENTION_MS)
    coordinating.holding = True
    coordinating.commit({A: 2})
    expire(coordinating)
    assert coordinating.committed() == {A: 1}
    coordinating.release()
    assert coordinating.committed() == {A: 2}
