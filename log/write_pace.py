"""Whether the writes of one log directory are quick enough for the loop.

Owns the decision, from the seconds of the last writes and the number of waiting appends. Must not know logs or threads.
Counterpart in Kafka: none, because its appends have threads of their own.
"""

import time
from collections.abc import Callable
from typing import Final

SLOW_SECONDS: Final = 0.005
"""A directory is slow if its writes take longer on average, because all clients wait while the loop writes."""
WRITES: Final = 16
"""How many writes the average spans, so that one write that lost its processor does not make the directory slow."""
QUIET_FACTOR: Final = 10
"""A directory stays slow this many times as long as the slow writes took. So slow writes that come now and then take
at most a tenth of the loop's time."""


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
        """Note how many seconds a write took."""
        self._average += (seconds - self._average) / WRITES
        if self._average > SLOW_SECONDS:
            self.is_slow = True
            self._slow_until = max(self._slow_until, self.clock() + QUIET_FACTOR * WRITES * self._average)
            # Only later writes can extend the slow time.
            self._average = 0.0

    def enter(self) -> None:
        """Note an append that waits for its turn."""
        self._waiting += 1

    def leave(self) -> None:
        """Note that a waiting append is done. The last one clears `is_slow`, if the slow time is over."""
        self._waiting -= 1
        if not self._waiting and self.clock() >= self._slow_until:
            self.is_slow = False
