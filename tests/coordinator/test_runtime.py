"""The runtime: partitions of keys, roles and loading, by groups and by a shard of another kind."""

import logging

import pytest
import trio
from trio.testing import MockClock

from ottla.broker.loop.clock import Clock
from ottla.coordinator.effects import Decision
from ottla.coordinator.records import group_key, offset_key
from ottla.coordinator.runtime import CoordinatorRuntime
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
)
from tests.coordinator.serving import EPOCH, SESSION_MS, Broker, Log, refused_commit


@pytest.fixture
async def broker(nursery: trio.Nursery) -> Broker:
    broker = Broker()
    await broker.start(nursery)
    return broker


# ------------------------------------------------------------------------------------------------------ partitions


@pytest.mark.parametrize(
    ("group", "partition"),
    # Java's hash codes: 0, 99162322, -2147483648 (Kafka takes 0), -1423461112, and that of a surrogate pair.
    [("", 0), ("hello", 22), ("polygenelubricants", 0), ("accept", 12), ("\N{GRINNING FACE}", 99)],
)
def test_a_group_is_in_the_same_partition_as_in_kafka(group: str, partition: int) -> None:
    assert Broker(partitions=50 if partition != 99 else 100).coordinator.runtime.partition_for(group) == partition


def test_without_the_topic_a_group_is_in_no_partition() -> None:
    broker = Broker()
    broker.partitions = None
    assert broker.coordinator.runtime.partition_for("g") is None
    assert broker.join().error == ErrorCode.NOT_COORDINATOR


# ---------------------------------------------------------------------------------------------- roles and loading


async def test_requests_for_partitions_that_are_not_led_here_are_refused(
    broker: Broker, autojump_clock: MockClock
) -> None:
    assert broker.join().error == ErrorCode.NOT_COORDINATOR
    assert broker.sync("m", 1).error == ErrorCode.NOT_COORDINATOR
    assert broker.heartbeat("m", 1) == ErrorCode.NOT_COORDINATOR
    assert refused_commit(broker.commit(5)) == ErrorCode.NOT_COORDINATOR
    leave = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")])
    assert broker.coordinator.leave_group(leave, 5).error_code == ErrorCode.NOT_COORDINATOR
    described = broker.coordinator.describe_groups(DescribeGroupsRequest(groups=["g"])).groups[0]
    assert (described.error_code, described.group_state) == (ErrorCode.NOT_COORDINATOR, "")
    deleted = broker.ask(broker.coordinator.delete_groups, DeleteGroupsRequest(groups_names=["g"])).response.results
    assert deleted[0].error_code == ErrorCode.NOT_COORDINATOR
    delete = OffsetDeleteRequest(group_id="g", topics=())
    assert broker.ask(broker.coordinator.offset_delete, delete).error == ErrorCode.NOT_COORDINATOR


async def test_requests_are_refused_while_groups_are_loading(broker: Broker, autojump_clock: MockClock) -> None:
    broker.coordinator.runtime.begin_loading(0, EPOCH)
    assert broker.join().error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert refused_commit(broker.commit(5)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    # Old clients do not know the error in these two responses.
    assert broker.heartbeat("m", 1) == ErrorCode.NONE
    assert broker.sync("m", 1).error == ErrorCode.REBALANCE_IN_PROGRESS
    listed = broker.coordinator.list_groups(ListGroupsRequest())
    assert listed.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert not broker.serves()
    broker.coordinator.runtime.loaded(0, EPOCH)
    assert broker.serves()
    assert broker.coordinator.list_groups(ListGroupsRequest()).error_code == ErrorCode.NONE


async def test_a_group_without_a_name_only_keeps_offsets(broker: Broker, autojump_clock: MockClock) -> None:
    broker.lead()
    assert broker.join(group="").error == ErrorCode.INVALID_GROUP_ID
    assert broker.sync("m", 1, group="").error == ErrorCode.INVALID_GROUP_ID
    assert broker.heartbeat("m", 1, group="") == ErrorCode.INVALID_GROUP_ID
    assert refused_commit(broker.commit(5, group="")) == ErrorCode.NONE
    assert broker.committed(group="") == 5


async def test_a_loaded_group_goes_on_and_the_sessions_of_its_members_start(
    broker: Broker, autojump_clock: MockClock
) -> None:
    broker.lead()
    member = await broker.member()
    broker.commit(7, member=(member, 1))
    broker.coordinator.runtime.unload(0, EPOCH)
    broker.lead(epoch=EPOCH + 1, records=list(broker.log.records))
    assert broker.committed() == 7
    assert broker.heartbeat(member, 1) == ErrorCode.NONE
    assert broker.sync(member, 1).response.assignment == b"all"
    await trio.sleep(SESSION_MS / 1000 + 0.1)
    assert broker.state() == "Empty"


async def test_records_that_cannot_be_read_are_ignored(
    broker: Broker, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    broker.lead(records=[(b"\0\x09", b""), (b"", None), (group_key("g"), b"\0\3"), (offset_key("g", "t", 0), b"\0")])
    assert broker.state() == "Dead"
    assert caplog.text.count("Ignoring a record") == 4


async def test_parked_requests_are_answered_when_their_group_is_unloaded(
    broker: Broker, autojump_clock: MockClock
) -> None:
    broker.lead()
    member = await broker.member()
    joining = broker.join(broker.join().response.member_id)
    broker.log.held = []
    committing = broker.commit(5, member=(member, 1))
    broker.coordinator.runtime.unload(0, EPOCH)
    assert joining.error == ErrorCode.NOT_COORDINATOR
    assert committing.parked
    broker.log.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    for finish in broker.log.held:
        finish()
    assert refused_commit(committing) == ErrorCode.NOT_COORDINATOR
    assert not len(broker.coordinator.runtime._timers)


async def test_a_parked_sync_is_answered_when_its_group_is_unloaded(broker: Broker, autojump_clock: MockClock) -> None:
    broker.lead()
    answers = [broker.join(version=3) for _ in range(2)]
    await trio.sleep(0.001)
    follower = next(each.response for each in answers if each.response.leader != each.response.member_id)
    waiting = broker.sync(follower.member_id, follower.generation_id, leads=False)
    broker.coordinator.runtime.unload(0, EPOCH)
    assert waiting.error == ErrorCode.NOT_COORDINATOR


async def test_an_assignment_that_is_committed_after_its_group_was_unloaded_changes_nothing(
    broker: Broker, autojump_clock: MockClock
) -> None:
    broker.lead()
    answer = broker.join(broker.join().response.member_id)
    await trio.sleep(0.001)
    broker.log.held = []
    syncing = broker.sync(answer.response.member_id, 1)
    broker.coordinator.runtime.unload(0, EPOCH)
    assert syncing.error == ErrorCode.NOT_COORDINATOR
    for finish in broker.log.held:
        finish()
    assert len(syncing.responses) == 1
    assert not len(broker.coordinator.runtime._timers)


async def test_leader_epochs_fence_late_role_changes(broker: Broker, autojump_clock: MockClock) -> None:
    runtime = broker.coordinator.runtime
    assert runtime.begin_loading(0, 5)
    assert not runtime.begin_loading(0, 5)
    assert not runtime.begin_loading(0, 4)
    runtime.loaded(0, 4)
    assert not broker.serves()
    assert runtime.begin_loading(0, 6)
    assert runtime.is_loading(0, 6)
    assert not runtime.is_loading(0, 5)
    runtime.replay(0, 5, group_key("g"), None, 0)
    runtime.loaded(0, 6)
    assert not runtime.begin_loading(0, 7)
    runtime.unload(0, 6)
    assert broker.serves()
    runtime.unload(0, 7)
    assert not broker.serves()
    runtime.unload(0, 8)


async def test_all_requests_are_refused_after_the_shutdown(broker: Broker, autojump_clock: MockClock) -> None:
    broker.lead()
    await broker.member()
    joining = broker.join(broker.join().response.member_id)
    broker.coordinator.runtime.shut_down()
    assert joining.error == ErrorCode.NOT_COORDINATOR
    assert broker.join().error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    listed = broker.coordinator.list_groups(ListGroupsRequest())
    assert listed.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


# ------------------------------------------------------------------------------------------- a shard of another kind


class Kept:
    """A shard that keeps the last value of each key, with a timer for each."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes | None] = {}
        self.fired: list[str] = []

    def replay(self, key: bytes, value: bytes | None, now_ms: int, offset: int, producer_id: int | None = None) -> None:
        self.values[key] = value

    def loaded(self, decision: Decision) -> int:
        for key in self.values:
            decision.set_timer(key.decode(), 1_000)
        return len(self.values)

    def unload(self, decision: Decision) -> None:
        self.values.clear()

    def timer_fired(self, decision: Decision, key: str) -> None:
        self.fired.append(key)

    def tick(self, decision: Decision) -> None:
        self.fired.append("tick")
        raise RuntimeError("a bug")


async def test_a_runtime_knows_nothing_of_what_its_shards_keep(
    nursery: trio.Nursery, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    clock = Clock()
    nursery.start_soon(clock.run)
    runtime: CoordinatorRuntime[Kept] = CoordinatorRuntime(
        "__kept", "values", logging.getLogger("kept"), Log(), Kept,
        now_ms=lambda: 0, call_later=clock.call_later, partition_count=lambda: 2,
    )  # fmt: skip
    nursery.start_soon(runtime.run, 2_000, Kept.tick)
    runtime.begin_loading(1, EPOCH)
    assert runtime.status() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    runtime.replay(1, EPOCH, b"a", b"1", 0)
    runtime.loaded(1, EPOCH)
    (led,) = runtime.served()
    assert (runtime.find("a"), runtime.find("b"), runtime.status()) == (led, ErrorCode.NOT_COORDINATOR, ErrorCode.NONE)
    await trio.sleep(4.5)
    assert led.shard.fired == ["a", "tick", "tick"]
    assert [each.getMessage() for each in caplog.records] == [
        "Loaded 1 values of __kept-1",
        *["A bug: the periodic work on __kept-1 failed. It is tried again in 2000 ms"] * 2,
    ]
