"""The end of a command by SIGINT or SIGTERM that is to print first what there was so far.

Owns the watch for these signals. Must not know what is printed.
"""

import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

from ottla.client.tasks import background


class Ending:
    """Whether SIGINT or SIGTERM came, and which; made by `ending_by_signal`."""

    def __init__(self) -> None:
        self.signal = 0
        self._scope: trio.CancelScope | None = None

    def come(self, number: int) -> None:
        """Note a signal; what is interruptible ends."""
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
    """Offer an `Ending` for the block; `on_signal` is called with the first signal. A second one cancels the block."""
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
