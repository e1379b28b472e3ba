"""Whether the writes of one log directory are quick enough to be made on the loop.

Owns the answer, from what the writes took and how many appends wait for their turn. Must not know logs, threads or who
waits. Counterpart in Kafka: none, because its appends have threads of their own.
"""

import time
from collections.abc import Callable
from typing import Final

SLOW_SECONDS: Final = 0.005
"""Writes that take longer on average make their directory slow: everybody waits while the loop waits for a disk."""
WRITES: Final = 16
"""So many of the last writes count, so that one of a process that lost its processor for a moment does not."""
QUIET_FACTOR: Final = 10
"""A directory stays slow this many times as long as the slow writes took. So slow writes that come now and then take a
tenth of the loop's time at most."""


class WritePace:
    """`is_slow` is False only while no append waits or is written by a worker thread."""

    __slots__ = ("_average", "_slow_until", "_waiting", "clock", "is_slow")

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.is_slow = False
        self._average = 0.0
        self._slow_until = 0.0
        self._waiting = 0

    def took(self, seconds: float) -> None:
        """Note what a write took."""
        self._average += (seconds - self._average) / WRITES
        if self._average > SLOW_SECONDS:
            self.is_slow = True
            self._slow_until = max(self._slow_until, self.clock() + QUIET_FACTOR * WRITES * self._average)
            # Only what comes from now on can make the time longer.
            self._average = 0.0

    def enter(self) -> None:
        """Note an append that waits for its turn."""
        self._waiting += 1

    def leave(self) -> None:
        """Note that an append that waited is done. The last one ends the slow time, if that is over."""
        self._waiting -= 1
        if not self._waiting and self.clock() >= self._slow_until:
            self.is_slow = False
