"""The records that a throttled leader sends to its followers."""

import pytest
import trio
from trio.testing import MockClock

from ottla.broker.loop.deferred import Deferred
from tests.broker.handlers.fetching import (
    IDS,
    NEW_SESSION,
    Answer,
    Session,
    append,
    now,
    position,
    request,
    send,
    told,
    topic,
    values,
    waits,
)
from tests.broker.support.hosted import House
from tests.broker.support.replication import answered

NAME = "two"
FOLLOWER = 1
LEADERS = "leader.replication.throttled.replicas"
SIZE = 1200
RATE = 1000


@pytest.fixture
async def leader(running: House) -> House:
    """A leader whose follower is out of sync, and who has used up its rate for now."""
    running.configs[NAME] = {LEADERS: "0:0"}
    running.lead(NAME, partitions=[0, 1], replicas=[0, FOLLOWER], isr=[0])
    running.leader_quota.bytes_per_second = RATE
    append(running, bytes(SIZE), name=NAME)
    append(running, bytes(SIZE), name=NAME)
    return running


def follow(house: House, offset: int, *, index: int = 0, session: Session = (0, -1), max_wait_ms: int = 500) -> Answer:
    asked = request(
        topic(NAME, position(index, offset)), session=session, replica_id=FOLLOWER, max_wait_ms=max_wait_ms, max_bytes=1
    )
    return send(house, asked, IDS)


def got(answer: Answer) -> list[bytes | None]:
    response = answer.response if isinstance(answer, Deferred) else answer
    return [value for data in told(response) for value in values(data)]


async def test_more_than_the_rate_has_to_wait_and_does_not_spin(leader: House, autojump_clock: MockClock) -> None:
    assert got(follow(leader, 0)) == [bytes(SIZE)]
    began, asked = trio.current_time(), 0
    while True:
        asked += 1
        held = follow(leader, 1)
        assert isinstance(held, Deferred)
        await answered(held)
        if got(held):
            break
    # The batch takes more than a second: the third wait of half a one brings more.
    assert asked == 3
    assert trio.current_time() - began == pytest.approx(1.5, abs=0.01)


async def test_a_held_fetch_updates_the_followers_offset_and_returns_the_high_watermark(
    leader: House, autojump_clock: MockClock
) -> None:
    follow(leader, 0)
    held = follow(leader, 1)
    assert isinstance(held, Deferred)
    await answered(held)
    (data,) = told(held.response)
    assert (data.error_code, data.high_watermark, values(data)) == (0, 2, [])
    replica = leader.replicas.partition(NAME, 0).followers[FOLLOWER]
    assert replica.log_end_offset == 1


async def test_records_appended_meanwhile_do_not_end_the_wait(leader: House, autojump_clock: MockClock) -> None:
    follow(leader, 0)
    held = follow(leader, 1)
    append(leader, b"more", name=NAME)
    assert isinstance(held, Deferred)
    assert not held.done


async def test_a_session_gets_held_records_when_the_rate_allows(leader: House, autojump_clock: MockClock) -> None:
    response = follow(leader, 0, session=NEW_SESSION)
    assert not isinstance(response, Deferred)
    held = follow(leader, 1, session=(response.session_id, 1))
    assert isinstance(held, Deferred)
    leader.leader_quota.bytes_per_second = 1 << 40
    await answered(held)
    assert got(held) == [bytes(SIZE)]


async def test_a_follower_in_sync_is_never_held_and_counts(leader: House, autojump_clock: MockClock) -> None:
    leader.lead(NAME, partitions=[0], replicas=[0, FOLLOWER], isr=[0, FOLLOWER], epoch=1)
    assert got(follow(leader, 0)) == got(follow(leader, 1)) == [bytes(SIZE)]
    assert leader.leader_quota.is_exceeded(1000 * trio.current_time())


async def test_partitions_that_are_not_named_are_neither_held_nor_counted(
    leader: House, autojump_clock: MockClock
) -> None:
    append(leader, bytes(SIZE), name=NAME, index=1)
    for _ in range(2):
        assert got(follow(leader, 0, index=1)) == [bytes(SIZE)]
    assert not leader.leader_quota.is_exceeded(1000 * trio.current_time())


async def test_a_partition_that_is_held_leaves_room_for_others(leader: House, autojump_clock: MockClock) -> None:
    append(leader, b"other", name=NAME, index=1)
    follow(leader, 0)
    asked = request(topic(NAME, position(0, 1), position(1, 0)), replica_id=FOLLOWER, max_bytes=1)
    assert [values(data) for data in told(now(leader, asked, IDS))] == [[], [b"other"]]


async def test_consumers_are_neither_counted_nor_held(leader: House, autojump_clock: MockClock) -> None:
    asked = request(topic(NAME, position(0, 0)))
    for _ in range(5):
        assert len(values(told(now(leader, asked))[0])) == 2
    assert not leader.leader_quota.is_exceeded(1000 * trio.current_time())
    follow(leader, 0)
    assert leader.leader_quota.is_exceeded(1000 * trio.current_time())
    assert len(values(told(now(leader, asked))[0])) == 2


async def test_a_topic_that_is_throttled_no_more_goes_on_at_once(leader: House, autojump_clock: MockClock) -> None:
    follow(leader, 0)
    leader.configs[NAME] = {LEADERS: "0:1,1:0"}
    leader.replicas.reconfigure(NAME)
    assert got(follow(leader, 1)) == [bytes(SIZE)]


async def test_a_follower_that_waits_in_vain_stays_out_of_sync_and_no_member_is_lost(
    leader: House, autojump_clock: MockClock
) -> None:
    follow(leader, 0)
    leader.now_ms += 60_000
    held = waits(leader, request(topic(NAME, position(0, 1)), replica_id=FOLLOWER), 11)
    await answered(held)
    partition = leader.replicas.partition(NAME, 0)
    assert partition.in_sync.committed == {0}
    assert not partition.in_sync.is_changing
    assert partition.shrink_isr(leader.now_ms) == 0
