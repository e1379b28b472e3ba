"""Timers that are set, moved and cancelled by key."""

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from ottla.broker.loop.clock import Clock
from ottla.coordinator.timers import Timers


class Watched:
    """Timers, and the times at which they fired."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.timers: Timers[str] = Timers(self.clock.call_later, self.fire)
        self.fired: list[tuple[str, float]] = []
        self.started = trio.current_time()

    def fire(self, key: str) -> None:
        self.fired.append((key, round(trio.current_time() - self.started, 6)))


@pytest.fixture
async def watched(nursery: trio.Nursery) -> Watched:
    watched = Watched()
    nursery.start_soon(watched.clock.run)
    await trio.testing.wait_all_tasks_blocked()
    return watched


async def test_timers_fire_in_their_order(watched: Watched, autojump_clock: MockClock) -> None:
    watched.timers.set("late", 2_000)
    watched.timers.set("early", 1_000)
    await trio.sleep(10)
    assert watched.fired == [("early", 1), ("late", 2)]
    assert not len(watched.timers)


async def test_a_timer_can_be_put_off(watched: Watched, autojump_clock: MockClock) -> None:
    watched.timers.set("heartbeat", 1_000)
    for _ in range(3):
        await trio.sleep(0.9)
        watched.timers.set("heartbeat", 1_000)
    await trio.sleep(10)
    assert watched.fired == [("heartbeat", 3.7)]


async def test_a_timer_can_be_brought_forward(watched: Watched, autojump_clock: MockClock) -> None:
    watched.timers.set("session", 5_000)
    await trio.sleep(1)
    watched.timers.set("session", 1_000)
    await trio.sleep(10)
    assert watched.fired == [("session", 2)]


async def test_a_timer_can_be_brought_forward_and_put_off_again(watched: Watched, autojump_clock: MockClock) -> None:
    for delay_ms in (5_000, 1_000, 6_000):
        watched.timers.set("session", delay_ms)
    await trio.sleep(10)
    assert watched.fired == [("session", 6)]


async def test_a_cancelled_timer_does_not_fire(watched: Watched, autojump_clock: MockClock) -> None:
    watched.timers.set("a", 1_000)
    watched.timers.cancel("a")
    watched.timers.cancel("never set")
    await trio.sleep(10)
    assert watched.fired == []


async def test_a_cancelled_timer_can_be_set_again(watched: Watched, autojump_clock: MockClock) -> None:
    watched.timers.set("a", 1_000)
    watched.timers.cancel("a")
    watched.timers.set("a", 2_000)
    await trio.sleep(10)
    assert watched.fired == [("a", 2)]


async def test_many_timers_can_be_cancelled_at_once(watched: Watched, autojump_clock: MockClock) -> None:
    for key in ("a1", "a2", "b1"):
        watched.timers.set(key, 1_000)
    watched.timers.cancel_all(lambda key: key.startswith("a"))
    await trio.sleep(10)
    assert watched.fired == [("b1", 1)]


async def test_a_timer_that_is_set_again_when_it_fires_fires_again(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    clock = Clock()
    nursery.start_soon(clock.run)
    fired = []

    def fire(key: str) -> None:
        fired.append(key)
        if len(fired) < 3:
            timers.set(key, 1_000)

    timers: Timers[str] = Timers(clock.call_later, fire)
    timers.set("rebalance", 1_000)
    await trio.sleep(10)
    assert len(fired) == 3


async def test_input_that_arrived_in_a_stall_is_handled_before_the_timers(nursery: trio.Nursery) -> None:
    """In real time: a blocked loop reads its sockets before it ends a session."""
    watched = Watched()
    nursery.start_soon(watched.clock.run)
    ours, theirs = trio.socket.socketpair()
    with ours, theirs:
        heard = trio.Event()

        async def listen() -> None:
            await ours.recv(1)
            watched.timers.set("session", 60_000)
            heard.set()

        nursery.start_soon(listen)
        watched.timers.set("session", 20)
        await trio.testing.wait_all_tasks_blocked()
        await theirs.send(b"x")
        end = trio.current_time() + 0.05
        while trio.current_time() < end:
            pass
        await heard.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert watched.fired == []
    nursery.cancel_scope.cancel()
