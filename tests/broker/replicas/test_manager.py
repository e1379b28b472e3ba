from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import trio
import trio.testing

from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.reads import Reader, consumer
from ottla.broker.replicas.watchers import HIGH_WATERMARK
from ottla.log.state.checkpoint import write_checkpoints
from ottla.log.state.verification import AppendOrigin, TransactionalAppend
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.fetch import FetchPartition
from ottla.wire.messages.leader_and_isr import LeaderAndIsrResponse
from ottla.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from ottla.wire.records.batch import ProducedBatch, validate_produced
from ottla.wire.types import ZERO_UUID, TopicPartition
from ottla.wire.uuids import uuid_text
from tests.broker.support.hosted import BROKER, NOW_MS, TOPIC, House, batch, topic_id
from tests.log import building

CONSUMER = consumer(0, from_leader_only=True)
DURING_DELETE = -2


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.close()


class Watcher:
    def __init__(self) -> None:
        self.calls = 0

    def partition_moved(self) -> None:
        self.calls += 1


def produced(partition: Partition, *values: bytes) -> ProducedBatch:
    return validate_produced(batch(*values), api_version=9, rules=partition.rules, now_ms=NOW_MS)


def append(house: House, partition: Partition, *values: bytes, acks: int = 1) -> int:
    """The offset behind what was appended."""
    return house.replicas.append(partition, produced(partition, *values), acks, NOW_MS).last_offset + 1


def errors(response: LeaderAndIsrResponse) -> list[int]:
    return [error.error_code for topic in response.topics for error in topic.partition_errors]


def test_an_append_in_a_transaction_is_checked_by_its_origin_and_guard(house: House) -> None:
    house.lead()
    partition = house.replicas.partition(TOPIC, 0)
    guard = partition.start_verification(7, -1, 0, False, NOW_MS)
    offsets = building.produced(producer_id=7, transactional=True)
    with pytest.raises(KafkaError) as refused:
        house.replicas.append(partition, offsets, -1, NOW_MS, TransactionalAppend(AppendOrigin.COORDINATOR))
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE
    for each in (guard, None):
        how = TransactionalAppend(AppendOrigin.COORDINATOR, each)
        assert not house.replicas.append(partition, offsets, -1, NOW_MS, how).is_duplicate
    late = building.marker(7)
    with pytest.raises(KafkaError) as refused:
        house.replicas.append(partition, late, -1, NOW_MS, TransactionalAppend(transaction_version=2))
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    house.replicas.append(partition, late, -1, NOW_MS, TransactionalAppend(transaction_version=0))
    assert partition.last_stable_offset == 3


def stop(house: House, *, epoch: int, delete: bool, controller_epoch: int = 1, topic: str = TOPIC) -> list[int]:
    states = [StopReplicaPartitionState(partition_index=0, leader_epoch=epoch, delete_partition=delete)]
    request = StopReplicaRequest(
        controller_id=0,
        controller_epoch=controller_epoch,
        topic_states=[StopReplicaTopicState(topic_name=topic, partition_states=states)],
    )
    response = house.now(house.replicas.stop_replica(request))
    return [response.error_code, *(error.error_code for error in response.partition_errors)]


def fetch(
    house: House, offset: int, *, reader: Reader = CONSUMER, topic_id: bytes = ZERO_UUID, first: bool = True
) -> tuple[int, int]:
    """Error and size."""
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    result = house.replicas.read(reader, TOPIC, 0, topic_id, asked, 1 << 20, at_least_one=True, is_first_look=first)
    return result.error, result.size


# Registry


def test_a_partition_that_is_not_here_is_unknown_or_led_elsewhere(house: House) -> None:
    house.tell("elsewhere", [0], leader=1)
    for topic, code in (("nowhere", 3), ("elsewhere", 6)):
        with pytest.raises(KafkaError) as caught:
            house.replicas.partition(topic, 0)
        assert caught.value.code == code


def test_becoming_leader_creates_a_log_with_the_topic_id_and_its_configuration(house: House) -> None:
    house.configs[TOPIC] = {"max.message.bytes": "77"}
    assert errors(house.lead(partitions=range(3))) == [0, 0, 0]
    partition = house.replicas.partition(TOPIC, 2)
    assert partition.log.topic_id == topic_id(TOPIC)
    assert partition.rules.max_message_bytes == 77
    assert (house.path / f"{TOPIC}-2" / "partition.metadata").exists()


def test_a_topic_with_invalid_configs_is_served_with_the_default_configuration(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.configs[TOPIC] = {"max.message.bytes": "many"}
    assert errors(house.lead()) == [0]
    assert house.replicas.partition(TOPIC, 0).rules.max_message_bytes == house.defaults.max_message_bytes
    assert "default configuration" in caplog.text


def test_a_controller_of_an_older_epoch_is_refused(house: House) -> None:
    house.lead(controller_epoch=3)
    assert house.lead("other", controller_epoch=2).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert ("other", 0) not in house.replicas.partitions
    assert stop(house, epoch=0, delete=True, controller_epoch=2) == [ErrorCode.STALE_CONTROLLER_EPOCH]
    assert house.replicas.partition(TOPIC, 0).is_leader


def test_a_role_of_a_known_or_older_leader_epoch_is_refused(house: House) -> None:
    house.lead(epoch=4)
    assert errors(house.lead(epoch=4)) == [ErrorCode.STALE_CONTROLLER_EPOCH]
    assert errors(house.lead(epoch=3)) == [ErrorCode.STALE_CONTROLLER_EPOCH]
    assert errors(house.lead(epoch=5)) == [ErrorCode.NONE]


def test_a_partition_assigned_to_others_is_not_hosted(house: House) -> None:
    assert errors(house.lead(leader=1, isr=[1], replicas=[1])) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert not house.replicas.partitions


def test_another_topic_of_the_same_name_is_refused(house: House) -> None:
    house.lead()
    assert errors(house.lead(epoch=1, topic_id=bytes(15) + b"\7")) == [ErrorCode.INCONSISTENT_TOPIC_ID]


def test_another_topic_of_the_same_name_is_refused_after_a_restart_too(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.lead()
    house.close()
    house.open()
    assert errors(house.lead(epoch=1, topic_id=bytes(15) + b"\7")) == [ErrorCode.INCONSISTENT_TOPIC_ID]
    assert not house.replicas.partitions
    old, new = uuid_text(topic_id(TOPIC)), uuid_text(bytes(15) + b"\7")
    said = f"Topic ID in memory: {old} does not match the topic ID for partition {TOPIC}-0 received: {new}."
    (line,) = (record for record in caplog.records if said in record.getMessage())
    assert line.levelname == "ERROR"
    assert str(house.path / f"{TOPIC}-0") in line.getMessage()


def test_a_stray_log_makes_way_for_another_topic_of_its_name(house: House) -> None:
    house.lead()
    append(house, house.replicas.partition(TOPIC, 0), b"old", b"old")
    write_checkpoints(house.logs.high_watermarks(house.replicas.high_watermarks()))
    house.close()
    house.open()
    house.lead("other")  # with which the high watermarks of all logs are read
    house.logs.strays[TOPIC] = {0}
    assert errors(house.lead(epoch=0, topic_id=bytes(15) + b"\7")) == [0]
    partition = house.replicas.partition(TOPIC, 0)
    assert (partition.log.log_end_offset, partition.high_watermark) == (0, 0)
    assert append(house, partition, b"new") == 1
    assert len(list(house.path.glob(f"{TOPIC}-0.*-stray"))) == 1


def test_an_old_topic_gets_its_id_without_a_new_epoch(house: House) -> None:
    assert errors(house.lead(topic_id=ZERO_UUID)) == [0]
    assert house.replicas.partition(TOPIC, 0).log.topic_id is None
    assert errors(house.lead()) == [0]
    assert house.replicas.partition(TOPIC, 0).log.topic_id == topic_id(TOPIC)


def test_an_old_topic_gets_its_id_with_a_new_epoch(house: House) -> None:
    house.lead(topic_id=ZERO_UUID)
    assert errors(house.lead(epoch=1)) == [0]
    assert house.replicas.partition(TOPIC, 0).log.topic_id == topic_id(TOPIC)


@pytest.mark.parametrize("epoch", [-1, -2, -(2**31)])
def test_a_new_partition_without_a_leader_epoch_is_refused(house: House, epoch: int) -> None:
    assert errors(house.lead(epoch=epoch)) == [ErrorCode.STALE_CONTROLLER_EPOCH]
    assert not house.replicas.partitions
    assert errors(house.lead(epoch=0)) == [ErrorCode.NONE]


def test_a_topic_without_partitions_is_not_answered(house: House) -> None:
    request = house.request(partitions=())
    request.topic_states = [*request.topic_states, *house.request("other").topic_states]
    response = house.now(house.replicas.become_leader_or_follower(request))
    assert [(topic.topic_id, len(topic.partition_errors)) for topic in response.topics] == [(topic_id("other"), 1)]


def test_the_leader_is_taken_from_the_hosted_partition_and_else_from_the_metadata(house: House) -> None:
    house.lead(epoch=5)
    house.tell(TOPIC, [0, 1], leader=1, epoch=4)
    nodes = [house.metadata.node(broker, "PLAINTEXT") for broker in (BROKER, 1)]
    assert house.replicas.current_leader(TOPIC, 0, "PLAINTEXT") == (BROKER, 5, nodes[0])
    assert house.replicas.current_leader(TOPIC, 1, "PLAINTEXT") == (1, 4, nodes[1])
    assert house.replicas.current_leader("nowhere", 0, "PLAINTEXT") == (-1, -1, None)
    house.replicas.partition(TOPIC, 0).make_offline()
    assert house.replicas.current_leader(TOPIC, 0, "PLAINTEXT") == (1, 4, nodes[1])


def test_high_watermarks_outlive_a_restart(house: House) -> None:
    house.lead(isr=[BROKER, 1], replicas=[BROKER, 1])
    partition = house.replicas.partition(TOPIC, 0)
    append(house, partition, b"a", b"b")
    fetch(house, 2, reader=Reader(1, -1, 0, from_leader_only=True))
    append(house, partition, b"c")
    write_checkpoints(house.logs.high_watermarks(house.replicas.high_watermarks()))
    house.close()
    house.open()
    house.lead(isr=[BROKER, 1], replicas=[BROKER, 1], epoch=1)
    assert house.replicas.partition(TOPIC, 0).high_watermark == 2


# Stopping


def test_a_deleted_partition_is_gone_with_its_directory(house: House) -> None:
    house.lead()
    assert stop(house, epoch=DURING_DELETE, delete=True) == [0, 0]
    assert not house.replicas.partitions
    assert not (house.path / f"{TOPIC}-0").exists()
    assert stop(house, epoch=DURING_DELETE, delete=True) == [0, 0]


def test_a_topic_created_anew_starts_empty(house: House) -> None:
    house.lead()
    append(house, house.replicas.partition(TOPIC, 0), b"a")
    stop(house, epoch=DURING_DELETE, delete=True)
    assert errors(house.lead(topic_id=bytes(15) + b"\7")) == [0]
    assert house.replicas.partition(TOPIC, 0).high_watermark == 0


def test_a_log_without_a_hosted_partition_is_deleted_too(house: House) -> None:
    house.lead()
    house.close()
    house.open()
    assert stop(house, epoch=DURING_DELETE, delete=True) == [0, 0]
    assert not (house.path / f"{TOPIC}-0").exists()


def test_stopping_is_fenced_by_the_leader_epoch(house: House) -> None:
    house.lead(epoch=5)
    assert stop(house, epoch=4, delete=True) == [0, ErrorCode.FENCED_LEADER_EPOCH]
    assert stop(house, epoch=5, delete=False) == [0, 0]
    assert (TOPIC, 0) in house.replicas.partitions
    assert stop(house, epoch=5, delete=True) == [0, 0]
    assert (TOPIC, 0) not in house.replicas.partitions


@pytest.mark.parametrize(
    "old",
    [
        {"ungrouped_partitions": [StopReplicaPartitionV0(topic_name=TOPIC, partition_index=0)]},
        {"topics": [StopReplicaTopicV1(name=TOPIC, partition_indexes=[0])]},
    ],
)
def test_older_versions_stop_without_a_leader_epoch(house: House, old: dict[str, Sequence[object]]) -> None:
    house.lead(epoch=5)
    request = StopReplicaRequest(controller_id=0, controller_epoch=1, delete_partitions=True, **old)  # type: ignore[arg-type]
    response = house.now(house.replicas.stop_replica(request))
    assert [(e.topic_name, e.partition_index, e.error_code) for e in response.partition_errors] == [(TOPIC, 0, 0)]
    assert not house.replicas.partitions


# Appending and reading


def test_an_append_calls_its_watchers(house: House) -> None:
    house.lead()
    watcher = Watcher()
    house.parts.signal.watch(TopicPartition(TOPIC, 0), HIGH_WATERMARK, watcher)
    append(house, house.replicas.partition(TOPIC, 0), b"a")
    assert watcher.calls == 1


def test_reading_answers_errors_by_code(house: House) -> None:
    assert fetch(house, 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
    house.lead(topic_id=topic_id(TOPIC))
    append(house, house.replicas.partition(TOPIC, 0), b"a")
    assert fetch(house, 9) == (ErrorCode.OFFSET_OUT_OF_RANGE, 0)
    assert fetch(house, 0, topic_id=bytes(15) + b"\7") == (ErrorCode.INCONSISTENT_TOPIC_ID, 0)
    error, size = fetch(house, 0, topic_id=topic_id(TOPIC))
    assert (error, size > 0) == (ErrorCode.NONE, True)


def test_a_followers_fetch_calls_the_watchers_of_the_high_watermark_it_moves(house: House) -> None:
    house.lead(isr=[BROKER, 1], replicas=[BROKER, 1])
    watcher = Watcher()
    house.parts.signal.watch(TopicPartition(TOPIC, 0), HIGH_WATERMARK, watcher)
    append(house, house.replicas.partition(TOPIC, 0), b"a")
    follower = Reader(1, -1, 0, from_leader_only=True)
    assert fetch(house, 0, reader=follower)[1] > 0
    assert watcher.calls == 0
    fetch(house, 1, reader=follower, first=False)
    assert watcher.calls == 0
    fetch(house, 1, reader=follower)
    assert watcher.calls == 1


# Acknowledgement


def follower_has(house: House, offset: int) -> None:
    fetch(house, offset, reader=Reader(1, -1, 0, from_leader_only=True))


async def test_an_append_is_acknowledged_when_the_follower_has_it(house: House) -> None:
    house.lead(isr=[BROKER, 1], replicas=[BROKER, 1])
    partition = house.replicas.partition(TOPIC, 0)
    done: list[list[ErrorCode]] = []
    first = append(house, partition, b"a")
    house.replicas.await_acks([(partition, first)], -1, 1000, done.append)
    second = append(house, partition, b"b")
    house.replicas.await_acks([(partition, second)], -1, 1000, done.append)
    assert done == []
    follower_has(house, 1)
    assert done == [[ErrorCode.NONE]]
    follower_has(house, 2)
    assert done == [[ErrorCode.NONE]] * 2
    assert len(house.parts.signal) == 0


async def test_many_appends_are_acknowledged_together(house: House) -> None:
    house.lead(partitions=[0])
    house.lead("two", isr=[BROKER, 1], replicas=[BROKER, 1])
    alone, shared = house.replicas.partition(TOPIC, 0), house.replicas.partition("two", 0)
    done: list[list[ErrorCode]] = []
    appended = [(partition, append(house, partition, b"a")) for partition in (alone, shared)]
    house.replicas.await_acks(appended, -1, 1000, done.append)
    assert done == []
    house.lead("two", leader=1, isr=[1], replicas=[BROKER, 1], epoch=1)
    assert done == [[ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]]


async def test_an_append_that_is_not_acknowledged_in_time_times_out(
    house: House, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    nursery.start_soon(house.clock.run)
    house.lead(isr=[BROKER, 1], replicas=[BROKER, 1])
    partition = house.replicas.partition(TOPIC, 0)
    done: list[list[ErrorCode]] = []
    house.replicas.await_acks([(partition, append(house, partition, b"a"))], -1, 5000, done.append)
    await trio.sleep(4.9)
    assert done == []
    await trio.sleep(0.2)
    assert done == [[ErrorCode.REQUEST_TIMED_OUT]]
    follower_has(house, 1)
    assert len(done) == 1
    assert len(house.parts.signal) == 0
    nursery.cancel_scope.cancel()


async def test_a_deleted_topic_ends_the_wait(house: House) -> None:
    house.lead(isr=[BROKER, 1], replicas=[BROKER, 1])
    partition = house.replicas.partition(TOPIC, 0)
    done: list[list[ErrorCode]] = []
    house.replicas.await_acks([(partition, append(house, partition, b"a"))], -1, 5000, done.append)
    stop(house, epoch=DURING_DELETE, delete=True)
    assert done == [[ErrorCode.NOT_LEADER_OR_FOLLOWER]]


async def test_a_broker_that_ends_fails_waiting_appends_to_partitions_with_followers(house: House) -> None:
    house.lead(partitions=[0])
    house.lead("two", isr=[BROKER, 1], replicas=[BROKER, 1])
    alone, shared = house.replicas.partition(TOPIC, 0), house.replicas.partition("two", 0)
    done: list[list[ErrorCode]] = []
    house.replicas.await_acks([(shared, append(house, shared, b"a"))], -1, 5000, done.append)
    house.replicas.step_down()
    assert done == [[ErrorCode.NOT_LEADER_OR_FOLLOWER]]
    with pytest.raises(KafkaError) as refused:
        append(house, shared, b"b")
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert append(house, alone, b"b") == 1


async def test_an_abandoned_wait_leaves_no_watcher_and_no_timer(
    house: House, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    nursery.start_soon(house.clock.run)
    house.lead(isr=[BROKER, 1], replicas=[BROKER, 1])
    partition = house.replicas.partition(TOPIC, 0)
    done: list[list[ErrorCode]] = []
    wait = house.replicas.await_acks([(partition, append(house, partition, b"a"))], -1, 5000, done.append)
    wait.abandon()
    assert len(house.parts.signal) == 0
    follower_has(house, 1)
    await trio.sleep(6)
    assert done == []
    nursery.cancel_scope.cancel()
