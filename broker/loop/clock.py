"""The broker's clock and timers, and `Offload`, the only way to call a blocking function.

Owns the only clock, a heap of timers fired by one task, and the worker threads. Must not know which code sets timers.
Counterparts in Kafka: Time, SystemTimer, KafkaScheduler.
"""

import heapq
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple

import trio

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

logger = logging.getLogger("org.apache.kafka.server.util.KafkaScheduler")

SLICE_SECONDS: Final = 0.001
# Fewer cancelled timers than this are not swept.
_SWEEP_FROM: Final = 1024


class Offload(Protocol):
    """`await offload(function, *args)` calls a blocking function outside the loop; in tests, inline."""

    async def __call__(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        """Return the function's result."""
        ...


class StartSoon(Protocol):
    """Starts a task, as a nursery does."""

    def __call__(self, function: Callable[..., Awaitable[Any]], /, *args: Any) -> None:
        """Start the function as a task."""
        ...


def thread_offload(max_threads: int) -> Offload:
    """Return an Offload on at most `max_threads` threads of trio. A call cannot be cancelled: divide long work."""
    limiter = trio.CapacityLimiter(max_threads)

    async def offload(function: Callable[[*Ts], T], *args: *Ts) -> T:
        return await trio.to_thread.run_sync(function, *args, limiter=limiter)

    return offload


class Slice:
    """A time slice for long work on the loop, which awaits `rest` between its parts."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._end = clock() + SLICE_SECONDS

    async def rest(self) -> None:
        """Yield to other tasks if SLICE_SECONDS have passed since the last time."""
        if self._clock() >= self._end:
            await trio.lowlevel.checkpoint()
            self._end = self._clock() + SLICE_SECONDS


class Timer:
    """A callback that runs at its deadline unless cancelled."""

    __slots__ = ("_clock", "callback", "deadline")

    def __init__(self, clock: "Clock", deadline: float, callback: Callable[[], None]) -> None:
        self._clock = clock
        self.deadline = deadline
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Cancel the callback; no effect after it ran."""
        if self.callback is not None:
            self.callback = None
            self._clock.timer_cancelled()


class Clock:
    """Time of day, monotonic time and timers. Tests simulate the first by `wall_clock`, the others by trio's clock."""

    def __init__(self, wall_clock: Callable[[], float] = time.time) -> None:
        self._wall_clock = wall_clock
        self._heap: list[tuple[float, int, Timer]] = []
        self._cancelled = 0
        self._sequence = 0
        self._sleep: trio.CancelScope | None = None

    def now_ms(self) -> int:
        """Return the milliseconds since 1970, for timestamps that are stored."""
        return int(self._wall_clock() * 1000)

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start."""
        return trio.current_time()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` on the loop once `seconds` have passed; return its timer."""
        deadline = trio.current_time() + seconds
        timer = Timer(self, deadline, callback)
        self._sequence += 1
        heapq.heappush(self._heap, (deadline, self._sequence, timer))
        sleep = self._sleep
        if sleep is not None and deadline < sleep.deadline:
            sleep.deadline = deadline
        return timer

    def timer_cancelled(self) -> None:
        """Count a cancelled timer. Sweep when most are cancelled, because otherwise each stays until its deadline."""
        self._cancelled += 1
        if self._cancelled > _SWEEP_FROM and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].callback is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    async def run(self) -> None:
        """Fire timers until cancelled."""
        while True:
            self._drop_cancelled()
            with trio.CancelScope() as self._sleep:
                self._sleep.deadline = self._heap[0][0] if self._heap else float("inf")
                await trio.sleep_forever()
            due = trio.current_time()
            # Data that arrived during a stall is older than the timers that expired in it. The first checkpoint polls
            # every readable socket; when the second begins, all their tasks have run.
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
            self._fire(due)

    def _drop_cancelled(self) -> None:
        heap = self._heap
        while heap and heap[0][2].callback is None:
            heapq.heappop(heap)
            self._cancelled -= 1

    def _fire(self, due: float) -> None:
        while self._heap and self._heap[0][0] <= due:
            timer = heapq.heappop(self._heap)[2]
            callback, timer.callback = timer.callback, None
            if callback is None:
                self._cancelled -= 1
                continue
            try:
                callback()
            except Exception:
                logger.exception("A timer's callback failed")
