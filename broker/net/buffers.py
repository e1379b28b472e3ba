"""Receive buffers, and the bound on the bytes of requests that have begun to arrive.

Counterpart in Kafka: MemoryPool.
"""

from typing import Final

import trio

from ottla.wire.framing import FrameBuffer

MAX_FREE_BUFFERS: Final = 8


class RequestMemory:
    """What requests may take, over all connections, that have begun to arrive and are not done.

    Who finds any left gets all that a request needs, so that one that has begun can end. Counterpart: SimpleMemoryPool.
    """

    __slots__ = ("_left", "_waiting")

    def __init__(self, size: int) -> None:
        self._left = size
        self._waiting = trio.lowlevel.ParkingLot()

    async def take(self, size: int) -> None:
        """Wait until there is any left, and take it."""
        while self._left <= 0:
            await self._waiting.park()
        self._left -= size
        if self._left > 0:
            self._waiting.unpark()

    def give_back(self, size: int) -> None:
        """A request is done, or will never be."""
        self._left += size
        if self._left > 0:
            self._waiting.unpark()


class Buffers:
    """Receive buffers that no connection has bytes in: one at rest holds none, even with a few bytes of a frame."""

    __slots__ = ("_free", "_max_frame", "memory")

    def __init__(self, max_frame: int, memory: RequestMemory | None = None) -> None:
        self._max_frame = max_frame
        self.memory = memory
        self._free: list[FrameBuffer] = []

    def take(self, rest: bytes) -> FrameBuffer:
        """A buffer with nothing in it but what was set aside before."""
        buffer = self._free.pop() if self._free else FrameBuffer(self._max_frame)
        if rest:
            buffer.put(rest)
        return buffer

    def give_back(self, buffer: FrameBuffer) -> None:
        """Have an empty buffer used again."""
        if len(self._free) < MAX_FREE_BUFFERS:
            self._free.append(buffer)
