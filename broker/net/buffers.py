"""Receive buffers, and the bound on the bytes of requests that have arrived in part.

Counterpart in Kafka: MemoryPool.
"""

from typing import Final

import trio

from ottla.wire.framing import FrameBuffer

MAX_FREE_BUFFERS: Final = 8


class RequestMemory:
    """The memory that requests of all connections may hold, from their first bytes to their replies.

    A request takes all that it needs as soon as any is left, because a request that has begun must be able to end.
    Counterpart in Kafka: SimpleMemoryPool.
    """

    __slots__ = ("_left", "_waiting")

    def __init__(self, size: int) -> None:
        self._left = size
        self._waiting = trio.lowlevel.ParkingLot()

    async def take(self, size: int) -> None:
        """Wait until any memory is left, then take `size` bytes, even if fewer are left."""
        while self._left <= 0:
            await self._waiting.park()
        self._left -= size
        if self._left > 0:
            self._waiting.unpark()

    def give_back(self, size: int) -> None:
        """Return the memory of a request that is done or lost."""
        self._left += size
        if self._left > 0:
            self._waiting.unpark()


class Buffers:
    """Empty receive buffers, for all connections. A connection at rest holds none, even with a few bytes of a frame."""

    __slots__ = ("_free", "_max_frame", "memory")

    def __init__(self, max_frame: int, memory: RequestMemory | None = None) -> None:
        self._max_frame = max_frame
        self.memory = memory
        self._free: list[FrameBuffer] = []

    def take(self, rest: bytes) -> FrameBuffer:
        """Return a buffer that holds `rest` and nothing else."""
        buffer = self._free.pop() if self._free else FrameBuffer(self._max_frame)
        if rest:
            buffer.put(rest)
        return buffer

    def give_back(self, buffer: FrameBuffer) -> None:
        """Keep an empty buffer for the next connection, up to MAX_FREE_BUFFERS."""
        if len(self._free) < MAX_FREE_BUFFERS:
            self._free.append(buffer)
