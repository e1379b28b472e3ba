"""Followers catch up no faster than they may, and nobody who is in sync notices."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from ottla.broker.config.throttle import ReplicationQuota
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.watchers import NOTHING
from tests.broker.support.hosted import TOPIC
from tests.broker.support.replication import Cluster, cluster

RATE = 100_000
RECORD = 5000
RECORDS = 400
FOLLOWERS = "follower.replication.throttled.replicas"
LEADERS = "leader.replication.throttled.replicas"
BOTH = pytest.mark.parametrize("side", [LEADERS, FOLLOWERS])


@asynccontextmanager
async def throttled(path: Path, side: str, rate: int = RATE) -> AsyncIterator[Cluster]:
    """A topic whose replicas are all throttled, of which followers fetch one record at a time."""
    async with cluster(path, replica_fetch_max_bytes="1") as made:
        for house in made.houses:
            house.configs[TOPIC] = {side: "*"}
        limit(made, side, rate)
        yield made


def quotas(made: Cluster, side: str) -> list[ReplicationQuota]:
    """Of each broker."""
    return made.follower_quotas if side == FOLLOWERS else [house.leader_quota for house in made.houses]


def limit(made: Cluster, side: str, rate: int) -> None:
    for quota in quotas(made, side):
        quota.bytes_per_second = rate


@BOTH
async def test_a_follower_out_of_sync_catches_up_at_the_rate_that_is_set(
    tmp_path: Path, autojump_clock: MockClock, side: str
) -> None:
    async with throttled(tmp_path, side) as made:
        await made.lead(0, 1, isr=[0])
        made.append(0, *[bytes(RECORD)] * RECORDS)
        leader, follower = made.partition(0).log, made.partition(1).log
        assert leader.size > 20 * RATE
        for second in range(1, 16):
            await trio.sleep(1)
            # What one window may bring too much the next ones make up for.
            assert (second - 2) * RATE < follower.size < (second + 2) * RATE
        # It asked as often as it could be answered something, and otherwise waited.
        assert len(made.fetches()) < 15 * RATE / RECORD + 60
        await trio.sleep(10)
        assert made.files(1) == made.files(0)


@BOTH
async def test_another_rate_holds_as_soon_as_it_is_set(tmp_path: Path, autojump_clock: MockClock, side: str) -> None:
    async with throttled(tmp_path, side, rate=1) as made:
        await made.lead(0, 1, isr=[0])
        made.append(0, *[bytes(RECORD)] * RECORDS)
        await trio.sleep(30)
        follower = made.partition(1).log
        # A window's worth of records may come whole, once in all windows.
        assert follower.log_end_offset <= 4
        limit(made, side, 1 << 40)
        await trio.sleep(2)
        assert follower.log_end_offset == RECORDS


@BOTH
async def test_a_replica_in_sync_is_not_slowed(tmp_path: Path, autojump_clock: MockClock, side: str) -> None:
    async with throttled(tmp_path, side, rate=1) as made:
        await made.lead(0, 1, isr=[0, 1])
        await made.settle()
        for number in range(1, 51):
            made.append(0, bytes(RECORD))
            await trio.sleep(0.1)
            assert made.partition(1).log.log_end_offset == number
        partition = made.partition(0)
        # All but the last one's position is known, and nobody has to leave.
        assert partition.high_watermark >= 49
        assert partition.in_sync.committed == {0, 1}
        assert partition.shrink_isr(made.houses[0].now_ms) == NOTHING
        # What they are sent counts all the same.
        assert quotas(made, side)[side == FOLLOWERS].is_exceeded(1000 * trio.current_time())


async def test_a_throttled_follower_joins_the_in_sync_replicas_when_it_has_caught_up(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with throttled(tmp_path, FOLLOWERS) as made:
        wanted: list[Partition] = []
        made.houses[0].parts.events.isr_proposed.subscribe(wanted.append)
        await made.lead(0, 1, isr=[0])
        made.append(0, *[bytes(RECORD)] * 100)
        await trio.sleep(3)
        assert wanted == []
        await trio.sleep(5)
        assert [partition.in_sync.proposed for partition in wanted] == [frozenset({0, 1})]


@pytest.mark.parametrize("is_exceeded", [True, False])
async def test_a_partition_that_is_not_named_is_neither_held_nor_counted(
    tmp_path: Path, autojump_clock: MockClock, is_exceeded: bool
) -> None:
    async with throttled(tmp_path, FOLLOWERS, rate=1) as made:
        for house in made.houses:
            house.configs[TOPIC] = {FOLLOWERS: "1:1,0:0"}
        quota = made.follower_quotas[1]
        if is_exceeded:
            quota.record(1 << 30, 1000 * trio.current_time())
        await made.lead(0, 1, isr=[0])
        made.append(0, *[bytes(RECORD)] * 100)
        await trio.sleep(2)
        assert made.partition(1).log.log_end_offset == 100
        assert quota.is_exceeded(1000 * trio.current_time()) is is_exceeded
