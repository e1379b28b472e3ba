"""Which log is cleaned when, and when what came of it counts."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from ottla.broker.upkeep.compaction import Cleaning
from ottla.broker.upkeep.compaction_process import CleanerEnded
from ottla.log.compaction.cleaner import CleaningJob, CorruptLogError, clean
from ottla.log.compaction.process import Outcome
from ottla.log.config import LogConfig
from ottla.log.segments.segment import Segment
from ottla.log.state.checkpoint import CLEANER_OFFSET_FILE, read_offsets, write_offsets
from ottla.wire.records.batch import validate_produced
from ottla.wire.types import TopicPartition
from tests.broker.support.hosted import NOW_MS, TOPIC, House, batch

KEY = TopicPartition(TOPIC, 0)
CONFIG: dict[str, Any] = {
    "log.cleaner.enable": True,
    "log.cleaner.threads": 1,
    "log.cleaner.backoff.ms": 15_000,
    "log.cleaner.dedupe.buffer.size": 1 << 27,
    "log.cleaner.io.buffer.load.factor": 0.9,
    "log.cleaner.io.buffer.size": 1 << 19,
    "log.cleaner.io.max.bytes.per.second": 1e308,
    "log.segment.delete.delay.ms": 60_000,
}
MINUTE = 60


class HereAndNow:
    """Cleans in this process; `before` is called with each outcome before it is told."""

    def __init__(self, before: Callable[[Outcome], None] = lambda outcome: None, at_most: int = 100) -> None:
        self.before = before
        self.at_most = at_most
        self.jobs: list[CleaningJob] = []
        self.closed = 0
        self.outcomes: Iterator[Outcome] = iter(())

    async def begin(self, job: CleaningJob, bytes_per_second: float) -> None:
        if len(self.jobs) == self.at_most:
            await trio.sleep_forever()
        self.jobs.append(job)
        self.outcomes = clean(job, lambda count: None)

    async def outcome(self) -> Outcome:
        await trio.lowlevel.checkpoint()
        outcome = next(self.outcomes)
        self.before(outcome)
        return outcome

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path, cleanup_policy="compact", segment_bytes="400", min_cleanable_dirty_ratio="0.1")
    house.lead(partitions=(0, 1))
    yield house
    house.close()


def append(house: House, count: int, partition: int = 0) -> None:
    """As many batches of the same key, about four of them a segment."""
    found = house.replicas.partition(TOPIC, partition)
    for number in range(count):
        produced = validate_produced(batch(b"%06d" % number), api_version=9, rules=found.rules, now_ms=NOW_MS)
        house.replicas.append(found, produced, 1, NOW_MS)


def cleaning(house: House, worker: HereAndNow, **config: Any) -> Cleaning:
    values = CONFIG | {name.replace("_", "."): value for name, value in config.items()}
    return Cleaning(house.parts, lambda: values, lambda: worker)


def bases(house: House, partition: int = 0) -> list[int]:
    return [segment.base_offset for segment in house.replicas.partition(TOPIC, partition).log.segments]


def checkpoint(house: House) -> dict[TopicPartition, int]:
    return read_offsets(house.path / CLEANER_OFFSET_FILE)


def files(house: House, suffix: str) -> list[str]:
    return sorted(path.name for path in house.path.glob(f"{KEY}/*{suffix}"))


async def test_a_dirty_log_is_cleaned_and_not_again(
    house: House, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kafka.log.LogCleaner")
    append(house, 20)
    worker = HereAndNow()
    active = bases(house)[-1]
    nursery.start_soon(cleaning(house, worker).run)
    await trio.sleep(1)
    log = house.replicas.partition(*KEY).log
    assert [segment.size > 0 for segment in log.segments] == [False, False, True, True]
    assert checkpoint(house) == {KEY: active}
    assert files(house, ".deleted")
    await trio.sleep(10 * MINUTE)
    assert len(worker.jobs) == 1
    assert not files(house, ".deleted")
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "Beginning cleaning of log orders-0"
    assert f"cleaned log orders-0 (dirty section = [0, {active}])" in said[-1]
    append(house, 20)
    await trio.sleep(MINUTE)
    assert [job.first_dirty_offset for job in worker.jobs] == [0, active]
    assert checkpoint(house) == {KEY: bases(house)[-1]}
    nursery.cancel_scope.cancel()


async def test_the_filthiest_log_comes_first(
    house: House, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    append(house, 40)
    house.replicas.partition(TOPIC, 0)
    write_offsets(house.path / CLEANER_OFFSET_FILE, {KEY: bases(house)[3]})
    append(house, 8, partition=1)
    worker = HereAndNow()
    nursery.start_soon(cleaning(house, worker).run)
    await trio.sleep(1)
    assert [Path(job.directory).name for job in worker.jobs] == ["orders-1", "orders-0"]
    nursery.cancel_scope.cancel()


async def test_uncommitted_records_and_logs_that_are_not_compacted_are_not_cleaned(
    house: House, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    append(house, 20)
    partition = house.replicas.partition(*KEY)
    partition.high_watermark = 1
    worker = HereAndNow()
    nursery.start_soon(cleaning(house, worker).run)
    await trio.sleep(MINUTE)
    partition.high_watermark = partition.log.log_end_offset
    config, partition.log.config = partition.log.config, LogConfig(min_cleanable_dirty_ratio=0.1)
    await trio.sleep(MINUTE)
    assert worker.jobs == []
    partition.log.config = config
    await trio.sleep(MINUTE)
    assert len(worker.jobs) == 1
    nursery.cancel_scope.cancel()


def _truncate(house: House) -> None:
    house.replicas.partition(*KEY).log.truncate_to(9)


def _start_later(house: House) -> None:
    segments = house.replicas.partition(*KEY).log.segments
    segments[0].max_timestamp = 0
    house.replicas.partition(*KEY).log.truncate_fully_and_start_at(100)


def _truncate_and_grow(house: House) -> None:
    """The segments are the same ones, but not what is in them."""
    house.replicas.partition(*KEY).log.truncate_to(house.replicas.partition(*KEY).log.segments.active.base_offset)
    append(house, 20)


def _lose_the_oldest(house: House) -> None:
    """As retention does."""
    segments = house.replicas.partition(*KEY).log.segments
    segments.replace(segments[:2], segments[1])


def _compact_no_more(house: House) -> None:
    house.replicas.partition(*KEY).log.config = LogConfig()


def _delete(house: House) -> None:
    del house.replicas.partitions[KEY]
    house.logs.delete(KEY)


def _fail(house: House) -> None:
    house.replicas.partition(*KEY).make_offline()


@pytest.mark.parametrize(
    "change", [_truncate, _truncate_and_grow, _start_later, _lose_the_oldest, _compact_no_more, _delete, _fail]
)
async def test_a_cleaning_of_a_log_that_changes_is_void(
    house: House,
    autojump_clock: trio.testing.MockClock,
    nursery: trio.Nursery,
    change: Callable[[House], None],
) -> None:
    append(house, 20)
    changed: list[list[Segment]] = []
    log = house.replicas.partition(*KEY).log

    def before(outcome: Outcome) -> None:
        # A recovery knows from now on that segments without a batch are no loss.
        assert checkpoint(house) == {KEY: 0}
        if not changed:
            change(house)
            changed.append(list(log.segments))

    worker = HereAndNow(before, at_most=1)
    nursery.start_soon(cleaning(house, worker).run)
    await trio.sleep(1)
    assert len(worker.jobs) == 1
    # These very ones.
    assert list(log.segments) == changed[0]
    assert [each for each in house.replicas.partitions.values() if each.is_offline] == (
        [house.replicas.partition(*KEY)] if change is _fail else []
    )
    assert worker.closed
    assert checkpoint(house).get(KEY, 0) <= log.log_start_offset
    nursery.cancel_scope.cancel()


async def test_a_truncated_log_is_cleaned_again(
    house: House, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    append(house, 20)
    worker = HereAndNow()
    nursery.start_soon(cleaning(house, worker).run)
    await trio.sleep(1)
    _truncate(house)
    append(house, 30)
    await trio.sleep(MINUTE)
    assert [job.first_dirty_offset for job in worker.jobs] == [0, 9]
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("error", [CorruptLogError("bad batch"), CleanerEnded("gone")])
async def test_a_log_that_cannot_be_cleaned_is_left_alone(
    house: House,
    autojump_clock: trio.testing.MockClock,
    nursery: trio.Nursery,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    append(house, 20)
    append(house, 20, partition=1)

    def before(outcome: Outcome) -> None:
        if len(worker.jobs) == 1:
            raise error

    worker = HereAndNow(before)
    nursery.start_soon(cleaning(house, worker).run)
    await trio.sleep(5 * MINUTE)
    assert [Path(job.directory).name for job in worker.jobs] == ["orders-0", "orders-1"]
    assert [tp.partition for tp, offset in checkpoint(house).items() if offset] == [1]
    assert f"Marking its partition (orders-0) as uncleanable: {error}" in caplog.text
    nursery.cancel_scope.cancel()


async def test_a_disk_that_fails_takes_the_partition_offline(
    house: House, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    append(house, 20)

    def before(outcome: Outcome) -> None:
        raise OSError(28, "No space left on device")

    nursery.start_soon(cleaning(house, HereAndNow(before)).run)
    await trio.sleep(1)
    assert house.replicas.partition(*KEY).is_offline
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("noted", "begins"), [(10**6, 0), (-1, 0), (8, 8)])
async def test_an_impossible_checkpoint_is_reset(
    house: House,
    autojump_clock: trio.testing.MockClock,
    nursery: trio.Nursery,
    caplog: pytest.LogCaptureFixture,
    noted: int,
    begins: int,
) -> None:
    append(house, 20)
    write_offsets(house.path / CLEANER_OFFSET_FILE, {KEY: noted, TopicPartition("gone", 0): 5})
    worker = HereAndNow()
    nursery.start_soon(cleaning(house, worker).run)
    await trio.sleep(1)
    assert [job.first_dirty_offset for job in worker.jobs] == [begins]
    assert ("Resetting first dirty offset of orders-0" in caplog.text) == (noted != begins)
    assert checkpoint(house) == {KEY: bases(house)[-1]}
    nursery.cancel_scope.cancel()


async def test_without_cleaner_nothing_is_cleaned(house: House, autojump_clock: trio.testing.MockClock) -> None:
    append(house, 20)
    worker = HereAndNow()
    await cleaning(house, worker, log_cleaner_enable=False).run()
    assert worker.jobs == []


async def test_changed_configs_apply_at_once(
    house: House, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    append(house, 20)
    values = CONFIG | {"log.cleaner.threads": 0}
    worker = HereAndNow()
    cleaner = Cleaning(house.parts, lambda: values, lambda: worker)
    nursery.start_soon(cleaner.run)
    await trio.sleep(10 * MINUTE)
    assert worker.jobs == []
    values["log.cleaner.threads"] = 2
    await cleaner.reconfigured(None)
    await trio.sleep(1)
    assert len(worker.jobs) == 1
    assert worker.jobs[0].buffer_bytes == 1 << 17
    nursery.cancel_scope.cancel()
