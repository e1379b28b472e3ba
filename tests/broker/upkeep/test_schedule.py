from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from ottla.broker.upkeep.schedule import Housekeeping
from ottla.log.manager import Renaming, remove_directories
from ottla.log.state.checkpoint import (
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    OffsetsByFile,
    read_offsets,
    write_checkpoints,
)
from ottla.wire.messages.stop_replica import StopReplicaRequest, StopReplicaTopicV1
from ottla.wire.records.batch import validate_produced
from ottla.wire.types import TopicPartition
from tests.broker.support.hosted import NOW_MS, TOPIC, House, batch

NEVER_MS = 0x7FFFFFFFFFFFFFFF
KEY = TopicPartition(TOPIC, 0)
CONFIG = {
    "log.initial.task.delay.ms": 30_000,
    "log.retention.check.interval.ms": 300_000,
    "log.flush.scheduler.interval.ms": NEVER_MS,
    "log.flush.offset.checkpoint.interval.ms": 60_000,
    "log.flush.start.offset.checkpoint.interval.ms": 60_000,
    "replica.high.watermark.checkpoint.interval.ms": 5_000,
    "log.segment.delete.delay.ms": 60_000,
}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path, flush_ms="1000", segment_bytes="300")
    house.lead()
    yield house
    house.close()


def housekeeping(house: House, base: Mapping[str, int] = CONFIG, /, **config: int) -> Housekeeping:
    return Housekeeping(
        house.parts,
        high_watermarks=house.replicas.high_watermarks,
        config=lambda: {**base} | {name.replace("_", "."): value for name, value in config.items()},
    )


def append(house: House, *values: bytes, **options: Any) -> None:
    partition = house.replicas.partition(*KEY)
    records = batch(*values, **options)
    produced = validate_produced(records, api_version=9, rules=partition.rules, now_ms=NOW_MS)
    house.replicas.append(partition, produced, 1, NOW_MS)


async def test_checkpoints_hold_the_offsets_of_the_logs(house: House) -> None:
    keeper = housekeeping(house)
    append(house, b"a", b"b")
    await house.parts.group_commit.flush(KEY)
    house.replicas.partition(*KEY).log.increment_log_start_offset(1)
    await keeper.checkpoint_high_watermarks()
    await keeper.checkpoint_recovery_points()
    await keeper.checkpoint_log_start_offsets()
    assert read_offsets(house.path / HIGH_WATERMARK_FILE) == {KEY: 2}
    assert read_offsets(house.path / RECOVERY_POINT_FILE) == {KEY: 2}
    assert read_offsets(house.path / LOG_START_OFFSET_FILE) == {KEY: 1}


async def test_a_checkpoint_that_did_not_change_is_not_written_again(house: House) -> None:
    keeper = housekeeping(house)
    for values in ([b"a"], [], [], [b"b"]):
        if values:
            append(house, *values)
        await keeper.checkpoint_high_watermarks()
    assert house.offloaded == [write_checkpoints] * 2
    assert read_offsets(house.path / HIGH_WATERMARK_FILE) == {KEY: 2}


async def test_a_checkpoint_that_cannot_be_written_takes_only_its_directory_offline(tmp_path: Path) -> None:
    house = House(tmp_path / "a", more=[tmp_path / "b"])
    house.lead(partitions=[0, 1])
    keeper = housekeeping(house)
    (house.path / (HIGH_WATERMARK_FILE + ".tmp")).mkdir()
    await keeper.checkpoint_high_watermarks()
    await house.run_tasks()
    assert house.logs.failures.offline == {tmp_path / "a"}
    assert read_offsets(tmp_path / "b" / HIGH_WATERMARK_FILE) == {(TOPIC, 1): 0}
    assert [house.replicas.partition(TOPIC, index).is_offline for index in (0, 1)] == [True, False]
    house.close()


async def test_a_rolled_segment_is_flushed_and_the_active_one_is_not(house: House) -> None:
    keeper = housekeeping(house)
    append(house, b"a" * 150)
    await keeper.flush_rolled()
    log = house.replicas.partition(*KEY).log
    assert log.recovery_point == 0
    append(house, b"b" * 150)
    await keeper.flush_rolled()
    assert log.recovery_point == 1
    house.offloaded.clear()
    await keeper.flush_rolled()
    assert house.offloaded == []


async def test_a_log_is_flushed_when_its_last_flush_is_too_long_ago(tmp_path: Path) -> None:
    house = House(tmp_path, flush_ms="1000")
    house.lead()
    keeper = housekeeping(house)
    log = house.replicas.partition(*KEY).log
    append(house, b"a")
    house.now_ms += 999
    await keeper.flush_due()
    assert log.recovery_point == 0
    house.now_ms += 1
    await keeper.flush_due()
    assert log.recovery_point == 1
    append(house, b"b")
    house.now_ms += 500
    await keeper.flush_due()
    assert log.recovery_point == 1
    house.now_ms += 500
    await keeper.flush_due()
    assert log.recovery_point == 2
    house.close()


async def test_the_files_of_a_deleted_topic_are_removed_after_a_delay(
    house: House, autojump_clock: trio.testing.MockClock
) -> None:
    keeper = housekeeping(house, log_segment_delete_delay_ms=7_000)
    request = StopReplicaRequest(
        controller_id=0,
        controller_epoch=1,
        delete_partitions=True,
        topics=[StopReplicaTopicV1(name=TOPIC, partition_indexes=[0])],
    )
    house.now(house.replicas.stop_replica(request))
    assert [path for path in house.path.iterdir() if path.is_dir()] != []
    started = trio.current_time()
    await keeper.remove_deleted()
    assert [path for path in house.path.iterdir() if path.is_dir()] != []
    await house.run_tasks()
    assert trio.current_time() - started == pytest.approx(7)
    assert [path for path in house.path.iterdir() if path.is_dir()] == []
    await keeper.remove_deleted()
    await house.run_tasks()
    assert house.offloaded == [remove_directories]


async def test_producers_that_were_silent_for_a_day_are_forgotten(house: House) -> None:
    day_ms = 86_400_000
    append(house, b"a", timestamp=NOW_MS - day_ms, producer_id=7, producer_epoch=0, base_sequence=0)
    append(house, b"a", timestamp=NOW_MS - day_ms + 1, producer_id=8, producer_epoch=0, base_sequence=0)
    await housekeeping(house).expire_producers()
    assert list(house.replicas.partition(*KEY).log.producers.entries) == [8]


async def test_every_task_runs_when_it_is_due(
    house: House, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    append(house, b"a")
    nursery.start_soon(housekeeping(house).run)
    await trio.sleep(4.9)
    assert not (house.path / HIGH_WATERMARK_FILE).exists()
    await trio.sleep(0.2)
    assert read_offsets(house.path / HIGH_WATERMARK_FILE) == {KEY: 1}
    append(house, b"b")
    await trio.sleep(5)
    assert read_offsets(house.path / HIGH_WATERMARK_FILE) == {KEY: 2}
    assert not (house.path / RECOVERY_POINT_FILE).exists()
    await trio.sleep(19.5)
    assert not (house.path / RECOVERY_POINT_FILE).exists()
    await trio.sleep(1)
    assert read_offsets(house.path / RECOVERY_POINT_FILE) == {KEY: 0}
    await house.parts.group_commit.flush(KEY)
    await trio.sleep(59)
    assert read_offsets(house.path / RECOVERY_POINT_FILE) == {KEY: 0}
    await trio.sleep(1)
    assert read_offsets(house.path / RECOVERY_POINT_FILE) == {KEY: 2}
    nursery.cancel_scope.cancel()


async def test_one_failure_ends_neither_its_task_nor_the_others(
    house: House,
    nursery: trio.Nursery,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    working = house.logs.high_watermarks

    def broken(offsets: object) -> OffsetsByFile:
        raise OSError("out of order")

    monkeypatch.setattr(house.logs, "high_watermarks", broken)
    nursery.start_soon(housekeeping(house).run)
    await trio.sleep(5.1)
    assert "checkpoint_high_watermarks failed, it runs again in 5000 ms: out of order" in caplog.text
    monkeypatch.setattr(house.logs, "high_watermarks", working)
    await trio.sleep(5)
    assert (house.path / HIGH_WATERMARK_FILE).exists()
    nursery.cancel_scope.cancel()


async def test_files_of_deleted_topics_stay_as_long_as_the_delay_is_now(
    house: House, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    config = dict(CONFIG)
    house.logs.delete(KEY)
    house.starts = nursery.start_soon
    gone = house.path / "gone-0.x-delete"
    nursery.start_soon(housekeeping(house, config).run)
    for delay_ms, stays, goes in ((60_000, 59.5, 2), (5_000, 4.9, 2), (0, 0, 1.5)):
        config["log.segment.delete.delay.ms"] = delay_ms
        gone.mkdir()
        house.logs.renamed(Renaming(gone, gone))
        await trio.sleep(stays)
        assert gone.exists()
        await trio.sleep(goes)
        assert not gone.exists()
    nursery.cancel_scope.cancel()


async def test_an_interval_of_zero_means_never(
    house: House, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    config = {"replica_high_watermark_checkpoint_interval_ms": 0, "log_flush_offset_checkpoint_interval_ms": 0}
    nursery.start_soon(housekeeping(house, **config).run)
    await trio.sleep(120)
    assert not (house.path / HIGH_WATERMARK_FILE).exists()
    assert not (house.path / RECOVERY_POINT_FILE).exists()
    nursery.cancel_scope.cancel()
