"""The requests of groups: their answers, their versions, and time."""

from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock

from ottla.coordinator.config import GROUP_CONFIG, GroupConfig, read_group_config
from ottla.coordinator.effects import Producer
from ottla.coordinator.records import group_key, offset_key
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from tests.coordinator.serving import EPOCH, SESSION_MS, Broker, refused_commit


@pytest.fixture
async def broker(nursery: trio.Nursery) -> Broker:
    broker = Broker()
    await broker.start(nursery)
    return broker


# ------------------------------------------------------------------------------------------------ requests and time


async def test_a_join_is_answered_when_the_first_rebalance_is_over(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    broker = Broker(GroupConfig())
    await broker.start(nursery)
    broker.lead()
    answer = broker.join(broker.join().response.member_id)
    await trio.sleep(2.999)
    assert answer.parked
    await trio.sleep(0.002)
    assert answer.response.generation_id == 1


async def test_a_silent_member_is_removed(broker: Broker, autojump_clock: MockClock) -> None:
    broker.lead()
    member = await broker.member()
    for _ in range(5):
        await trio.sleep(SESSION_MS / 1000 - 0.1)
        assert broker.heartbeat(member, 1) == ErrorCode.NONE
    await trio.sleep(SESSION_MS / 1000 + 0.1)
    assert broker.heartbeat(member, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.state() == "Empty"


async def test_a_commit_is_answered_when_it_is_committed(broker: Broker, autojump_clock: MockClock) -> None:
    broker.lead()
    broker.log.held = []
    answer = broker.commit(5)
    assert answer.parked
    assert broker.committed() == -1
    for finish in broker.log.held:
        finish()
    assert refused_commit(answer) == ErrorCode.NONE
    assert broker.committed() == 5


@pytest.mark.parametrize(
    ("error", "answered"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT),
    ],
)
async def test_a_commit_that_fails_gets_the_error_that_clients_expect(
    broker: Broker, autojump_clock: MockClock, error: ErrorCode, answered: ErrorCode
) -> None:
    broker.lead()
    broker.log.error = error
    assert refused_commit(broker.commit(5)) == answered
    assert broker.committed() == -1


async def test_a_reply_that_fails_does_not_stop_the_others(
    broker: Broker, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    broker.lead()

    def fail(_: object) -> None:
        raise RuntimeError("no connection")

    member = await broker.member()
    waiting = broker.join(broker.join().response.member_id)
    request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member)])
    runtime = broker.coordinator.runtime
    runtime.decide(runtime.served()[0], lambda decision: decision.reply(fail, 0))
    broker.coordinator.leave_group(request, 5)
    assert waiting.error == ErrorCode.NONE
    assert "no connection" in caplog.text


# ---------------------------------------------------------------------------------------------- versions of requests


async def test_a_join_of_an_old_version_has_no_null_protocol(broker: Broker, autojump_clock: MockClock) -> None:
    broker.lead()
    assert broker.join("nobody", version=6).response.protocol_name == ""
    assert broker.join("nobody", version=7).response.protocol_name is None


async def test_a_leave_of_an_old_version_has_one_error(broker: Broker, autojump_clock: MockClock) -> None:
    broker.lead()
    member = await broker.member()
    for expected in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID):
        response = broker.coordinator.leave_group(LeaveGroupRequest(group_id="g", member_id=member), 2)
        assert (response.error_code, list(response.members)) == (expected, [])


async def test_the_error_of_a_fetch_is_in_the_field_that_its_version_has(
    broker: Broker, autojump_clock: MockClock
) -> None:
    one = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])])
    first = broker.coordinator.offset_fetch(one, 1)
    assert [each.error_code for each in first.topics[0].partitions] == [ErrorCode.NOT_COORDINATOR] * 2
    second = broker.coordinator.offset_fetch(one, 2)
    assert (second.error_code, list(second.topics)) == (ErrorCode.NOT_COORDINATOR, [])
    many = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=each, topics=None) for each in ("g", "h")])
    eighth = broker.coordinator.offset_fetch(many, 8)
    assert [(each.group_id, each.error_code) for each in eighth.groups] == [
        ("g", ErrorCode.NOT_COORDINATOR),
        ("h", ErrorCode.NOT_COORDINATOR),
    ]


async def test_an_offset_is_fetched_in_every_version(broker: Broker, autojump_clock: MockClock) -> None:
    broker.lead()
    broker.commit(5)
    one = OffsetFetchRequest(group_id="g", topics=None)
    (old,) = broker.coordinator.offset_fetch(one, 7).topics
    many = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    (new,) = broker.coordinator.offset_fetch(many, 8).groups[0].topics
    for topic in (old, new):
        (offset,) = topic.partitions
        assert (topic.name, offset.committed_offset, offset.committed_leader_epoch, offset.metadata) == ("t", 5, 4, "")


# ---------------------------------------------------------------------------------------- offsets in transactions


async def test_offsets_of_a_transaction_count_from_its_marker_on(broker: Broker, autojump_clock: MockClock) -> None:
    broker.lead()
    broker.log.held = []
    answer = broker.txn_commit(5)
    assert answer.parked
    for finish in broker.log.held:
        finish()
    broker.log.held = None
    assert refused_commit(answer) == ErrorCode.NONE
    assert broker.log.producers == [Producer(1, 2)]
    assert broker.committed() == -1
    broker.coordinator.transaction_ended(0, 1, True)
    assert broker.committed() == 5
    broker.txn_commit(6)
    broker.coordinator.transaction_ended(0, 1, False)
    assert broker.committed() == 5
    fetched = broker.coordinator.offset_fetch(OffsetFetchRequest(group_id="g", topics=None), 7)
    (offset,) = fetched.topics[0].partitions
    assert (offset.committed_leader_epoch, offset.metadata) == (4, "text")


async def test_a_marker_ends_the_transaction_in_its_partition_of_the_log(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    broker = Broker(partitions=2)
    await broker.start(nursery)
    broker.lead(0)
    broker.lead(1)
    groups = ("g", "h")
    places = [broker.coordinator.runtime.partition_for(group) for group in groups]
    assert sorted(map(str, places)) == ["0", "1"]
    for group in groups:
        broker.txn_commit(5, group)
    broker.coordinator.transaction_ended(places[1] or 0, 1, True)
    assert [broker.committed(group) for group in groups] == [-1, 5]
    broker.coordinator.transaction_ended(2, 1, True)
    broker.coordinator.transaction_ended(places[0] or 0, 1, False)
    broker.coordinator.transaction_ended(places[0] or 0, 1, True)
    assert [broker.committed(group) for group in groups] == [-1, 5]


async def test_a_marker_that_is_appended_during_the_load_is_left_to_the_replay(
    broker: Broker, autojump_clock: MockClock
) -> None:
    broker.lead()
    broker.txn_commit(5)
    ((key, value),) = broker.log.records
    runtime = broker.coordinator.runtime
    runtime.unload(0, EPOCH)
    runtime.begin_loading(0, EPOCH + 1)
    runtime.replay(0, EPOCH + 1, key, value, 0, 1)
    broker.coordinator.transaction_ended(0, 1, False)
    runtime.loaded(0, EPOCH + 1)
    assert broker.committed() == -1
    broker.coordinator.transaction_ended(0, 1, True)
    assert broker.committed() == 5


async def test_a_commit_in_a_transaction_is_refused_where_its_group_is_not_coordinated(
    broker: Broker, autojump_clock: MockClock
) -> None:
    coordinator, begin = broker.coordinator, broker.coordinator.begin_txn_commit
    assert refused_commit(broker.txn_commit(5)) == begin("g") == ErrorCode.NOT_COORDINATOR
    assert refused_commit(broker.txn_commit(5, group="")) == begin("") == ErrorCode.INVALID_GROUP_ID
    coordinator.runtime.begin_loading(0, EPOCH)
    assert refused_commit(broker.txn_commit(5)) == begin("g") == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    coordinator.runtime.loaded(0, EPOCH)
    assert refused_commit(broker.txn_commit(5)) == begin("g") == ErrorCode.NONE
    assert refused_commit(broker.txn_commit(5, member=("m", 1))) == ErrorCode.UNKNOWN_MEMBER_ID
    coordinator.runtime.shut_down()
    assert refused_commit(broker.txn_commit(5)) == begin("g") == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(("version", "error"), [(1, ErrorCode.COORDINATOR_NOT_AVAILABLE), (2, None)])
async def test_old_producers_do_not_see_that_groups_are_loading(
    broker: Broker, autojump_clock: MockClock, version: int, error: ErrorCode | None
) -> None:
    broker.coordinator.runtime.begin_loading(0, EPOCH)
    assert refused_commit(broker.txn_commit(5, version=version)) == (error or ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


@pytest.mark.parametrize(
    ("error", "answered"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
async def test_a_commit_in_a_transaction_that_fails_gets_the_error_that_producers_expect(
    broker: Broker, autojump_clock: MockClock, error: ErrorCode, answered: ErrorCode
) -> None:
    broker.lead()
    broker.log.error = error
    assert refused_commit(broker.txn_commit(5)) == answered
    broker.coordinator.transaction_ended(0, 1, True)
    assert broker.committed() == -1


# ------------------------------------------------------------------------------------------------ for administrators


async def test_groups_are_listed_by_state_and_type(broker: Broker, autojump_clock: MockClock) -> None:
    broker.lead()
    await broker.member("busy")
    broker.commit(1, "simple")

    def listed(*states: str, types: Sequence[str] = ()) -> set[tuple[str, str, str, str]]:
        request = ListGroupsRequest(states_filter=states, types_filter=types)
        groups = broker.coordinator.list_groups(request).groups
        return {(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in groups}

    busy, simple = ("busy", "consumer", "Stable", "classic"), ("simple", "", "Empty", "classic")
    assert listed() == {busy, simple}
    assert listed("STABLE") == {busy}
    assert listed("empty", "stable") == {busy, simple}
    assert listed("nonsense") == set()
    assert listed(types=["Classic", "consumer"]) == {busy, simple}
    assert listed(types=["consumer"]) == set()


async def test_groups_are_described(broker: Broker, autojump_clock: MockClock) -> None:
    broker.lead()
    member = await broker.member()
    request = DescribeGroupsRequest(groups=["g", "nobody"])
    group, dead = broker.coordinator.describe_groups(request).groups
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    (described,) = group.members
    assert (described.member_id, described.client_id, described.client_host) == (member, "client", "/127.0.0.1")
    assert (described.member_metadata, described.member_assignment) == (b"meta", b"all")
    assert (dead.error_code, dead.group_state, list(dead.members)) == (ErrorCode.NONE, "Dead", [])
    broker.join(member)
    (group,) = broker.coordinator.describe_groups(DescribeGroupsRequest(groups=["g"])).groups
    assert (group.group_state, group.protocol_data) == ("CompletingRebalance", "")
    assert (group.members[0].member_metadata, group.members[0].member_assignment) == (b"", b"")


async def test_a_deletion_of_groups_is_answered_when_it_is_committed(broker: Broker, autojump_clock: MockClock) -> None:
    broker.lead()
    member = await broker.member("busy")
    await broker.member("left")
    leaving = [MemberIdentity(member_id="client-2")]
    broker.coordinator.leave_group(LeaveGroupRequest(group_id="left", members=leaving), 5)
    broker.commit(1, "simple")
    broker.log.held = []
    request = DeleteGroupsRequest(groups_names=["left", "busy", "nobody", "simple", "left", ""])
    answer = broker.ask(broker.coordinator.delete_groups, request)
    assert answer.parked
    for finish in broker.log.held:
        finish()
    assert {each.group_id: each.error_code for each in answer.response.results} == {
        "left": ErrorCode.NONE,
        "busy": ErrorCode.NON_EMPTY_GROUP,
        "nobody": ErrorCode.GROUP_ID_NOT_FOUND,
        "simple": ErrorCode.NONE,
        "": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert broker.log.records[-2:] == [(group_key("left"), None), (offset_key("simple", "t", 0), None)]
    assert broker.heartbeat(member, 1, "busy") == ErrorCode.NONE
    empty = broker.ask(broker.coordinator.delete_groups, DeleteGroupsRequest(groups_names=[]))
    assert list(empty.response.results) == []


async def test_offsets_are_deleted(broker: Broker, autojump_clock: MockClock) -> None:
    broker.lead()
    broker.commit(1)
    topic = OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    request = OffsetDeleteRequest(group_id="g", topics=[topic])
    answer = broker.ask(broker.coordinator.offset_delete, request)
    assert (answer.error, answer.response.topics[0].partitions[0].error_code) == (ErrorCode.NONE, ErrorCode.NONE)
    assert broker.state() == "Dead"
    assert broker.ask(broker.coordinator.offset_delete, request).error == ErrorCode.GROUP_ID_NOT_FOUND


async def test_offsets_of_deleted_topics_are_deleted(broker: Broker, autojump_clock: MockClock) -> None:
    broker.lead()
    broker.commit(1, topic="gone")
    broker.commit(2, topic="stays")
    broker.coordinator.topics_deleted(["gone"])
    assert (broker.committed(topic="gone"), broker.committed(topic="stays")) == (-1, 2)
    assert broker.log.records[-1] == (offset_key("g", "gone", 0), None)


async def test_offsets_expire(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    broker = Broker(GroupConfig(retention_ms=60_000, retention_check_interval_ms=10_000))
    await broker.start(nursery)
    broker.lead()
    broker.commit(5)
    await trio.sleep(59)
    assert broker.committed() == 5
    await trio.sleep(12)
    assert broker.state() == "Dead"
    assert broker.log.records[-1] == (offset_key("g", "t", 0), None)


def test_the_configuration_has_kafkas_defaults() -> None:
    assert read_group_config(GROUP_CONFIG.parse_all({})) == GroupConfig()
