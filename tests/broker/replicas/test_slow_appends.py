"""Appends to slow directories: what holds while a write is on its way, and who waits for it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
import trio.testing

from ottla.broker.config.throttle import ReplicationQuota
from ottla.broker.internal_topics.topic_log import InternalTopicLog
from ottla.broker.loop.deferred import CloseConnection, Deferred
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.slow_appends import Result
from ottla.broker.replication.log_dir_moves import LogDirMoves
from ottla.broker.upkeep.retention import OldSegments
from ottla.log.append import Append
from ottla.log.append_info import LogAppendInfo
from ottla.log.removal import delete_old_segments
from ottla.log.segments.transaction_index import AbortedTransaction
from ottla.log.state.verification import TransactionalAppend
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse
from ottla.wire.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from ottla.wire.records.batch import ControlType, place
from ottla.wire.records.compression import Compression
from tests.broker.handlers.producing import answers, begin, damaged, idempotent, one, request
from tests.broker.replicas.test_manager import fetch
from tests.broker.support.hosted import BROKER, NOW_MS, TOPIC, House, batch
from tests.broker.support.replication import answered, cluster
from tests.broker.support.slow_disk import SlowDisk
from tests.log.building import marker, open_log, produced, values_from


class Slow:
    """A house whose one directory is slow, and what its clients were answered."""

    def __init__(self, house: House, nursery: trio.Nursery) -> None:
        self.house = house
        house.starts = nursery.start_soon
        self.disk = SlowDisk(house)
        self.answers: list[PartitionProduceResponse | CloseConnection | None] = []

    @property
    def partition(self) -> Partition:
        return self.house.replicas.partition(TOPIC, 0)

    def send(self, asked: ProduceRequest) -> Deferred[ProduceResponse]:
        answer = begin(self.house, asked)
        assert isinstance(answer, Deferred)
        answer.then(self._take, self.answers.append)
        return answer  # type: ignore[return-value]

    def _take(self, response: ProduceResponse | None) -> None:
        self.answers += [None] if response is None else answers(response)

    @property
    def outcomes(self) -> list[tuple[int, int]]:
        return [
            (each.error_code, each.base_offset) for each in self.answers if isinstance(each, PartitionProduceResponse)
        ]

    async def lead(self, topic: str = TOPIC) -> Partition:
        await answered(self.house.replicas.become_leader_or_follower(self.house.request(topic)))
        return self.house.replicas.partition(topic, 0)


@pytest.fixture
async def slow(tmp_path: Path, nursery: trio.Nursery) -> AsyncIterator[Slow]:
    """Of one log directory."""
    made = Slow(House(tmp_path), nursery)
    await made.lead()
    made.disk.slow_down(made.partition.log)
    yield made
    made.disk.end()
    nursery.cancel_scope.cancel()


@pytest.fixture
async def slow_and_quick(tmp_path: Path, nursery: trio.Nursery) -> AsyncIterator[Slow]:
    """Of two log directories: the topic's, which is slow, and another one."""
    made = Slow(House(tmp_path / "a", more=[tmp_path / "b"]), nursery)
    await made.lead()
    made.disk.slow_down(made.partition.log)
    yield made
    made.disk.end()
    nursery.cancel_scope.cancel()


# An append on its way


@pytest.mark.parametrize("acks", [1, -1])
async def test_an_append_counts_once_it_is_written(slow: Slow, acks: int) -> None:
    slow.send(one(batch(b"a", b"b"), acks=acks))
    await slow.disk.begun()
    assert not slow.answers
    assert (slow.partition.log.log_end_offset, slow.partition.high_watermark) == (0, 0)
    assert fetch(slow.house, 0) == (0, 0)
    assert slow.partition.log.flush_job() is None
    await slow.disk.write_all()
    assert slow.outcomes == [(0, 0)]
    assert (slow.partition.log.log_end_offset, slow.partition.high_watermark) == (2, 2)
    assert values_from(slow.partition.log) == [b"a", b"b"]


async def test_without_acks_the_connection_waits_too_and_an_error_closes_it(slow: Slow) -> None:
    waiting = slow.send(one(batch(b"a"), acks=0))
    slow.send(one(idempotent(0, b"b"), acks=0))
    slow.send(one(idempotent(5, b"c"), acks=0))
    assert not waiting.applied
    await slow.disk.begun()
    await slow.disk.write_all()
    assert slow.answers[:2] == [None, None]
    assert isinstance(slow.answers[2], CloseConnection)
    assert slow.partition.log.log_end_offset == 2


async def test_a_log_has_one_write_at_a_time_and_other_logs_are_written_meanwhile(slow: Slow) -> None:
    await slow.lead("other")
    for number in range(3):
        slow.send(one(batch(b"%d" % number), acks=1))
    (first,) = await slow.disk.begun()
    slow.send(request(("other", 0, batch(b"x")), acks=1))
    await slow.disk.begun(2)
    first.let_go.set()
    await trio.testing.wait_all_tasks_blocked()
    assert slow.outcomes == [(0, 0)]
    assert len(slow.disk.writes) == 2
    await slow.disk.write_all()
    assert values_from(slow.partition.log) == [b"0", b"1", b"2"]
    assert sorted(slow.outcomes) == [(0, 0), (0, 0), (0, 1), (0, 2)]


async def test_sequence_numbers_are_checked_in_the_turn_of_the_append(slow: Slow) -> None:
    for sequence in (0, 1, 1, 3, 2):
        slow.send(one(idempotent(sequence, b"%d" % sequence)))
    await slow.disk.begun()
    await slow.disk.write_all()
    out_of_order = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert slow.outcomes == [(0, 0), (0, 1), (0, 1), out_of_order, (0, 2)]
    assert values_from(slow.partition.log) == [b"0", b"1", b"2"]


async def test_guards_are_checked_in_the_turn_of_the_append(slow: Slow) -> None:
    """An abort between two appends that were verified before it."""
    partition, appends = slow.partition, slow.house.parts.slow_appends
    results: list[Result] = []
    guard = partition.start_verification(7, 0, 0, False, NOW_MS)
    for each, how in (
        (produced(producer_id=7, transactional=True), TransactionalAppend(guard=guard)),
        (produced(producer_id=7, sequence=1, transactional=True), TransactionalAppend()),
        (marker(7, ControlType.ABORT), TransactionalAppend()),
        (produced(producer_id=7, sequence=2, transactional=True), TransactionalAppend(guard=guard)),
    ):
        appends.append(partition, each, 1, results.append, how)
    await slow.disk.begun()
    assert partition.start_verification(7, 1, 0, False, NOW_MS) is guard
    await slow.disk.write_all()
    assert [each.code if isinstance(each, KafkaError) else each.first_offset for each in results] == [
        0, 1, 2, ErrorCode.INVALID_TXN_STATE,
    ]  # fmt: skip
    aborted = partition.log.segments.active.transactions.entries
    assert aborted == [AbortedTransaction(7, 0, 2, 3)]
    assert partition.last_stable_offset == 3


async def test_each_partition_of_a_request_has_its_own_guard(slow_and_quick: Slow) -> None:
    slow, quick = slow_and_quick.partition, await slow_and_quick.lead("quick")
    plain, wrong = await slow_and_quick.lead("plain"), await slow_and_quick.lead("wrong")
    verified = [
        TransactionalAppend(guard=each.start_verification(7, 0, 0, False, NOW_MS)) for each in (slow, quick, wrong)
    ]
    in_transaction = [(each, produced(producer_id=7, transactional=True)) for each in (slow, quick, wrong)]
    results: list[list[Result]] = []
    places: list[tuple[str, int]] = [each.topic_partition for each in (slow, quick, wrong)]
    how = dict(zip(places, [*verified[:2], verified[0]], strict=True))
    entries = [*in_transaction, (plain, produced(producer_id=7))]
    slow_and_quick.house.parts.slow_appends.append_all(entries, 1, results.append, how)
    await slow_and_quick.disk.begun()
    await slow_and_quick.disk.write_all()
    ((*taken, refused, last),) = results
    assert [isinstance(each, LogAppendInfo) for each in (*taken, last)] == [True] * 3
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.INVALID_TXN_STATE
    assert [each.last_stable_offset for each in (slow, quick, wrong, plain)] == [0, 0, 0, 1]


async def test_a_request_of_several_partitions_is_answered_as_one(slow_and_quick: Slow) -> None:
    slow, quick = slow_and_quick, await slow_and_quick.lead("quick")
    assert not quick.log.pace.is_slow
    bad = damaged(batch(b"a"), 60, b"\7", keep_crc=True)
    slow.send(request((TOPIC, 0, batch(b"a")), ("quick", 0, batch(b"b")), ("nowhere", 0, batch(b"c")), (TOPIC, 1, bad)))
    await slow.disk.begun()
    assert quick.log.log_end_offset == 1
    await slow.disk.write_all()
    assert slow.outcomes == [(0, 0), (3, -1), (0, 0), (3, -1)]


async def test_the_append_of_a_client_that_disconnects_is_made(slow: Slow) -> None:
    waiting = slow.send(one(batch(b"a")))
    await slow.disk.begun()
    waiting.abandon()
    await slow.disk.write_all()
    assert values_from(slow.partition.log) == [b"a"]


async def test_the_loop_writes_again_when_the_disk_was_quick_for_a_while(slow: Slow) -> None:
    slow.send(one(batch(b"a")))
    await slow.disk.begun()
    await slow.disk.write_all()
    assert slow.partition.log.pace.is_slow
    slow.disk.pass_quiet_time()
    slow.send(one(batch(b"b")))
    await slow.disk.begun()
    await slow.disk.write_all()
    assert not slow.partition.log.pace.is_slow
    slow.house.replicas.append(slow.partition, produced(value=b"c"), 1, NOW_MS)
    assert values_from(slow.partition.log) == [b"a", b"b", b"c"]


async def test_a_slow_write_on_the_loop_makes_its_directory_slow(slow_and_quick: Slow) -> None:
    quick, same = await slow_and_quick.lead("quick"), await slow_and_quick.lead("same")
    pace = quick.log.pace
    assert same.log.pace is slow_and_quick.partition.log.pace is not pace
    times = iter([0.0, 0.004, 1.0, 1.3, 1.3])
    pace.clock = lambda: next(times)
    quick.log.append_as_leader(produced(), 0, NOW_MS)
    assert not pace.is_slow
    quick.log.append_as_leader(produced(), 0, NOW_MS)
    assert pace.is_slow


# Failures


async def test_a_write_that_fails_takes_the_directory_offline_and_is_answered(slow_and_quick: Slow) -> None:
    slow = slow_and_quick
    partition = slow.partition
    slow.send(one(batch(b"a"), acks=1))
    await slow.disk.begun()
    await slow.disk.write_all()
    path = next((slow.house.path / f"{TOPIC}-0").glob("*.log"))
    written = path.read_bytes()
    for acks in (1, -1):
        slow.send(one(batch(b"lost"), acks=acks))
    (write,) = await slow.disk.begun()
    write.fail()
    await trio.testing.wait_all_tasks_blocked()
    assert slow.outcomes == [(0, 0), *[(ErrorCode.KAFKA_STORAGE_ERROR, -1)] * 2]
    assert partition.is_offline
    assert partition.log.log_end_offset == 1
    assert path.read_bytes() == written
    assert slow.house.logs.failures.offline == {slow.house.path}


async def test_nothing_is_acknowledged_by_a_partition_that_went_offline_meanwhile(slow: Slow) -> None:
    slow.send(one(batch(b"a"), acks=1))
    (write,) = await slow.disk.begun()
    slow.house.parts.hosted.take_offline(slow.partition, "as an fsync says")
    write.let_go.set()
    await trio.testing.wait_all_tasks_blocked()
    assert slow.outcomes == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)]


# Who waits


async def test_a_new_role_waits_for_an_append_and_later_appends_are_refused(slow: Slow, nursery: trio.Nursery) -> None:
    for value in (b"a", b"b"):
        slow.send(one(batch(value), acks=1))
    (write,) = await slow.disk.begun()
    roles = slow.house.replicas.become_leader_or_follower(
        slow.house.request(epoch=1, leader=1, isr=[1], replicas=[BROKER, 1])
    )
    await trio.testing.wait_all_tasks_blocked()
    assert not roles.done
    assert slow.partition.is_leader
    write.let_go.set()
    await trio.testing.wait_all_tasks_blocked()
    assert roles.done
    assert slow.outcomes == [(0, 0), (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
    assert values_from(slow.partition.log) == [b"a"]


async def test_a_new_leader_epoch_begins_after_the_append_that_is_under_way(slow: Slow) -> None:
    slow.send(one(batch(b"a"), acks=1))
    (write,) = await slow.disk.begun()
    roles = slow.house.replicas.become_leader_or_follower(slow.house.request(epoch=1))
    await trio.testing.wait_all_tasks_blocked()
    write.let_go.set()
    await answered(roles)
    assert slow.partition.leader_epoch_start_offset == 1
    assert slow.outcomes == [(0, 0)]


async def test_a_deletion_waits_for_an_append_and_later_appends_are_refused(slow: Slow) -> None:
    log = slow.partition.log
    for value in (b"a", b"b"):
        slow.send(one(batch(value), acks=1))
    (write,) = await slow.disk.begun()
    state = StopReplicaPartitionState(partition_index=0, leader_epoch=-2, delete_partition=True)
    stopping = slow.house.replicas.stop_replica(
        StopReplicaRequest(
            controller_id=0,
            controller_epoch=1,
            topic_states=[StopReplicaTopicState(topic_name=TOPIC, partition_states=[state])],
        )
    )
    await trio.testing.wait_all_tasks_blocked()
    assert not stopping.done
    assert log.directory.exists()
    write.let_go.set()
    await answered(stopping)
    await trio.testing.wait_all_tasks_blocked()
    assert slow.outcomes == [(0, 0), (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
    assert not log.directory.exists()


async def test_retention_waits_for_an_append_and_keeps_its_records(slow: Slow, nursery: trio.Nursery) -> None:
    slow.house.configs[TOPIC] = {"retention.ms": "1000"}
    slow.house.replicas.reconfigure(TOPIC)
    slow.house.replicas.append(slow.partition, produced(value=b"old", timestamp=NOW_MS - 5000), 1, NOW_MS)
    slow.send(one(batch(b"new"), acks=1))
    (write,) = await slow.disk.begun()
    nursery.start_soon(OldSegments(slow.house.parts).delete)
    await trio.testing.wait_all_tasks_blocked()
    assert len(slow.partition.log.segments) == 1
    write.let_go.set()
    await trio.testing.wait_all_tasks_blocked()
    assert values_from(slow.partition.log) == [b"old", b"new"]


async def test_a_move_copies_the_append_that_was_under_way(
    autojump_clock: trio.testing.MockClock, slow_and_quick: Slow
) -> None:
    slow = slow_and_quick

    async def checkpoint() -> None:
        pass

    moves = LogDirMoves(slow.house.replicas, slow.house.parts, ReplicationQuota(), checkpoint)
    key = slow.partition.topic_partition
    old = slow.partition.log
    other = next(each for each in slow.house.directories if each != old.directory.parent)
    for number in range(3):
        slow.send(one(batch(b"%d" % number), acks=1))
    (write,) = await slow.disk.begun()
    moves.move(key, str(other))
    await trio.sleep(5)
    assert slow.partition.log is old
    write.let_go.set()
    while len(slow.outcomes) < 3 or slow.partition.log is old:
        for each in slow.disk.writes:
            each.let_go.set()
        await trio.sleep(1)
    assert slow.partition.log.directory.parent == other
    assert values_from(slow.partition.log) == [b"0", b"1", b"2"]
    assert slow.outcomes == [(0, 0), (0, 1), (0, 2)]


async def test_a_log_cannot_be_changed_during_a_write_without_its_turn(slow: Slow) -> None:
    slow.send(one(batch(b"a"), acks=1))
    await slow.disk.begun()
    log = slow.partition.log
    for change in (
        lambda: log.append_as_leader(produced(), 0, NOW_MS),
        lambda: log.append_as_follower(batch(b"x"), NOW_MS),
        lambda: log.truncate_to(0),
        lambda: log.truncate_fully_and_start_at(7),
        lambda: log.roll(NOW_MS),
        lambda: log.assign_epoch(3),
        lambda: log.moved_to(Path("elsewhere")),
        lambda: delete_old_segments(log, 0, NOW_MS),
        log.close,
    ):
        with pytest.raises(RuntimeError, match="on its way"):
            change()
    await slow.disk.write_all()
    assert slow.outcomes == [(0, 0)]
    assert values_from(log) == [b"a"]


async def test_an_append_to_a_log_that_is_released_meanwhile_is_refused(slow: Slow) -> None:
    slow.send(one(batch(b"a"), acks=1))
    await slow.disk.begun()
    slow.partition.log.release()
    await slow.disk.write_all()
    assert slow.outcomes == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)]
    assert slow.partition.log.log_end_offset == 0


# Appends that no producer sent


async def test_the_group_coordinators_appends_are_in_order_and_end_when_they_are_committed(slow: Slow) -> None:
    partition = await slow.lead("__consumer_offsets")
    log = InternalTopicLog(
        slow.house.replicas,
        slow.house.parts,
        "__consumer_offsets",
        commit_timeout_ms=5000,
        compression=Compression.NONE,
    )
    done: list[tuple[bytes, ErrorCode]] = []
    for key in (b"a", b"b", b"c"):
        log.append(0, [(key, b"v")], lambda code, key=key: done.append((key, code)))  # type: ignore[misc]
    await slow.disk.begun()
    assert not done
    await slow.disk.write_all()
    assert done == [(key, ErrorCode.NONE) for key in (b"a", b"b", b"c")]
    assert partition.high_watermark == 3


async def test_a_follower_appends_what_it_fetched_with_one_write(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with cluster(tmp_path) as both:
        await both.lead(0, 0)
        both.append(0, b"a")
        await both.settle()
        disk = SlowDisk(both.houses[1])
        disk.slow_down(both.partition(1).log)
        both.append(0, b"b")
        (write,) = await disk.begun()
        both.append(0, *(b"%d" % number for number in range(20)))
        await both.settle()
        assert both.values(1) == [b"a"]
        assert both.partition(0).high_watermark == 1
        write.let_go.set()
        await both.settle()
        (write,) = disk.writes
        assert both.values(1) == [b"a", b"b"]
        write.let_go.set()
        await both.settle()
        assert both.values(1) == both.values(0)
        assert both.partition(0).high_watermark == 22
        assert both.files(1) == both.files(0)


async def test_a_follower_ends_its_write_before_it_leads(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with cluster(tmp_path) as both:
        await both.lead(0, 0)
        disk = SlowDisk(both.houses[1])
        disk.slow_down(both.partition(1).log)
        both.append(0, b"a", b"b")
        (write,) = await disk.begun()
        roles = both.houses[1].replicas.become_leader_or_follower(
            both.houses[1].request(leader=1, epoch=1, replicas=[0, 1], isr=[1])
        )
        await both.settle()
        assert not roles.done
        write.let_go.set()
        await answered(roles)
        assert both.values(1) == [b"a", b"b"]
        assert both.partition(1).leader_epoch_start_offset == 2


def test_batches_of_a_leader_go_into_segments_as_they_fit(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=400, segment_index_bytes=240)
    data = bytearray()
    for offset in range(12):
        sent = batch(b"%02d" % offset)
        place(sent, offset, offset // 5)
        data += sent
    log.append_as_follower(memoryview(data), NOW_MS)
    assert values_from(log) == [b"%02d" % offset for offset in range(12)]
    assert [each.start_offset for each in log.leader_epochs.entries] == [0, 5, 10]
    assert all(segment.size <= 400 for segment in log.segments)
    assert len(log.segments) > 2
    log.close()


def test_an_append_that_ends_in_a_closed_log_is_a_storage_error(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    begun = log.begin_as_leader(produced(), 0, NOW_MS)
    assert isinstance(begun, Append)
    write = log.begin_write(begun)
    log.release()
    write.run()
    with pytest.raises(KafkaError) as caught:
        log.end_append(begun, write)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
