"""Whether a connection has the loop, and what waits for the end of its turn.

Owns nothing but that. Must not know who takes turns, nor what is done when they end: whoever wants to do once for a
whole turn what its requests ask for one by one, asks to be called.
"""

from collections.abc import Callable


class Turn:
    """The present turn, if there is one."""

    __slots__ = ("_calls", "is_on")

    def __init__(self) -> None:
        self.is_on = False
        self._calls: list[Callable[[], None]] = []

    def begin(self) -> None:
        """A connection has the loop until `end`."""
        self.is_on = True

    def at_end(self, call: Callable[[], None]) -> None:
        """Have it called when the turn ends; at once if there is none."""
        if self.is_on:
            self._calls.append(call)
        else:
            call()

    def end(self) -> None:
        """Call those who asked for it, in their order. What they do still belongs to the turn."""
        calls = self._calls
        try:
            while calls:
                calls.pop(0)()
        finally:
            self.is_on = False
