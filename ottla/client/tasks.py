"""Tasks that run beside a block of code and end with it, and what they wait for.

Owns the nursery around the block. Must not know what the tasks do.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def background() -> AsyncIterator[trio.Nursery]:
    """Offer a nursery that is cancelled with the end of the block. An exception of the block is raised as it is."""
    failed: Exception | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield nursery
        except Exception as error:
            # Raised behind the nursery, which would wrap it in a group.
            failed = error
        nursery.cancel_scope.cancel()
    if failed is not None:
        raise failed


class Signal:
    """What happens again and again: any number of tasks wait for the next time."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = trio.Event()

    def notify(self) -> None:
        """Wake all tasks that wait now."""
        event, self._event = self._event, trio.Event()
        event.set()

    async def wait(self) -> None:
        """Wait for the next `notify`."""
        await self._event.wait()


class Latch:
    """What one task has to look at: `set` is remembered until `wait` returns."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = trio.Event()

    def set(self) -> None:
        """Let `wait` return, now or the next time."""
        self._event.set()

    async def wait(self, until: float) -> None:
        """Wait for `set`, or for a time of trio's clock."""
        with trio.move_on_at(until):
            await self._event.wait()
        self._event = trio.Event()
