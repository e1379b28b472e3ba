"""Received bytes to whole frames, without copies.

Owns the buffer that a connection receives into, and hands out views of it. A buffer that somebody still views is left
to its viewers and another one is taken. It grows with the bytes that have arrived, never with those that are announced.
Counterpart in Kafka: org.apache.kafka.common.network.NetworkReceive.
"""

import struct

from ottla.wire.errors import DecodeError

_SMALLEST = 80 * 1024
# A larger buffer is left to the frame that needed it.
_LARGEST_KEPT = 1024 * 1024
# Less than this is not worth a system call.
LEAST_ROOM = 4096
_GROWTH = 4


class FrameSizeError(DecodeError):
    """No frame has this size: whoever sent these four bytes speaks something else, or is out of step."""

    def __init__(self, size: int) -> None:
        super().__init__(f"a frame of {size} bytes")
        self.size = size


_unpack_size = struct.Struct(">i").unpack_from


class FrameBuffer:
    """The bytes received on one connection that nobody has taken yet."""

    __slots__ = ("_buffer", "_end", "_max_frame", "_start", "_writable")

    def __init__(self, max_frame: int) -> None:
        self._max_frame = max_frame
        self._buffer = bytearray()
        # What has arrived and was not taken lies from `_start` (inclusive) to `_end` (exclusive).
        self._start = 0
        self._end = 0
        self._writable: memoryview | None = None

    def writable(self) -> memoryview:
        """Where the next bytes may be received; valid until `wrote`."""
        if self._writable is None:
            if self._start == self._end and self._end and not self._is_viewed():
                self._start = self._end = 0
            if len(self._buffer) - self._end < LEAST_ROOM or not self._frame_fits():
                self._make_room()
            self._writable = memoryview(self._buffer)[self._end :]
        return self._writable

    def wrote(self, n: int) -> None:
        """So many bytes have been received into what `writable` gave."""
        if self._writable is not None:
            # A caller may still hold it: released, it does not keep the buffer from being used again.
            self._writable.release()
            self._writable = None
        self._end += n

    def has_frame(self) -> bool:
        """Whether `next_frame` has something to say: a frame, or that there can be none."""
        available = self._end - self._start
        if available < 4:
            return False
        size: int = _unpack_size(self._buffer, self._start)[0]
        return available >= 4 + size or not 0 < size <= self._max_frame

    def peek_api(self) -> bytes:
        """The first two bytes of the next frame, which name its API if it is a request; fewer if they are not here."""
        return bytes(self._buffer[self._start + 4 : min(self._start + 6, self._end)])

    def begun(self) -> int:
        """How large the frame will be of which only a part is here; 0 if nobody knows, or there is none."""
        available = self._end - self._start
        if available < 4:
            return 0
        size: int = _unpack_size(self._buffer, self._start)[0]
        return size if available < 4 + size <= 4 + self._max_frame else 0

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its size. FrameSizeError if the announced size is none that a frame may have."""
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
        """Remove all that is left: the buffer is empty then, and may serve others."""
        rest = bytes(memoryview(self._buffer)[self._start : self._end])
        self._start = self._end
        return rest

    def put(self, data: bytes) -> None:
        """Have it stand before what will be received: less than the least room that there always is."""
        self.writable()[: len(data)] = data
        self.wrote(len(data))

    def _needed(self) -> int:
        """The size of the frame that has begun, with its prefix, as far as it is known."""
        if self._end - self._start < 4:
            return 4
        size: int = _unpack_size(self._buffer, self._start)[0]
        return 4 + min(max(size, 0), self._max_frame)

    def _frame_fits(self) -> bool:
        return self._start + self._needed() <= len(self._buffer)

    def _make_room(self) -> None:
        """Move the rest to the front: of this buffer, or of another if this one is viewed or of the wrong size."""
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
        """The capacity with which a rest of so many bytes can go on."""
        kept = max(len(self._buffer), _SMALLEST)
        needed = self._needed()
        if needed > kept:
            grown = _GROWTH * rest
            # The last step is not a small one: while it is made, the frame is there twice.
            return max(kept, needed if needed <= 2 * grown else grown)
        # Frames that nobody takes may fill it as well.
        return kept if rest < kept else 2 * kept

    def _is_viewed(self) -> bool:
        try:
            # Only a bytearray without views can change its size; so small a change moves no memory.
            self._buffer.append(self._buffer.pop())
        except BufferError:
            return True
        return False
