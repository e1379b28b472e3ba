"""A limit for the rate of work.

Counterpart in Kafka: org.apache.kafka.server.util.ThroughputThrottler.
"""

import math

import trio


class Pace:
    """Counts steps, and waits if they exceed a rate a second. None: no limit; 0: no second step."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._begun = trio.current_time()
        self._steps = 0

    async def step(self) -> None:
        """Count a step, and wait until the next one is due."""
        self._steps += 1
        if self._rate is None:
            return
        due = self._begun + self._steps / self._rate if self._rate else math.inf
        if due > trio.current_time():
            await trio.sleep_until(due)
