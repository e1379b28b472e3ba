"""A connection's turn on the loop, and the callbacks that run at its end.

Owns the callbacks, by which work that many requests of a turn ask for is done once. Must not know connections, nor what
the callbacks do. No counterpart in Kafka.
"""

from collections.abc import Callable


class Turn:
    """The current turn, if there is one."""

    __slots__ = ("_calls", "is_on")

    def __init__(self) -> None:
        self.is_on = False
        self._calls: list[Callable[[], None]] = []

    def begin(self) -> None:
        """Begin the turn of a connection, which lasts until `end`."""
        self.is_on = True

    def at_end(self, call: Callable[[], None]) -> None:
        """Call back when the turn ends; at once if there is none."""
        if self.is_on:
            self._calls.append(call)
        else:
            call()

    def end(self) -> None:
        """Run the callbacks in order, those that a callback adds too, then end the turn."""
        calls = self._calls
        try:
            while calls:
                calls.pop(0)()
        finally:
            self.is_on = False
