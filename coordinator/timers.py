"""Timers by name, which are moved often and fire seldom.

Owns when they are due. Most of them are moved long before that, by every heartbeat: moving one to a later time costs a
look-up and leaves the clock alone. It must not know what they are for. Counterpart in Kafka: DelayedHeartbeat in its
purgatory.
"""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Generic, Protocol, TypeVar

import trio

K = TypeVar("K", bound=Hashable)


class Alarm(Protocol):
    """What a clock gives for a call that is to come."""

    def cancel(self) -> None:
        """Have it not come."""


CallLater = Callable[[float, Callable[[], None]], Alarm]
"""Has something called in so many seconds; what was heard of during a stall comes first."""


class _Timer:
    """When a timer is due, and when its alarm comes: never later."""

    __slots__ = ("alarm", "alarm_time", "deadline")

    def __init__(self, alarm: Alarm, deadline: float) -> None:
        self.alarm = alarm
        self.alarm_time = deadline
        self.deadline = deadline


class Timers(Generic[K]):
    """Timers, each known by its key; `fire` is called with the key of one that is due."""

    def __init__(self, call_later: CallLater, fire: Callable[[K], None]) -> None:
        self._call_later = call_later
        self._fire = fire
        self._timers: dict[K, _Timer] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def set(self, key: K, delay_ms: int) -> None:
        """Have the timer due so long from now, whether it is set already or not."""
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
        """Never fire. Harmless for a timer that is not set."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.alarm.cancel()

    def cancel_all(self, which: Callable[[K], bool]) -> None:
        """Cancel those that `which` says."""
        for key in [each for each in self._timers if which(each)]:
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
