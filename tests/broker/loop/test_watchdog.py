"""A blocked loop is logged with the stack of the blocking code; a busy loop is not."""

import logging
import re
import threading
import time
from collections.abc import Awaitable, Callable

import pytest
import trio

from ottla.broker.loop.watchdog import Watchdog

NAME = "ottla.watchdog"


def block_for(seconds: float) -> None:
    time.sleep(seconds)


def keep_the_interpreter() -> None:
    # Some 0.3 s of C that lets no other thread run.
    sum(range(20_000_000))


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str | None]]:
    return [(each.getMessage(), each.stack_info) for each in caplog.records if each.name == NAME]


def blaming(found: list[tuple[str, str | None]], code: str, beginning: str = "The loop ") -> list[tuple[str, str]]:
    """Lines whose stack shows a piece of code. A busy machine stops this process too, which adds other lines."""
    return [
        (message, stack)
        for message, stack in found
        if stack is not None and code in stack and message.startswith(beginning)
    ]


async def watched(
    task: Callable[[], Awaitable[None]],
    caplog: pytest.LogCaptureFixture,
    ends: int = 0,
    watchdog: Watchdog | None = None,
) -> list[tuple[str, str | None]]:
    """What the watchdog logs while a task runs, and until it has logged the end of `ends` blocks."""
    caplog.set_level(logging.INFO, NAME)
    async with trio.open_nursery() as nursery:
        nursery.start_soon((watchdog or Watchdog()).run)
        await trio.sleep(0.06)
        await task()
        with trio.move_on_after(10):
            while sum(message.startswith("The loop was blocked") for message, _ in logged(caplog)) < ends:
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    return logged(caplog)


async def test_a_block_is_logged_with_its_stack_while_it_lasts_and_with_its_length_afterwards(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logged_meanwhile = []

    async def block() -> None:
        block_for(0.5)
        logged_meanwhile.extend(logged(caplog))

    found = await watched(block, caplog, 1)
    ((message, stack),) = blaming(logged_meanwhile, "in block_for\n    time.sleep(seconds)")
    so_far = re.fullmatch(r"The loop is blocked, for (\d+) ms so far", message)
    assert so_far
    assert int(so_far[1]) >= 50
    assert "unrolled_run" not in stack
    after = [text for text, none in found[found.index((message, stack)) + 1 :] if none is None]
    in_all = re.fullmatch(r"The loop was blocked for (\d+) ms", after[0])
    assert in_all
    assert int(in_all[1]) >= 300


async def test_a_block_that_does_not_end_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    async def block() -> None:
        until = time.perf_counter() + 10
        while not blaming(logged(caplog), "while not blaming") and time.perf_counter() < until:
            pass

    assert blaming(await watched(block, caplog), "while not blaming")


async def test_every_block_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def block() -> None:
        for _ in range(2):
            block_for(0.3)
            await trio.sleep(0.06)

    found = await watched(block, caplog, 2)
    assert len(blaming(found, "block_for(0.3)")) == 2
    assert [message.startswith("The loop was blocked for ") for message, _ in found].count(True) >= 2


async def test_a_block_that_is_logged_only_after_its_end_has_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    thread = threading.current_thread()

    def clock() -> float:
        # For the watchdog's thread no sign is ever late enough to be logged at once.
        now = time.perf_counter()
        if threading.current_thread() is thread:
            return now
        return now if watchdog._asked == float("inf") else min(now, watchdog._asked + 0.049)

    async def block() -> None:
        block_for(0.2)
        assert blaming(logged(caplog), "block_for(0.2)") == []

    watchdog = Watchdog(clock)
    ((message, _),) = blaming(await watched(block, caplog, 1, watchdog), "block_for(0.2)")
    assert re.fullmatch(r"The loop was blocked for \d+ ms", message)


async def test_a_call_that_holds_the_interpreter_is_logged_after_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def block() -> None:
        keep_the_interpreter()
        with trio.move_on_after(10):
            while not blaming(logged(caplog), "in keep_the_interpreter", "The "):
                await trio.sleep(0.01)

    found = blaming(await watched(block, caplog), "in keep_the_interpreter", "The ")
    assert re.fullmatch(r"The (process stood still|loop was blocked) for \d+ ms", found[0][0])


@pytest.mark.parametrize(("tasks", "turns", "seconds"), [(150, 3, 0.001), (1, 100, 0.003)])
async def test_tasks_that_yield_are_not_logged(
    tasks: int, turns: int, seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    longest, last = 0.0, time.perf_counter()

    async def take_turns() -> None:
        nonlocal longest, last
        for _ in range(turns):
            await trio.lowlevel.checkpoint()
            block_for(seconds)
            longest, last = max(longest, time.perf_counter() - last), time.perf_counter()

    async def work() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(tasks):
                nursery.start_soon(take_turns)

    found = await watched(work, caplog)
    # A machine that has no time for this process may make a millisecond a long one.
    assert found == [] or longest > 0.04


async def test_a_watchdog_that_fails_logs_it_and_watches_again(caplog: pytest.LogCaptureFixture) -> None:
    thread = threading.current_thread()
    failures = iter([OSError("no clock"), OSError("no clock again")])

    def clock() -> float:
        if threading.current_thread() is not thread:
            for failure in failures:
                raise failure
        return time.perf_counter()

    async def block() -> None:
        while sum(message.startswith("The watchdog failed") for message, _ in logged(caplog)) < 2:
            await trio.sleep(0.01)
        block_for(0.6)

    found = await watched(block, caplog, 1, Watchdog(clock))
    assert [message for message, _ in found if "failed" in message] == [
        "The watchdog failed; it starts again in 0.1 s",
        "The watchdog failed; it starts again in 0.2 s",
    ]
    assert blaming(found, "block_for(0.6)")
