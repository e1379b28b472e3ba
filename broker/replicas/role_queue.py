"""The queue of the controller's requests that change what this broker hosts: one request after the other.

Owns the queue, and how long one request may hold the loop. Must not know what a change is.
Counterpart in Kafka: ReplicaManager's replicaStateChangeLock.
"""

import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ottla.broker.loop.clock import Slice, StartSoon
from ottla.broker.loop.deferred import Deferred

R = TypeVar("R")

logger = logging.getLogger("kafka.server.ReplicaManager")


class RoleChanges:
    """The queue, and the task that runs while there are requests in it."""

    def __init__(self, start_soon: StartSoon, slice_clock: Callable[[], float] = time.perf_counter) -> None:
        self._start_soon = start_soon
        self._slice_clock = slice_clock
        self._slice = Slice(slice_clock)
        self._queue: deque[Callable[[], Awaitable[None]]] = deque()

    def add(
        self, change: Callable[[], Awaitable[R]], failed: R, afterwards: Callable[[], Awaitable[None]] | None = None
    ) -> Deferred[R]:
        """Run `change` after all requests before it, and complete with its result, or with `failed` if it raises.

        `afterwards` runs after the reply and before the next request.
        """
        reply: Deferred[R] = Deferred(applied=False)

        async def carry_out() -> None:
            reply.complete(await _outcome(change, failed))
            if afterwards is not None:
                await _outcome(afterwards, None)

        self._queue.append(carry_out)
        if len(self._queue) == 1:
            self._start_soon(self._run)
        return reply

    async def _run(self) -> None:
        while self._queue:
            self._slice = Slice(self._slice_clock)
            try:
                await self._queue[0]()
            finally:
                self._queue.popleft()

    async def rest(self) -> None:
        """Yield to other tasks if this request has used up its slice; called between two partitions."""
        await self._slice.rest()


async def _outcome(change: Callable[[], Awaitable[R]], failed: R) -> R:
    try:
        return await change()
    except Exception:
        logger.exception("A bug: a request of the controller failed, and is answered with an error")
        return failed
