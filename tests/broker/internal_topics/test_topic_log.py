"""Appends of a coordinator become committed batches; a partition that this broker leads is loaded whole."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import trio
import trio.testing

from ottla.broker.internal_topics.loader import PartitionLoader
from ottla.broker.internal_topics.topic_log import InternalTopicLog
from ottla.broker.replicas.partition import Partition
from ottla.coordinator.effects import Producer
from ottla.log.state.verification import UNVERIFIED
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from ottla.wire.records.batch import (
    BatchHeader,
    ControlType,
    NewRecord,
    ProducedBatch,
    Record,
    build_batch,
    build_control_batch,
    iter_batches,
    iter_records,
    parse_header,
)
from ottla.wire.records.compression import Compression
from tests.broker.support.hosted import NOW_MS, House

TOPIC = "__consumer_offsets"
TIMEOUT_MS = 5_000

Pairs = list[tuple[bytes, bytes | None]]


class Recorder:
    """A coordinator that records the calls of a loader."""

    def __init__(self) -> None:
        self.loading: dict[int, int] = {}
        self.records: Pairs = []
        self.offsets: list[int] = []
        self.open: list[tuple[int, bytes, bytes | None]] = []
        self.calls: list[tuple[str, int, int]] = []

    def begin_loading(self, partition: int, leader_epoch: int) -> bool:
        if ("loaded", partition, leader_epoch) in self.calls:
            return False
        self.loading[partition] = leader_epoch
        return True

    def replay(
        self,
        partition: int,
        leader_epoch: int,
        key: bytes,
        value: bytes | None,
        offset: int,
        producer_id: int | None = None,
    ) -> None:
        if key == b"broken":
            raise ValueError("a bug")
        self.offsets.append(offset)
        if producer_id is None:
            self.records.append((key, value))
        else:
            self.open.append((producer_id, key, value))

    def is_loading(self, partition: int, leader_epoch: int) -> bool:
        return self.loading.get(partition) == leader_epoch

    def loaded(self, partition: int, leader_epoch: int) -> None:
        del self.loading[partition]
        self.calls.append(("loaded", partition, leader_epoch))

    def unload(self, partition: int, leader_epoch: int) -> None:
        self.loading.pop(partition, None)
        self.calls.append(("unload", partition, leader_epoch))


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def house(tmp_path: Path, recorder: Recorder) -> Iterator[House]:
    house = House(tmp_path)
    listen(house, recorder)
    yield house
    house.close()


def listen(house: House, recorder: Recorder, buffer_size: int = 5 << 20, **clock: Callable[[], float]) -> None:
    loader = PartitionLoader(house.parts, TOPIC, recorder, load_buffer_size=buffer_size, **clock)
    house.parts.events.leading.subscribe(loader.load)
    house.parts.events.following.subscribe(loader.unload)
    house.parts.events.stopped.subscribe(loader.unload)


def log_of(house: House, compression: Compression = Compression.NONE) -> InternalTopicLog:
    return InternalTopicLog(house.replicas, house.parts, TOPIC, commit_timeout_ms=TIMEOUT_MS, compression=compression)


def append(house: House, *records: tuple[bytes, bytes | None], partition: int = 0) -> list[ErrorCode]:
    codes: list[ErrorCode] = []
    log_of(house).append(partition, records, codes.append)
    return codes


def stored(partition: Partition) -> list[tuple[BatchHeader, list[Record]]]:
    log = partition.log
    data = log.read(0, 1 << 20, log.log_end_offset, min_one_message=True)
    assert isinstance(data, bytes | bytearray)
    return [(header, list(iter_records(each))) for header, each in iter_batches(memoryview(data))]


def write(house: House, data: bytearray | memoryview) -> None:
    """Append these bytes as one batch."""
    partition = house.replicas.partition(TOPIC, 0)
    house.replicas.append(partition, ProducedBatch(parse_header(data), memoryview(data), NOW_MS), -1, NOW_MS)


def restart(house: House, recorder: Recorder, buffer_size: int = 5 << 20, **clock: Callable[[], float]) -> None:
    house.close()
    house.open()
    listen(house, recorder, buffer_size, **clock)


def stop(house: House, *, delete: bool, epoch: int = 0) -> None:
    state = StopReplicaPartitionState(partition_index=0, leader_epoch=epoch, delete_partition=delete)
    topic = StopReplicaTopicState(topic_name=TOPIC, partition_states=[state])
    house.now(
        house.replicas.stop_replica(StopReplicaRequest(controller_id=0, controller_epoch=1, topic_states=[topic]))
    )


# Appending


def test_an_append_is_one_batch_with_the_brokers_time(house: House) -> None:
    house.lead(TOPIC)
    assert append(house, (b"a", b"1"), (b"b", None)) == [ErrorCode.NONE]
    ((header, records),) = stored(house.replicas.partition(TOPIC, 0))
    assert (header.record_count, header.compression, header.is_transactional) == (2, Compression.NONE, False)
    assert [(each.key, each.value, each.timestamp) for each in records] == [(b"a", b"1", NOW_MS), (b"b", None, NOW_MS)]


def test_records_are_compressed_with_the_given_codec(house: House) -> None:
    house.lead(TOPIC)
    codes: list[ErrorCode] = []
    log_of(house, Compression.GZIP).append(0, [(b"a", b"1")], codes.append)
    ((header, records),) = stored(house.replicas.partition(TOPIC, 0))
    assert (codes, header.compression, records[0].key) == ([0], Compression.GZIP, b"a")


def test_an_append_to_a_partition_that_is_not_led_here_fails(house: House) -> None:
    assert append(house, (b"a", b"1")) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    house.lead(TOPIC, leader=1, replicas=(0, 1), isr=(0, 1))
    assert append(house, (b"a", b"1")) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert append(house, (b"a", b"1"), partition=1) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_batch_larger_than_max_message_bytes_is_refused(house: House) -> None:
    house.configs[TOPIC] = {"max.message.bytes": "200"}
    house.lead(TOPIC)
    assert append(house, (b"a", bytes(200))) == [ErrorCode.MESSAGE_TOO_LARGE]
    assert house.replicas.partition(TOPIC, 0).log.log_end_offset == 0


def test_the_appends_of_a_turn_are_one_batch_in_each_partition(house: House) -> None:
    house.lead(TOPIC, [0, 1])
    log = log_of(house)
    done: list[tuple[str, ErrorCode]] = []
    turn = house.parts.turn
    turn.begin()
    for name, partition in (("a", 0), ("b", 1), ("c", 0)):
        log.append(partition, [(name.encode(), b"1")], lambda code, name=name: done.append((name, code)))  # type: ignore[misc]
    assert (done, house.replicas.partition(TOPIC, 0).log.log_end_offset) == ([], 0)
    turn.end()
    assert done == [("a", 0), ("c", 0), ("b", 0)]
    batches = [stored(house.replicas.partition(TOPIC, each)) for each in (0, 1)]
    assert [[each.key for each in records] for ((_, records),) in batches] == [[b"a", b"c"], [b"b"]]


def test_appends_that_are_too_large_together_are_appended_one_by_one(house: House) -> None:
    house.configs[TOPIC] = {"max.message.bytes": "200"}
    house.lead(TOPIC)
    log = log_of(house)
    codes: list[ErrorCode] = []
    house.parts.turn.begin()
    for size in (100, 200, 100):
        log.append(0, [(b"a", bytes(size))], codes.append)
    house.parts.turn.end()
    assert codes == [0, ErrorCode.MESSAGE_TOO_LARGE, 0]
    assert [len(records) for _, records in stored(house.replicas.partition(TOPIC, 0))] == [1, 1]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_an_append_in_a_transaction_is_a_batch_of_its_producer(house: House, compression: Compression) -> None:
    house.lead(TOPIC)
    codes: list[ErrorCode] = []
    log_of(house, compression).append(0, [(b"a", b"1"), (b"b", b"2")], codes.append, Producer(7, 3, UNVERIFIED))
    ((header, records),) = stored(house.replicas.partition(TOPIC, 0))
    assert codes == [ErrorCode.NONE]
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 0)
    assert (header.is_transactional, header.is_control, header.compression) == (True, False, compression)
    assert [(each.key, each.value, each.timestamp) for each in records] == [(b"a", b"1", NOW_MS), (b"b", b"2", NOW_MS)]


def test_appends_in_transactions_keep_their_place_among_those_of_a_turn(house: House) -> None:
    house.lead(TOPIC)
    log = log_of(house)
    done: list[str] = []
    house.parts.turn.begin()
    producers = {"c": Producer(1, 0, UNVERIFIED), "d": Producer(2, 0, UNVERIFIED), "g": Producer(3, 0, UNVERIFIED)}
    for name in "abcdefg":
        log.append(0, [(name.encode(), b"1")], lambda _, name=name: done.append(name), producers.get(name))  # type: ignore[misc]
    house.parts.turn.end()
    assert done == list("abcdefg")
    batches = stored(house.replicas.partition(TOPIC, 0))
    assert [(header.producer_id, b"".join(each.key or b"" for each in records)) for header, records in batches] == [
        (-1, b"ab"), (1, b"c"), (2, b"d"), (-1, b"ef"), (3, b"g"),
    ]  # fmt: skip


def test_a_marker_in_the_same_turn_follows_the_offsets_of_its_transaction(house: House) -> None:
    house.lead(TOPIC)
    log = log_of(house)
    codes: list[ErrorCode] = []
    house.parts.turn.begin()
    log.append(0, [(b"a", b"1")], codes.append, Producer(1, 0, UNVERIFIED))
    write(house, marker(ControlType.COMMIT, 1))
    house.parts.turn.end()
    assert codes == [ErrorCode.NONE]
    assert [header.is_control for header, _ in stored(house.replicas.partition(TOPIC, 0))] == [False, True]


def test_a_batch_in_a_transaction_that_is_too_large_fails_alone(house: House) -> None:
    house.configs[TOPIC] = {"max.message.bytes": "200"}
    house.lead(TOPIC)
    log = log_of(house)
    codes: list[ErrorCode] = []
    house.parts.turn.begin()
    log.append(0, [(b"a", bytes(100))], codes.append)
    log.append(0, [(b"b", bytes(200))], codes.append, Producer(1, 0, UNVERIFIED))
    log.append(0, [(b"c", bytes(100))], codes.append)
    house.parts.turn.end()
    assert codes == [0, ErrorCode.MESSAGE_TOO_LARGE, 0]
    assert [header.producer_id for header, _ in stored(house.replicas.partition(TOPIC, 0))] == [-1, -1]


async def test_an_append_ends_when_the_replicas_have_it_or_its_timeout_is_over(
    house: House, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    nursery.start_soon(house.clock.run)
    house.lead(TOPIC, replicas=(0, 1), isr=(0, 1))
    codes = append(house, (b"a", b"1"))
    assert codes == []
    await trio.sleep(TIMEOUT_MS / 1000 - 0.1)
    assert codes == []
    await trio.sleep(0.2)
    assert codes == [ErrorCode.REQUEST_TIMED_OUT]
    codes = append(house, (b"a", b"1"))
    house.lead(TOPIC, replicas=(0, 1), isr=(0,), epoch=1)
    assert codes == [ErrorCode.NONE]


# Loading


def test_a_partition_without_records_is_loaded_at_once(house: House, recorder: Recorder) -> None:
    house.lead(TOPIC, [0, 1])
    assert recorder.calls == [("loaded", 0, 0), ("loaded", 1, 0)]
    assert not house.tasks


@pytest.mark.parametrize("buffer_size", [1, 300, 5 << 20])
async def test_all_records_of_a_partition_are_replayed_in_order(
    house: House, recorder: Recorder, buffer_size: int
) -> None:
    house.lead(TOPIC)
    written: Pairs = [(b"%d" % number, None if number % 3 == 0 else bytes(number)) for number in range(50)]
    for first in range(0, 50, 5):
        append(house, *written[first : first + 5])
    restart(house, recorder, buffer_size)
    recorder.calls.clear()
    house.lead(TOPIC, epoch=1)
    assert (recorder.calls, recorder.records) == ([], [])
    await house.run_tasks()
    assert (recorder.records, recorder.offsets) == (written, list(range(50)))
    assert recorder.calls == [("loaded", 0, 1)]


async def test_only_the_last_record_of_a_key_is_replayed(house: House, recorder: Recorder) -> None:
    house.lead(TOPIC)
    append(house, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    append(house, (b"c", b"1"), (b"b", None))
    restart(house, recorder)
    house.lead(TOPIC, epoch=1)
    await house.run_tasks()
    assert recorder.records == [(b"a", b"2"), (b"c", b"1"), (b"b", None)]


async def test_a_loaded_partition_is_not_loaded_again(house: House, recorder: Recorder) -> None:
    house.lead(TOPIC)
    append(house, (b"a", b"1"))
    house.lead(TOPIC, epoch=0)
    await house.run_tasks()
    assert recorder.records == []


def in_transaction(key: bytes, value: bytes, producer_id: int) -> bytearray:
    record = NewRecord(key, value, NOW_MS)
    return build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)


def marker(kind: ControlType, producer_id: int) -> bytearray:
    return build_control_batch(kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=NOW_MS)


@pytest.mark.parametrize("buffer_size", [1, 5 << 20])
async def test_records_of_a_transaction_are_replayed_at_its_commit_marker(
    house: House, recorder: Recorder, buffer_size: int
) -> None:
    house.lead(TOPIC)
    for producer_id, key in enumerate((b"committed", b"aborted", b"open", b"outdone")):
        write(house, in_transaction(key, b"1", producer_id))
    append(house, (b"plain", b"2"), (b"outdone", b"2"))
    for producer_id, kind in ((0, ControlType.COMMIT), (1, ControlType.ABORT), (3, ControlType.COMMIT)):
        write(house, marker(kind, producer_id))
    restart(house, recorder, buffer_size)
    house.lead(TOPIC, epoch=1)
    await house.run_tasks()
    replayed = dict(zip(recorder.offsets, [*recorder.records, *recorder.open], strict=True))
    # In several pieces the shard leaves the earlier record out, by its offset.
    outdone = {3: (b"outdone", b"1")} if buffer_size == 1 else {}
    counted = {4: (b"plain", b"2"), 5: (b"outdone", b"2"), 0: (b"committed", b"1")}
    assert replayed == counted | outdone | {2: (2, b"open", b"1")}


async def test_a_deletion_counts_for_the_records_of_transactions_before_it(house: House, recorder: Recorder) -> None:
    house.lead(TOPIC)
    for producer_id, key in enumerate((b"a", b"b")):
        write(house, in_transaction(key, b"1", producer_id))
    append(house, (b"a", None), (b"b", None))
    write(house, in_transaction(b"b", b"2", 2))
    for producer_id in (0, 2):
        write(house, marker(ControlType.COMMIT, producer_id))
    restart(house, recorder, 1)
    house.lead(TOPIC, epoch=1)
    await house.run_tasks()
    assert (recorder.records, recorder.open) == ([(b"a", None), (b"b", None), (b"b", b"2")], [])


async def test_a_broker_that_leads_no_more_stops_loading(house: House, recorder: Recorder) -> None:
    house.lead(TOPIC)
    append(house, (b"a", b"1"))
    restart(house, recorder)
    recorder.calls.clear()
    house.lead(TOPIC, epoch=1, replicas=(0, 1))
    house.lead(TOPIC, epoch=2, leader=1, replicas=(0, 1))
    await house.run_tasks()
    assert recorder.records == []
    assert recorder.calls == [("unload", 0, 2)]


@pytest.mark.parametrize("delete", [False, True])
async def test_a_stopped_replica_is_unloaded(house: House, recorder: Recorder, delete: bool) -> None:
    house.lead(TOPIC)
    stop(house, delete=delete)
    assert recorder.calls == [("loaded", 0, 0), ("unload", 0, 0)]


async def test_a_partition_that_was_deleted_and_created_again_gets_no_old_records(
    house: House, recorder: Recorder
) -> None:
    house.lead(TOPIC)
    append(house, (b"a", b"1"))
    restart(house, recorder)
    recorder.calls.clear()
    house.lead(TOPIC, epoch=1)
    stop(house, delete=True, epoch=1)
    house.lead(TOPIC, epoch=1, topic_id=b"\2" * 16)
    await house.run_tasks()
    assert recorder.records == []
    assert recorder.calls == [("unload", 0, 1), ("loaded", 0, 1)]


async def test_a_partition_that_cannot_be_loaded_is_unloaded(house: House, recorder: Recorder) -> None:
    house.lead(TOPIC)
    append(house, (b"broken", b"1"))
    restart(house, recorder)
    recorder.calls.clear()
    house.lead(TOPIC, epoch=1)
    await house.run_tasks()
    assert recorder.calls == [("unload", 0, 1)]


async def test_other_tasks_run_while_many_records_are_replayed(house: House, recorder: Recorder) -> None:
    house.lead(TOPIC)
    for first in range(0, 2_000, 100):
        append(house, *((b"%d" % number, b"v") for number in range(first, first + 100)))
    ticks = iter(range(10**9))
    restart(house, recorder, slice_clock=lambda: next(ticks) / 100_000)
    house.lead(TOPIC, epoch=1)
    seen: list[int] = []

    async def look() -> None:
        while len(recorder.records) < 2_000:
            seen.append(len(recorder.records))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        await house.run_tasks()
    # A slice is 100 ticks long, and every record takes one. Trio runs the two tasks of a pass in random order.
    assert max(after - before for before, after in pairwise(seen)) <= 202
