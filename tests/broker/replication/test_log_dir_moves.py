import errno
import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from ottla.broker.config.throttle import ReplicationQuota
from ottla.broker.handlers import alter_replica_log_dirs, describe_log_dirs
from ottla.broker.replication.log_dir_moves import LogDirMoves, align, append
from ottla.log.log import PartitionLog
from ottla.log.segments.open_files import FileRegion
from ottla.log.state.checkpoint import LOG_START_OFFSET_FILE, RECOVERY_POINT_FILE, read_offsets
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.wire.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from ottla.wire.records.batch import iter_records, validate_produced
from ottla.wire.types import TopicPartition
from tests.broker.support.hosted import NOW_MS, TOPIC, House, batch, context
from tests.broker.support.replication import answered, cluster
from tests.broker.upkeep.test_schedule import housekeeping
from tests.log.building import open_log, produced

KEY = TopicPartition(TOPIC, 0)
CONFIG = {"log.segment.delete.delay.ms": 60_000}


class Mover:
    """A house of two directories, `a` and `b`, with its moves."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.quota = ReplicationQuota()
        self.keeper = housekeeping(house, CONFIG)
        self.moves = LogDirMoves(house.replicas, house.parts, self.quota, self.checkpoint)
        for event in (house.parts.events.leading, house.parts.events.following):
            event.subscribe(self.moves.go_on)
        self.meanwhile: Callable[[], None] = lambda: None

    async def checkpoint(self) -> None:
        await self.keeper.checkpoint()
        self.meanwhile()

    def ask(self, path: Path | str, topic: str = TOPIC, index: int = 0) -> int:
        request = AlterReplicaLogDirsRequest(
            dirs=[AlterReplicaLogDir(path=str(path), topics=[AlterReplicaLogDirTopic(name=topic, partitions=[index])])]
        )
        answer = alter_replica_log_dirs.handle(request, context(ApiKey.ALTER_REPLICA_LOG_DIRS, 2), moves=self.moves)
        ((result,),) = [each.partitions for each in answer.results]
        return result.error_code

    def append(self, *values: bytes) -> None:
        for value in values:
            self.append_batch(value)

    def append_batch(self, *values: bytes) -> None:
        partition = self.house.replicas.partition(*KEY)
        valid = validate_produced(batch(*values), api_version=9, rules=partition.rules, now_ms=NOW_MS)
        self.house.replicas.append(partition, valid, 1, NOW_MS)

    @property
    def log(self) -> PartitionLog:
        return self.house.replicas.partition(*KEY).log

    @property
    def values(self) -> list[bytes]:
        return values_of(self.log)

    def described(self) -> list[tuple[str, bool, int]]:
        answer = describe_log_dirs.handle(
            DescribeLogDirsRequest(topics=None),
            context(ApiKey.DESCRIBE_LOG_DIRS, 4),
            logs=self.house.logs,
            replicas=self.house.replicas,
        )
        return [
            (Path(result.log_dir).name, each.is_future_key, each.offset_lag)
            for result in answer.results
            for topic in result.topics
            for each in topic.partitions
        ]


def values_of(log: PartitionLog) -> list[bytes]:
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20, log.log_end_offset, True)
        for record in iter_records(memoryview(data.read() if isinstance(data, FileRegion) else data)):
            if record.offset >= offset:
                found.append(bytes(record.value or b""))
                offset = record.offset + 1
    return found


@asynccontextmanager
async def mover(path: Path, **config: Any) -> AsyncIterator[Mover]:
    house = House(path / "a", more=[path / "b"], **config)
    made = Mover(house)
    house.lead(epoch=3)
    async with trio.open_nursery() as nursery:
        house.starts = nursery.start_soon
        yield made
        nursery.cancel_scope.cancel()
    house.close()


async def test_a_replica_moves_with_all_its_records_and_is_served_from_there(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with mover(tmp_path, segment_bytes="300") as made:
        made.append_batch(*[b"%03d" % number for number in range(5)])
        made.append(*[b"%03d" % number * 10 for number in range(5, 20)])
        made.house.replicas.partition(TOPIC, 0).delete_records(3)
        before = made.values
        known: list[object] = []
        made.meanwhile = lambda: known.append(read_offsets(tmp_path / "b" / LOG_START_OFFSET_FILE))
        assert made.ask(tmp_path / "b") == 0
        made.append(b"meanwhile")
        assert made.described() == [("a", False, 0), ("b", True, 21)]
        await trio.sleep(5)
        assert made.log.directory == tmp_path / "b" / "orders-0"
        assert made.described() == [("b", False, 0)]
        assert made.values == [*before, b"meanwhile"]
        assert made.log.leader_epochs.latest == 3
        made.append(b"more")
        assert made.values[-1] == b"more"
        assert made.house.replicas.partition(*KEY).high_watermark == 22
        # Before it was the log, and since.
        assert known == [{KEY: 3}] * 2
        assert read_offsets(tmp_path / "b" / RECOVERY_POINT_FILE) == {KEY: 21}
        assert read_offsets(tmp_path / "a" / RECOVERY_POINT_FILE) == {}
        (deleted,) = made.house.logs.take_deleted()
        assert deleted.parent == tmp_path / "a"
        # And back.
        assert made.ask(tmp_path / "a") == 0
        await trio.sleep(5)
        assert made.log.directory == tmp_path / "a" / "orders-0"
        assert made.values[-1] == b"more"


async def test_an_empty_replica_moves_too(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with mover(tmp_path) as made:
        assert made.ask(tmp_path / "b") == 0
        await trio.sleep(5)
        assert made.log.directory == tmp_path / "b" / "orders-0"
        made.append(b"first")
        assert made.values == [b"first"]


async def test_a_move_to_the_current_directory_changes_nothing_and_ends_another_move(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with mover(tmp_path) as made:
        made.append(b"a")
        assert made.ask(tmp_path / "a") == 0
        assert made.described() == [("a", False, 0)]
        made.quota.bytes_per_second = 0
        made.quota.record(1, 0)
        assert made.ask(tmp_path / "b") == 0
        assert made.ask(tmp_path / "b") == 0
        await trio.sleep(1)
        made.house.replicas.partition(*KEY).high_watermark = 0
        assert made.described() == [("a", False, 0), ("b", True, 1)]
        assert made.ask(tmp_path / "a") == 0
        assert made.described() == [("a", False, 0)]
        assert [path.parent for path in made.house.logs.take_deleted()] == [tmp_path / "b"]
        made.quota.bytes_per_second = 1 << 40
        await trio.sleep(5)
        assert made.log.directory == tmp_path / "a" / "orders-0"
        assert made.house.logs.preferred == {}


async def test_a_replica_that_is_not_hosted_yet_is_made_in_the_wanted_directory(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with mover(tmp_path) as made:
        assert made.ask(tmp_path / "a", "later", 0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        made.house.tell("later", [0], leader=9)
        assert made.ask(tmp_path / "a", "later", 0) == ErrorCode.REPLICA_NOT_AVAILABLE
        await answered(made.house.replicas.become_leader_or_follower(made.house.request("later", is_new=True)))
        assert made.house.replicas.partition("later", 0).log.directory.parent == tmp_path / "a"
        assert made.house.logs.preferred == {}


async def test_an_impossible_move_is_refused(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with mover(tmp_path) as made:
        assert made.ask("/nowhere") == ErrorCode.LOG_DIR_NOT_FOUND
        assert made.ask(os.path.relpath(tmp_path / "b")) == ErrorCode.LOG_DIR_NOT_FOUND
        assert made.ask(tmp_path / "b", "t" * 230) == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert made.ask(tmp_path / "b", index=-1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        made.house.logs.failures.failed(tmp_path / "b", OSError(errno.EIO, "broken"))
        assert made.ask(tmp_path / "b") == ErrorCode.KAFKA_STORAGE_ERROR
        assert made.ask(tmp_path / "a") == 0
    async with mover(tmp_path / "other") as made:
        made.house.logs.failures.failed(tmp_path / "other" / "a", OSError(errno.EIO, "broken"))
        await trio.sleep(1)
        assert made.ask(tmp_path / "other" / "b") == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_move_is_no_faster_than_its_quota(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with mover(tmp_path, segment_bytes="2000000") as made:
        made.append(*[bytes(500_000)] * 12)
        made.quota.bytes_per_second = 500_000
        assert made.ask(tmp_path / "b") == 0
        await trio.sleep(8)
        assert made.log.directory.parent == tmp_path / "a"
        await trio.sleep(6)
        assert made.log.directory.parent == tmp_path / "b"


async def test_a_move_goes_on_after_a_restart(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with mover(tmp_path) as made:
        made.append(b"a", b"b")
        made.quota.bytes_per_second = 0
        made.quota.record(1, 0)
        assert made.ask(tmp_path / "b") == 0
        await trio.sleep(1)
    async with mover(tmp_path) as made:
        assert made.described() == [("a", False, 0), ("b", True, 2)]
        async with trio.open_nursery() as nursery:
            made.house.starts = nursery.start_soon
            await made.house.run_tasks()
            await trio.sleep(5)
        assert made.log.directory == tmp_path / "b" / "orders-0"
        assert made.values == [b"a", b"b"]


async def test_a_directory_that_fails_ends_the_move_and_nothing_else(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with mover(tmp_path) as made:
        made.append(b"a")
        assert made.ask(tmp_path / "b") == 0

        def fails(*args: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", fails)
            await trio.sleep(5)
        assert made.house.logs.failures.offline == {tmp_path / "b"}
        assert made.house.logs.futures == {}
        made.append(b"b")
        assert made.values == [b"a", b"b"]


async def test_a_deleted_topic_leaves_neither_log(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with mover(tmp_path) as made:
        made.append(b"a")
        made.quota.bytes_per_second = 0
        made.quota.record(1, 0)
        assert made.ask(tmp_path / "b") == 0
        states = [StopReplicaPartitionState(partition_index=0, leader_epoch=4, delete_partition=True)]
        request = StopReplicaRequest(
            controller_id=0,
            controller_epoch=1,
            broker_epoch=-1,
            topic_states=[StopReplicaTopicState(topic_name=TOPIC, partition_states=states)],
        )
        await answered(made.house.replicas.stop_replica(request))
        assert {path.parent for path in made.house.logs.take_deleted()} == {tmp_path / "a", tmp_path / "b"}
        assert (made.house.logs.logs, made.house.logs.futures) == ({}, {})
        await trio.sleep(5)
        assert made.moves._moving == set()


@pytest.mark.once
async def test_records_acknowledged_after_an_fsync_are_on_the_disk_after_a_move(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with mover(tmp_path, flush_messages="1") as made:
        partition = made.house.replicas.partition(*KEY)
        acknowledged: list[list[ErrorCode]] = []
        assert made.ask(tmp_path / "b") == 0
        for number in range(50):
            made.append(b"%d" % number)
            made.house.replicas.await_acks([(partition, number + 1)], 1, 1000, acknowledged.append)
            await trio.lowlevel.checkpoint()
            assert partition.log.recovery_point >= len(acknowledged)
        await trio.sleep(5)
        assert acknowledged == [[ErrorCode.NONE]] * 50
        assert made.log.directory == tmp_path / "b" / "orders-0"


async def test_records_synced_at_the_last_moment_are_synced_in_the_new_log_too(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with mover(tmp_path) as made:
        old = made.log
        points: list[tuple[int, int]] = []

        def meanwhile() -> None:
            points.append((old.recovery_point, made.log.recovery_point))
            if made.log is old:
                made.append(b"late")
                old.flush()

        made.append(b"a")
        made.meanwhile = meanwhile
        assert made.ask(tmp_path / "b") == 0
        await trio.sleep(5)
        assert points == [(0, 0), (2, 2)]
        assert made.log is not old


@pytest.mark.parametrize("moving", [0, 1])
async def test_leaders_and_followers_move_while_records_come_and_leaders_change(
    tmp_path: Path, autojump_clock: MockClock, moving: int
) -> None:
    async with cluster(tmp_path, more=[tmp_path / "more", tmp_path / "even"]) as made:
        house = made.houses[moving]
        moves = Mover(house)
        await made.lead(0, 1)
        made.append(0, b"a", b"b")
        await made.settle()
        moves.quota.bytes_per_second = 0
        moves.quota.record(1, 1000 * trio.current_time())
        assert moves.ask(house.directories[1]) == 0
        # What the new leader does not know has to go, from the future log too.
        made.append(0, b"c")
        moves.quota.bytes_per_second = 1 << 40
        await made.settle()
        assert moves.log.directory.parent == house.directories[1]
        for value in (b"d", b"e"):
            made.append(0, value)
            await made.settle()
        assert made.values(1) == [b"a", b"b", b"c", b"d", b"e"]
        await made.lead(1, 2)
        made.append(1, b"f")
        await made.settle()
        assert made.values(0) == made.values(1) == [b"a", b"b", b"c", b"d", b"e", b"f"]


def copy(source: PartitionLog, future: PartitionLog) -> None:
    """One step of a move."""
    align(source, future)
    if future.log_end_offset < source.log_end_offset:
        region = source.read(future.log_end_offset, 1, source.log_end_offset, True, may_copy=False)
        assert isinstance(region, FileRegion)
        append(future, memoryview(region.read()), NOW_MS)


@pytest.mark.trials(few=10, soak=50)
@pytest.mark.once
def test_the_future_log_follows_every_change_of_the_current_log(tmp_path: Path, trials: int, seed: int) -> None:
    for trial in range(trials):
        chance = random.Random(seed + trial)
        source = open_log(tmp_path / f"{trial}-source", segment_bytes=500)
        future = open_log(tmp_path / f"{trial}-future", segment_bytes=500)
        epoch = 0
        ends = [0]  # of batches
        for number in range(60):
            what = chance.choices(["append", "copy", "truncate", "delete", "start anew"], [6, 6, 1, 1, 0.3])[0]
            end, start = source.log_end_offset, source.log_start_offset
            if what == "append":
                batches = [produced(chance.randint(1, 4), value=b"%d" % number) for _ in range(chance.randint(1, 3))]
                for each in batches:
                    source.append_as_leader(each, epoch, NOW_MS)
                    ends.append(source.log_end_offset)
            elif what == "copy":
                copy(source, future)
            elif what == "truncate":
                # At a start within a batch there is no end of one.
                offset = chance.choice([each for each in ends if start <= each <= end])
                ends = [each for each in ends if each <= offset]
                source.truncate_to(offset)
                epoch += 1
            elif what == "delete":
                source.increment_log_start_offset(chance.randint(start, end))
            else:
                source.truncate_fully_and_start_at(end + chance.randint(0, 5))
                ends = [source.log_end_offset]
                epoch += 1
        for _ in range(200):
            copy(source, future)
        assert future.log_end_offset == source.log_end_offset
        assert future.log_start_offset == source.log_start_offset
        assert values_of(future) == values_of(source)
        source.release()
        future.release()
