"""Timers by name, all in one heap and one task.

Owns when they are due. Most of them are moved long before that, by every heartbeat: moving one to a later time costs a
look-up and leaves the heap alone. It must not know what they are for. Counterpart in Kafka: SystemTimer.
"""

import heapq
import logging
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

import trio

K = TypeVar("K", bound=Hashable)

logger = logging.getLogger("org.apache.kafka.server.util.timer.SystemTimer")

# Below this many, dead entries are not worth a sweep.
_SWEEP_FROM: Final = 1024


class _Timer:
    """When a timer is due, and where its valid entry in the heap is: never later."""

    __slots__ = ("deadline", "queued")

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.queued = deadline


class Timers(Generic[K]):
    """Timers, each known by its key; `fire` is called with the key of one that is due."""

    def __init__(self, fire: Callable[[K], None]) -> None:
        self._fire = fire
        self._timers: dict[K, _Timer] = {}
        self._heap: list[tuple[float, int, K, _Timer]] = []
        self._sequence = 0
        self._sleep: trio.CancelScope | None = None

    def __len__(self) -> int:
        return len(self._timers)

    def set(self, key: K, delay_ms: int) -> None:
        """Have the timer due so long from now, whether it is set already or not."""
        deadline = trio.current_time() + delay_ms / 1000
        timer = self._timers.get(key)
        if timer is None:
            timer = self._timers[key] = _Timer(deadline)
            self._push(key, timer)
        else:
            timer.deadline = deadline
            if deadline < timer.queued:
                timer.queued = deadline
                self._push(key, timer)

    def cancel(self, key: K) -> None:
        """Never fire. Harmless for a timer that is not set."""
        self._timers.pop(key, None)

    def cancel_all(self, which: Callable[[K], bool]) -> None:
        """Cancel those that `which` says."""
        for key in [each for each in self._timers if which(each)]:
            del self._timers[key]

    async def run(self) -> None:
        """Fire timers until cancelled."""
        while True:
            self._drop_dead()
            with trio.CancelScope() as self._sleep:
                self._sleep.deadline = self._heap[0][0] if self._heap else float("inf")
                await trio.sleep_forever()
            due = trio.current_time()
            # What came in during a stall is older than the timers that ran out in it. The first pass sees every
            # readable socket, and when the second begins all their tasks have run.
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
            self._fire_due(due)

    def _push(self, key: K, timer: _Timer) -> None:
        if len(self._heap) > _SWEEP_FROM and len(self._heap) > 2 * len(self._timers):
            self._heap = [entry for entry in self._heap if self._is_valid(entry)]
            heapq.heapify(self._heap)
        self._sequence += 1
        heapq.heappush(self._heap, (timer.queued, self._sequence, key, timer))
        if self._sleep is not None and timer.queued < self._sleep.deadline:
            self._sleep.deadline = timer.queued

    def _is_valid(self, entry: tuple[float, int, K, _Timer]) -> bool:
        queued, _, key, timer = entry
        return self._timers.get(key) is timer and timer.queued == queued

    def _drop_dead(self) -> None:
        while self._heap and not self._is_valid(self._heap[0]):
            heapq.heappop(self._heap)

    def _fire_due(self, due: float) -> None:
        while self._heap and self._heap[0][0] <= due:
            entry = heapq.heappop(self._heap)
            if not self._is_valid(entry):
                continue
            _, _, key, timer = entry
            if timer.deadline > due:
                timer.queued = timer.deadline
                self._push(key, timer)
                continue
            del self._timers[key]
            try:
                self._fire(key)
            except Exception:
                logger.exception("A timer's callback failed")
