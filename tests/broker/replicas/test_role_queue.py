import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import pytest
import trio
import trio.testing

from ottla.broker.loop.clock import SLICE_SECONDS
from ottla.broker.replicas.role_queue import RoleChanges
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.leader_and_isr import LeaderAndIsrResponse
from ottla.wire.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from ottla.wire.records.batch import validate_produced
from tests.broker.support.hosted import NOW_MS, TOPIC, House, batch, topic_id

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

DURING_DELETE = -2


class Told:
    """Requests that say when they begin and when they end, and take until then what they are told to."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.now = 0.0
        self.story: list[str] = []
        self.changes = RoleChanges(nursery.start_soon, lambda: self.now)

    def change(self, name: str, until: trio.Event) -> Callable[[], Awaitable[str]]:
        async def carry_out() -> str:
            self.story.append(f"{name} begins")
            await until.wait()
            self.story.append(f"{name} ends")
            return name

        return carry_out


@pytest.fixture
def told(nursery: trio.Nursery) -> Told:
    return Told(nursery)


async def test_requests_run_one_after_the_other_in_the_order_of_their_arrival(told: Told) -> None:
    events = [trio.Event() for _ in range(3)]
    replies = [told.changes.add(told.change(f"{n}", event), "failed") for n, event in enumerate(events)]
    for event in reversed(events):
        event.set()
    await trio.testing.wait_all_tasks_blocked()
    assert told.story == ["0 begins", "0 ends", "1 begins", "1 ends", "2 begins", "2 ends"]
    assert [reply.response for reply in replies] == ["0", "1", "2"]


async def test_a_request_waits_until_the_one_before_it_is_answered(told: Told) -> None:
    first, second = trio.Event(), trio.Event()
    second.set()
    told.changes.add(told.change("first", first), "failed")
    await trio.testing.wait_all_tasks_blocked()
    reply = told.changes.add(told.change("second", second), "failed")
    await trio.testing.wait_all_tasks_blocked()
    assert told.story == ["first begins"]
    first.set()
    await trio.testing.wait_all_tasks_blocked()
    assert reply.response == "second"


async def test_a_bug_in_one_request_is_answered_and_the_next_goes_on(
    told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken() -> str:
        raise RuntimeError("out of order")

    event = trio.Event()
    event.set()
    replies = [told.changes.add(broken, "failed"), told.changes.add(told.change("next", event), "failed")]
    await trio.testing.wait_all_tasks_blocked()
    assert [reply.response for reply in replies] == ["failed", "next"]
    assert "out of order" in caplog.text


async def test_a_request_rests_only_when_its_slice_is_over(told: Told) -> None:
    async def carry_out() -> str:
        for _ in range(2):
            told.now += SLICE_SECONDS * 0.6
            with trio.testing.assert_no_checkpoints():
                await told.changes.rest()
            told.now += SLICE_SECONDS * 0.6
            with trio.testing.assert_checkpoints():
                await told.changes.rest()
        return "done"

    reply = told.changes.add(carry_out, "failed")
    await trio.testing.wait_all_tasks_blocked()
    assert reply.response == "done"


# Those of the replica manager


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.close()


def errors(response: LeaderAndIsrResponse) -> list[int]:
    return [error.error_code for topic in response.topics for error in topic.partition_errors]


class Slow:
    """An offload that waits until it is told to go on."""

    def __init__(self) -> None:
        self.go_on = trio.Event()
        self.called: list[str] = []

    async def __call__(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        self.called.append(function.__name__)
        await self.go_on.wait()
        return function(*args)


@pytest.fixture
def slow(house: House, nursery: trio.Nursery) -> Slow:
    slow = Slow()
    house.worker = slow
    house.starts = nursery.start_soon
    return slow


def to_delete(topic: str = TOPIC, *, controller_epoch: int = 1) -> StopReplicaRequest:
    state = StopReplicaPartitionState(partition_index=0, leader_epoch=DURING_DELETE, delete_partition=True)
    topics = [StopReplicaTopicState(topic_name=topic, partition_states=[state])]
    return StopReplicaRequest(controller_id=0, controller_epoch=controller_epoch, topic_states=topics)


async def test_a_former_controller_is_refused_after_a_request_of_its_successor(house: House, slow: Slow) -> None:
    replicas = house.replicas
    old = replicas.become_leader_or_follower(house.request("old", controller_epoch=1))
    new = replicas.become_leader_or_follower(house.request("new", controller_epoch=2))
    late = replicas.become_leader_or_follower(house.request("late", controller_epoch=1))
    stop_late = replicas.stop_replica(to_delete("old", controller_epoch=1))
    await trio.testing.wait_all_tasks_blocked()
    assert (house.parts.fence.controller_epoch, old.done, new.done, late.done) == (1, True, False, False)
    slow.go_on.set()
    await trio.testing.wait_all_tasks_blocked()
    assert (errors(old.response), errors(new.response)) == ([0], [0])
    assert late.response.error_code == stop_late.response.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert replicas.partitions.keys() == {("old", 0), ("new", 0)}
    assert slow.called == ["make_logs", "make_logs"]


async def test_a_topic_made_anew_waits_until_the_old_one_is_gone(house: House, slow: Slow) -> None:
    slow.go_on.set()
    house.replicas.become_leader_or_follower(house.request())
    await trio.testing.wait_all_tasks_blocked()
    partition = house.replicas.partition(TOPIC, 0)
    produced = validate_produced(batch(b"a"), api_version=9, rules=partition.rules, now_ms=NOW_MS)
    assert house.replicas.append(partition, produced, 1, NOW_MS).last_offset == 0
    slow.go_on = trio.Event()
    deleted = house.replicas.stop_replica(to_delete())
    created = house.replicas.become_leader_or_follower(house.request(topic_id=bytes(15) + b"\7"))
    await trio.testing.wait_all_tasks_blocked()
    assert slow.called == ["make_logs", "rename_directories"]
    assert not house.replicas.partitions
    assert (house.path / f"{TOPIC}-0").exists()
    slow.go_on.set()
    await trio.testing.wait_all_tasks_blocked()
    assert deleted.response.partition_errors[0].error_code == ErrorCode.NONE
    assert errors(created.response) == [ErrorCode.NONE]
    assert house.replicas.partition(TOPIC, 0).log.log_end_offset == 0
    assert len(house.logs.take_deleted()) == 1


async def test_files_of_new_logs_are_made_off_the_loop_some_at_a_time(house: House, slow: Slow) -> None:
    reply = house.replicas.become_leader_or_follower(house.request(partitions=range(201)))
    await trio.testing.wait_all_tasks_blocked()
    assert errors(reply.response) == [0] * 201
    assert slow.called == ["make_logs"]
    assert not (house.path / f"{TOPIC}-200").exists()
    slow.go_on.set()
    await trio.testing.wait_all_tasks_blocked()
    assert slow.called == ["make_logs"] * 3
    assert len(list((house.path / f"{TOPIC}-200").iterdir())) == 5
    again = house.replicas.become_leader_or_follower(house.request(partitions=range(201), epoch=1))
    await trio.testing.wait_all_tasks_blocked()
    assert errors(again.response) == [0] * 201
    assert slow.called == ["make_logs"] * 3


async def test_a_log_that_is_written_to_before_its_files_are_made_makes_its_own(house: House, slow: Slow) -> None:
    house.replicas.become_leader_or_follower(house.request(partitions=range(2)))
    await trio.testing.wait_all_tasks_blocked()
    partition = house.replicas.partition(TOPIC, 0)
    produced = validate_produced(batch(b"a"), api_version=9, rules=partition.rules, now_ms=NOW_MS)
    assert house.replicas.append(partition, produced, 1, NOW_MS).last_offset == 0
    files = {path.name: path.read_bytes() for path in (house.path / f"{TOPIC}-0").iterdir()}
    assert not (house.path / f"{TOPIC}-1").exists()
    slow.go_on.set()
    await trio.testing.wait_all_tasks_blocked()
    assert {path.name: path.read_bytes() for path in (house.path / f"{TOPIC}-0").iterdir()} == files
    assert (house.path / f"{TOPIC}-1").exists()
    assert partition.log.log_end_offset == 1


async def test_a_partition_whose_files_cannot_be_made_is_offline_with_all_of_its_directory(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    house = House(tmp_path / "a", more=[tmp_path / "b"])
    house.starts = nursery.start_soon
    slow = house.worker = Slow()
    reply = house.replicas.become_leader_or_follower(house.request(partitions=range(2)))
    await trio.testing.wait_all_tasks_blocked()
    (house.path / f"{TOPIC}-0").write_text("in the way")
    slow.go_on.set()
    await trio.testing.wait_all_tasks_blocked()
    assert errors(reply.response) == [0, 0]
    assert [house.replicas.partition(TOPIC, index).is_offline for index in range(2)] == [True, False]
    assert house.logs.failures.offline == {tmp_path / "a"}
    house.close()


def test_answers_by_name_and_by_id_are_in_the_order_of_the_request(house: House) -> None:
    request = house.request("one", partitions=[1, 0])
    request.topic_states = [*request.topic_states, *house.request("two", partitions=[3]).topic_states]
    response = house.now(house.replicas.become_leader_or_follower(request))
    assert [(each.topic_name, each.partition_index) for each in response.partition_errors] == [
        ("one", 1),
        ("one", 0),
        ("two", 3),
    ]
    by_id = [(topic.topic_id, [each.partition_index for each in topic.partition_errors]) for topic in response.topics]
    assert by_id == [(topic_id("one"), [1, 0]), (topic_id("two"), [3])]


def test_a_log_that_cannot_be_made_is_refused_and_others_go_where_the_disk_is_well(tmp_path: Path) -> None:
    house = House(tmp_path / "a", more=[tmp_path / "b"])
    (house.path / f"{TOPIC}-0").write_text("in the way")
    starts, house.starts = house.starts, lambda function, *args: house.tasks.insert(0, (function, args))
    assert errors(house.lead(partitions=range(2), is_new=True)) == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
    house.starts = starts
    assert house.replicas.partition(TOPIC, 1).log.directory.parent == tmp_path / "b"
    assert errors(house.lead(partitions=[0], is_new=True)) == [ErrorCode.KAFKA_STORAGE_ERROR]
    with pytest.raises(KafkaError, match="offline log directory"):
        house.replicas.partition(TOPIC, 0)
    house.close()


def test_a_directory_that_cannot_be_renamed_is_answered(house: House, caplog: pytest.LogCaptureFixture) -> None:
    house.lead()
    shutil.rmtree(house.path / f"{TOPIC}-0")
    response = house.now(house.replicas.stop_replica(to_delete()))
    assert [each.error_code for each in response.partition_errors] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert "cannot be deleted" in caplog.text
    assert house.logs.take_deleted() == []
