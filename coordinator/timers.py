"""Timers by key, which are moved often and fire seldom.

Owns when they are due. Every heartbeat moves one to a later time: that costs a look-up and does not touch the clock.
Must not know what they are for. Counterpart in Kafka: DelayedHeartbeat in its purgatory.
"""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Generic, Protocol, TypeVar

import trio

K = TypeVar("K", bound=Hashable)


class Alarm(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call."""


CallLater = Callable[[float, Callable[[], None]], Alarm]
"""Schedules a call in so many seconds. After a stall, the input that arrived in it is handled first."""


class _Timer:
    """A timer. Its alarm comes at `alarm_time`, which is never later than its deadline."""

    __slots__ = ("alarm", "alarm_time", "deadline")

    def __init__(self, alarm: Alarm, deadline: float) -> None:
        self.alarm = alarm
        self.alarm_time = deadline
        self.deadline = deadline


class Timers(Generic[K]):
    """Timers by key. `fire` is called with the key of a timer that is due."""

    def __init__(self, call_later: CallLater, fire: Callable[[K], None]) -> None:
        self._call_later = call_later
        self._fire = fire
        self._timers: dict[K, _Timer] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def set(self, key: K, delay_ms: int) -> None:
        """Set a timer, or move one that is set."""
        delay = delay_ms / 1000
        deadline = trio.current_time() + delay
        timer = self._timers.get(key)
        if timer is None:
            self._begin(key, delay, deadline)
        elif timer.alarm_time <= deadline:
            timer.deadline = deadline
        else:
            timer.alarm.cancel()
            self._begin(key, delay, deadline)

    def cancel(self, key: K) -> None:
        """Cancel a timer. Harmless for a timer that is not set."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.alarm.cancel()

    def cancel_all(self, is_cancelled: Callable[[K], bool]) -> None:
        """Cancel the timers for whose keys `is_cancelled` returns true."""
        for key in [each for each in self._timers if is_cancelled(each)]:
            self.cancel(key)

    def _begin(self, key: K, delay: float, deadline: float) -> None:
        self._timers[key] = _Timer(self._call_later(delay, partial(self._alarmed, key)), deadline)

    def _alarmed(self, key: K) -> None:
        deadline = self._timers.pop(key).deadline
        delay = deadline - trio.current_time()
        if delay > 0:
            self._begin(key, delay, deadline)
        else:
            self._fire(key)
