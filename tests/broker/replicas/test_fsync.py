import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from ottla.log.flushing import FlushJob
from ottla.wire.errors import ErrorCode, KafkaError
from tests.broker.replicas.test_manager import DURING_DELETE, append, errors, fetch, stop
from tests.broker.support.hosted import TOPIC, House, inline


@pytest.fixture
def synced(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path, flush_messages="1")
    yield house
    house.close()


async def test_one_fsync_acknowledges_all_waiting_appends(synced: House) -> None:
    synced.lead()
    partition = synced.replicas.partition(TOPIC, 0)
    done: list[list[ErrorCode]] = []
    for acks in (1, -1, 1, -1):
        synced.replicas.await_acks([(partition, append(synced, partition, b"a", acks=acks))], acks, 1000, done.append)
    assert done == []
    assert partition.high_watermark == 0
    await synced.run_tasks()
    assert synced.offloaded == [synced.offloaded[0]]
    assert done == [[ErrorCode.NONE]] * 4
    assert partition.high_watermark == 4
    assert partition.log.recovery_point == 4


async def test_records_appended_during_an_fsync_wait_for_the_next_one(tmp_path: Path) -> None:
    house = House(tmp_path, flush_messages="1")
    house.lead()
    partition = house.replicas.partition(TOPIC, 0)
    marks: list[int] = []

    async def offload(job: object) -> None:
        if len(marks) < 3:
            append(house, partition, b"late")
        marks.append(partition.high_watermark)
        job()  # type: ignore[operator]

    house.worker = offload  # type: ignore[assignment]
    append(house, partition, b"a")
    await house.run_tasks()
    assert marks == [0, 1, 2, 3]
    assert partition.high_watermark == 4
    house.close()


@pytest.mark.parametrize("acks", [1, -1])
async def test_a_few_fsyncs_serve_many_producers(
    synced: House, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, acks: int
) -> None:
    producers, records, fsyncs = 32, 20, 0
    synced.lead()
    synced.starts = nursery.start_soon
    partition = synced.replicas.partition(TOPIC, 0)

    async def offload(job: object) -> None:
        nonlocal fsyncs
        fsyncs += 1
        await trio.sleep(0.005)
        job()  # type: ignore[operator]

    async def produce() -> None:
        for _ in range(records):
            acknowledged = trio.Event()
            required = append(synced, partition, b"a", acks=acks)

            def done(
                errors: list[ErrorCode], required: int = required, acknowledged: trio.Event = acknowledged
            ) -> None:
                assert errors == [ErrorCode.NONE]
                assert partition.log.recovery_point >= required
                acknowledged.set()

            synced.replicas.await_acks([(partition, required)], acks, 1000, done)
            await acknowledged.wait()

    synced.worker = offload  # type: ignore[assignment]
    async with trio.open_nursery() as all_producers:
        for _ in range(producers):
            all_producers.start_soon(produce)
    assert partition.log.log_end_offset == producers * records
    assert fsyncs <= 2 * records


async def test_records_that_a_crash_left_unflushed_are_visible_once_they_are_flushed(synced: House) -> None:
    synced.lead()
    append(synced, synced.replicas.partition(TOPIC, 0), b"a")
    synced.logs.abandon()
    synced.tasks.clear()
    synced.open()
    request = synced.request(epoch=1)
    synced.replicas.become_leader_or_follower(request)
    await synced.run_tasks()
    assert synced.replicas.partition(TOPIC, 0).high_watermark == 1


async def test_records_below_the_number_for_a_flush_are_visible_at_once(tmp_path: Path) -> None:
    house = House(tmp_path, flush_messages="3")
    house.lead()
    partition = house.replicas.partition(TOPIC, 0)
    marks = []
    for _ in range(3):
        append(house, partition, b"a")
        marks.append(partition.high_watermark)
    assert marks == [1, 2, 2]
    await house.run_tasks()
    assert partition.high_watermark == 3
    house.close()


async def test_a_failed_fsync_takes_its_directory_offline(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    synced = House(tmp_path / "a", more=[tmp_path / "b"], flush_messages="1")
    synced.lead(partitions=[0, 1])
    partition = synced.replicas.partition(TOPIC, 0)
    done: list[list[ErrorCode]] = []
    required = append(synced, partition, b"a")
    synced.replicas.await_acks([(partition, required)], 1, 1000, done.append)

    async def broken(job: object) -> None:
        raise OSError(5, os.strerror(5))

    synced.worker = broken  # type: ignore[assignment]
    await synced.run_tasks()
    synced.worker = inline
    assert done == [[ErrorCode.KAFKA_STORAGE_ERROR]]
    with pytest.raises(KafkaError, match="offline"):
        append(synced, partition, b"b")
    assert fetch(synced, 0) == (ErrorCode.KAFKA_STORAGE_ERROR, 0)
    assert errors(synced.lead(epoch=1)) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert stop(synced, epoch=1, delete=True) == [0, ErrorCode.KAFKA_STORAGE_ERROR]
    assert f"Stopped serving replicas in dir {tmp_path / 'a'}" in caplog.text
    append(synced, synced.replicas.partition(TOPIC, 1), b"c")
    await synced.run_tasks()
    assert synced.replicas.partition(TOPIC, 1).log.recovery_point == 1
    synced.close()
    assert synced.replicas.partition(TOPIC, 1).high_watermark == 1


async def test_a_partition_may_be_deleted_during_its_fsync(synced: House) -> None:
    synced.lead()
    partition = synced.replicas.partition(TOPIC, 0)
    append(synced, partition, b"a")

    async def meanwhile(job: object) -> None:
        stop(synced, epoch=DURING_DELETE, delete=True)
        job()  # type: ignore[operator]

    synced.worker = meanwhile  # type: ignore[assignment]
    await synced.run_tasks()
    assert not synced.replicas.partitions


async def test_a_worker_gets_a_job_and_no_log(synced: House) -> None:
    synced.lead()
    append(synced, synced.replicas.partition(TOPIC, 0), b"a")
    await synced.run_tasks()
    assert [function.__self__.__class__ for function in synced.offloaded] == [FlushJob]  # type: ignore[attr-defined]
