"""Time, timers, and the one way to call what blocks.

Owns the broker's only clock, a heap of timers fired by one task, and `Offload`. Must not know who sets timers.
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
# Below this many, dead timers are not worth a sweep.
_SWEEP_FROM: Final = 1024


class Offload(Protocol):
    """`await offload(function, *args)`: calls what blocks. Tests pass one that calls inline."""

    async def __call__(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        """Return the function's result."""
        ...


class StartSoon(Protocol):
    """Starts a task, as a nursery does."""

    def __call__(self, function: Callable[..., Awaitable[Any]], /, *args: Any) -> None:
        """Run the function some time soon."""
        ...


def thread_offload(max_threads: int) -> Offload:
    """Worker threads of trio's, at most so many at a time. Calls cannot be cancelled: chunk long work."""
    limiter = trio.CapacityLimiter(max_threads)

    async def offload(function: Callable[[*Ts], T], *args: *Ts) -> T:
        return await trio.to_thread.run_sync(function, *args, limiter=limiter)

    return offload


class Slice:
    """Whoever has long work on the loop rests between its parts, and gives the loop away once a millisecond is over."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._end = clock() + SLICE_SECONDS

    async def rest(self) -> None:
        """Let others have the loop, if it is time."""
        if self._clock() >= self._end:
            await trio.lowlevel.checkpoint()
            self._end = self._clock() + SLICE_SECONDS


class Timer:
    """A callback that is due at some time, unless cancelled."""

    __slots__ = ("_clock", "callback", "deadline")

    def __init__(self, clock: "Clock", deadline: float, callback: Callable[[], None]) -> None:
        self._clock = clock
        self.deadline = deadline
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Never fire. Harmless after it fired."""
        if self.callback is not None:
            self.callback = None
            self._clock.timer_cancelled()


class Clock:
    """Time of day, monotonic time, and timers. All of it over trio's clock, so that time can be simulated."""

    def __init__(self, wall_clock: Callable[[], float] = time.time) -> None:
        self._wall_clock = wall_clock
        self._heap: list[tuple[float, int, Timer]] = []
        self._cancelled = 0
        self._sequence = 0
        self._sleep: trio.CancelScope | None = None

    def now_ms(self) -> int:
        """Milliseconds since 1970, for what is written into records."""
        return int(self._wall_clock() * 1000)

    def monotonic(self) -> float:
        """Seconds since some time in the past."""
        return trio.current_time()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Have `callback` called on the loop, not before so many seconds are over."""
        deadline = trio.current_time() + seconds
        timer = Timer(self, deadline, callback)
        self._sequence += 1
        heapq.heappush(self._heap, (deadline, self._sequence, timer))
        sleep = self._sleep
        if sleep is not None and deadline < sleep.deadline:
            sleep.deadline = deadline
        return timer

    def timer_cancelled(self) -> None:
        """Count a dead timer; sweep when most of them are, lest replies that came in time pile up for 30 s each."""
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
            # What came in during a stall is older than the timers that ran out in it. The first pass sees every
            # readable socket, and when the second begins all their tasks have run.
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
