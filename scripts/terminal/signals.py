"""The end by SIGINT or SIGTERM of a command that prints its results first.

Owns the watch for these signals. Must not know the results.
"""

import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

from ottla.client.tasks import background


class Ending:
    """The signal that came, if any; made by `ending_by_signal`."""

    def __init__(self) -> None:
        self.signal = 0
        self._scope: trio.CancelScope | None = None

    def come(self, number: int) -> None:
        """Note a signal, and cancel the interruptible scopes."""
        self.signal = number
        if self._scope is not None:
            self._scope.cancel()

    def interruptible(self) -> trio.CancelScope:
        """Return a scope that a signal cancels."""
        self._scope = trio.CancelScope()
        if self.signal:
            self._scope.cancel()
        return self._scope


@asynccontextmanager
async def ending_by_signal(on_signal: Callable[[], object] = lambda: None) -> AsyncIterator[Ending]:
    """Yield an `Ending`; the first signal calls `on_signal`, a second one cancels the block."""
    ending = Ending()

    async def watch(task_status: trio.TaskStatus[None]) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            async for number in signals:
                if ending.signal:
                    nursery.cancel_scope.cancel()
                    return
                on_signal()
                ending.come(number)

    async with background() as nursery:
        await nursery.start(watch)
        yield ending
