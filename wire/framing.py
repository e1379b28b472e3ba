"""Received bytes to whole frames, without copies.

Owns the buffer that a connection receives into. Frames are views of it. A buffer with views is not reused: the
connection takes another one. A buffer grows with the received bytes, not with the announced ones.
Counterpart in Kafka: org.apache.kafka.common.network.NetworkReceive.
"""

import struct

from ottla.wire.errors import DecodeError

_SMALLEST = 80 * 1024
# A larger buffer is not kept after its frame.
_LARGEST_KEPT = 1024 * 1024
# The least room for one receive call.
LEAST_ROOM = 4096
_GROWTH = 4


class FrameSizeError(DecodeError):
    """No frame may have this size: the client uses another protocol, or its stream is out of step."""

    def __init__(self, size: int) -> None:
        super().__init__(f"a frame of {size} bytes")
        self.size = size


_unpack_size = struct.Struct(">i").unpack_from


class FrameBuffer:
    """The bytes of one connection that are received but not taken."""

    __slots__ = ("_buffer", "_end", "_max_frame", "_start", "_writable")

    def __init__(self, max_frame: int) -> None:
        self._max_frame = max_frame
        self._buffer = bytearray()
        # The received bytes that are not taken are from `_start` (inclusive) to `_end` (exclusive).
        self._start = 0
        self._end = 0
        self._writable: memoryview | None = None

    def writable(self) -> memoryview:
        """Return the room for the next bytes; valid until `wrote`."""
        if self._writable is None:
            if self._start == self._end and self._end and not self._is_viewed():
                self._start = self._end = 0
            if len(self._buffer) - self._end < LEAST_ROOM or not self._frame_fits():
                self._make_room()
            self._writable = memoryview(self._buffer)[self._end :]
        return self._writable

    def wrote(self, n: int) -> None:
        """Add `n` bytes that were received into `writable()`."""
        if self._writable is not None:
            # The caller may still hold the view; a released view does not prevent reuse of the buffer.
            self._writable.release()
            self._writable = None
        self._end += n

    def has_frame(self) -> bool:
        """Return whether `next_frame` returns a frame or raises FrameSizeError."""
        available = self._end - self._start
        if available < 4:
            return False
        size: int = _unpack_size(self._buffer, self._start)[0]
        return available >= 4 + size or not 0 < size <= self._max_frame

    def peek_api(self) -> bytes:
        """Return the received part of the next frame's first two bytes, a request's API key."""
        return bytes(self._buffer[self._start + 4 : min(self._start + 6, self._end)])

    def begun(self) -> int:
        """Return the size of the frame of which only a part is received; 0 if it is unknown, or there is none."""
        available = self._end - self._start
        if available < 4:
            return 0
        size: int = _unpack_size(self._buffer, self._start)[0]
        return size if available < 4 + size <= 4 + self._max_frame else 0

    def next_frame(self) -> memoryview | None:
        """Return the next whole frame without its size prefix, or None. FrameSizeError: no frame may have its size."""
        start = self._start
        available = self._end - start
        if available < 4:
            return None
        size: int = _unpack_size(self._buffer, start)[0]
        if not 0 < size <= self._max_frame:
            raise FrameSizeError(size)
        if available < 4 + size:
            return None
        self._start = start + 4 + size
        frame = memoryview(self._buffer)[start + 4 : start + 4 + size]
        if self._start == self._end and len(self._buffer) > _LARGEST_KEPT and self._writable is None:
            self._buffer = bytearray()
            self._start = self._end = 0
        return frame

    def take_rest(self) -> bytes:
        """Remove and return all bytes."""
        rest = bytes(memoryview(self._buffer)[self._start : self._end])
        self._start = self._end
        return rest

    def put(self, data: bytes) -> None:
        """Insert at most LEAST_ROOM bytes before the next received ones."""
        self.writable()[: len(data)] = data
        self.wrote(len(data))

    def _needed(self) -> int:
        """Return the size of the next frame with its prefix, as far as it is known."""
        if self._end - self._start < 4:
            return 4
        size: int = _unpack_size(self._buffer, self._start)[0]
        return 4 + min(max(size, 0), self._max_frame)

    def _frame_fits(self) -> bool:
        return self._start + self._needed() <= len(self._buffer)

    def _make_room(self) -> None:
        """Move the rest to the front of this buffer, or of a new one if this one has views or the wrong size."""
        rest = self._end - self._start
        capacity = self._capacity(rest)
        if capacity != len(self._buffer) or self._is_viewed():
            fresh = bytearray(capacity)
            fresh[:rest] = memoryview(self._buffer)[self._start : self._end]
            self._buffer = fresh
        elif self._start:
            self._buffer[:rest] = self._buffer[self._start : self._end]
        self._start = 0
        self._end = rest

    def _capacity(self, rest: int) -> int:
        """Return the capacity of a buffer that begins with `rest` bytes."""
        kept = max(len(self._buffer), _SMALLEST)
        needed = self._needed()
        if needed > kept:
            grown = _GROWTH * rest
            # The last step may be twice the usual one, because each step holds the frame's bytes twice.
            return max(kept, needed if needed <= 2 * grown else grown)
        # Whole frames that are not taken yet may fill it as well.
        return kept if rest < kept else 2 * kept

    def _is_viewed(self) -> bool:
        try:
            # Only a bytearray without views can change its size; a change by one byte moves no memory.
            self._buffer.append(self._buffer.pop())
        except BufferError:
            return True
        return False
