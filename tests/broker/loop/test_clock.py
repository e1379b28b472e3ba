"""Timers fire when they are due; after a stall of the loop, data that arrived meanwhile is handled first."""

import socket
import time

import pytest
import trio
import trio.testing

from ottla.broker.loop.clock import Clock, thread_offload


@pytest.fixture
async def clock(nursery: trio.Nursery) -> Clock:
    clock = Clock()
    nursery.start_soon(clock.run)
    await trio.testing.wait_all_tasks_blocked()
    return clock


async def test_timers_fire_in_the_order_of_their_deadlines(
    clock: Clock, autojump_clock: trio.testing.MockClock
) -> None:
    fired: list[tuple[str, float]] = []
    start = clock.monotonic()
    for name, seconds in (("late", 3.0), ("early", 1.0), ("middle", 2.0)):
        clock.call_later(seconds, lambda name=name: fired.append((name, clock.monotonic() - start)))  # type: ignore[misc]

    await trio.sleep(2.5)
    assert fired == [("early", 1.0), ("middle", 2.0)]
    await trio.sleep(1)
    assert fired[2:] == [("late", 3.0)]


async def test_a_timer_set_before_the_clock_runs_fires(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    clock = Clock()
    fired = trio.Event()
    clock.call_later(5, fired.set)
    nursery.start_soon(clock.run)
    with trio.fail_after(6):
        await fired.wait()


async def test_a_cancelled_timer_never_fires_and_others_do(
    clock: Clock, autojump_clock: trio.testing.MockClock
) -> None:
    fired: list[int] = []
    timers = [clock.call_later(1, lambda i=i: fired.append(i)) for i in range(4)]  # type: ignore[misc]
    timers[0].cancel()
    timers[2].cancel()
    timers[2].cancel()
    await trio.sleep(2)
    timers[1].cancel()
    assert fired == [1, 3]


async def test_a_timer_may_set_another_one(clock: Clock, autojump_clock: trio.testing.MockClock) -> None:
    times: list[float] = []
    start = clock.monotonic()

    def again() -> None:
        times.append(clock.monotonic() - start)
        if len(times) < 3:
            clock.call_later(10, again)

    clock.call_later(10, again)
    await trio.sleep(100)
    assert times == [10, 20, 30]


async def test_a_failing_callback_is_logged_and_the_other_timers_fire(
    clock: Clock, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    fired = trio.Event()
    clock.call_later(1, lambda: 1 // 0)  # type: ignore[arg-type]
    clock.call_later(2, fired.set)
    with trio.fail_after(3):
        await fired.wait()
    assert "ZeroDivisionError" in caplog.text


async def test_cancelled_timers_do_not_pile_up(clock: Clock) -> None:
    for _ in range(20_000):
        clock.call_later(30, lambda: None).cancel()
    assert len(clock._heap) < 3_000


async def test_timers_keep_their_order_after_a_sweep(clock: Clock, autojump_clock: trio.testing.MockClock) -> None:
    fired: list[int] = []
    timers = [clock.call_later(5000 - i, lambda i=i: fired.append(i)) for i in range(5000)]  # type: ignore[misc]
    for i, timer in enumerate(timers):
        if i % 1000:
            timer.cancel()
    await trio.sleep(5001)
    assert fired == [4000, 3000, 2000, 1000, 0]


@pytest.mark.trials(few=10, soak=50)
async def test_a_timer_due_in_a_stall_fires_after_the_data_that_arrived_meanwhile(clock: Clock, trials: int) -> None:
    """Guards against a timer that expires a session although its heartbeat lies in the socket."""
    for _ in range(trials):
        events: list[str] = []
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)

            async def reader(ours: socket.socket = ours, events: list[str] = events) -> None:
                await trio.lowlevel.wait_readable(ours)
                events.append("heartbeat")

            async with trio.open_nursery() as nursery:
                nursery.start_soon(reader)
                await trio.testing.wait_all_tasks_blocked()
                expired = trio.Event()
                clock.call_later(0.001, lambda events=events: events.append("expired"))  # type: ignore[misc]
                clock.call_later(0.001, expired.set)
                theirs.send(b"heartbeat")
                stalled_until = time.monotonic() + 0.003
                while time.monotonic() < stalled_until:
                    pass
                await expired.wait()
        assert events == ["heartbeat", "expired"]


@pytest.mark.trials(few=10, soak=50)
async def test_data_that_arrives_in_a_stall_right_before_the_timers_fire_is_handled_first_too(
    clock: Clock, trials: int
) -> None:
    for _ in range(trials):
        events: list[str] = []
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            expired = trio.Event()

            async def reader(ours: socket.socket = ours, events: list[str] = events) -> None:
                await trio.lowlevel.wait_readable(ours)
                events.append("heartbeat")

            async def stall(wake_at: float, theirs: socket.socket = theirs) -> None:
                await trio.sleep_until(wake_at)
                theirs.send(b"heartbeat")
                stalled_until = time.monotonic() + 0.003
                while time.monotonic() < stalled_until:
                    pass

            async with trio.open_nursery() as nursery:
                wake_at = trio.current_time() + 0.002
                nursery.start_soon(reader)
                nursery.start_soon(stall, wake_at)
                await trio.testing.wait_all_tasks_blocked()
                clock.call_later(wake_at - trio.current_time(), lambda: None)
                clock.call_later(wake_at + 0.001 - trio.current_time(), lambda events=events: events.append("expired"))  # type: ignore[misc]
                clock.call_later(wake_at + 0.001 - trio.current_time(), expired.set)
                await expired.wait()
        assert events == ["heartbeat", "expired"]


async def test_the_wall_clock_may_be_simulated(autojump_clock: trio.testing.MockClock) -> None:
    clock = Clock(wall_clock=trio.current_time)
    before = clock.now_ms()
    await trio.sleep(1.5)
    assert clock.now_ms() - before == 1500
    assert abs(Clock().now_ms() - time.time() * 1000) < 1000


async def test_offload_returns_the_result_and_raises_the_error_of_the_function() -> None:
    offload = thread_offload(1)
    assert await offload(int.__add__, 2, 3) == 5
    with pytest.raises(ZeroDivisionError):
        await offload(int.__floordiv__, 1, 0)
