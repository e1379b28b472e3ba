"""Background tasks of a block of code, and the events that tasks wait for.

Owns the nursery around the block. Must not know what the tasks do.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def background() -> AsyncIterator[trio.Nursery]:
    """Yield a nursery that is cancelled at the end of the block. The block's exception is raised ungrouped."""
    failed: Exception | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield nursery
        except Exception as error:
            # Raised after the nursery, because the nursery would wrap it in a group.
            failed = error
        nursery.cancel_scope.cancel()
    if failed is not None:
        raise failed


class Signal:
    """A repeated event: any number of tasks wait for the next `notify`."""

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
    """An event for one task: `set` is remembered until `wait` returns."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = trio.Event()

    def set(self) -> None:
        """Let the current `wait` return, or the next one."""
        self._event.set()

    async def wait(self, until: float) -> None:
        """Wait for `set`, or until a time of trio's clock."""
        with trio.move_on_at(until):
            await self._event.wait()
        self._event = trio.Event()
