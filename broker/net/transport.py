"""Sending and receiving the bytes of a connection over its socket.

Owns `Output` (the bytes to send, in order) and `SocketTransport`, which joins small chunks and sends file regions with
`sendfile`. Must not know requests or replies.
Counterparts in Kafka: TransportLayer, NetworkSend, FileRecords.writeTo.
"""

import contextlib
import errno
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import trio

from ottla.broker.loop.clock import Offload
from ottla.wire.codec import Chunk
from ottla.wire.framing import FrameBuffer
from ottla.wire.types import Region

Plain = bytes | bytearray | memoryview
_PLAIN: Final = (bytes, bytearray, memoryview)

# Small chunks are copied together up to this size: a copy costs less than a system call.
_JOIN: Final = 1 << 16
# The most bytes that one call passes to the kernel before other connections get their turn.
_SEND_AT_ONCE: Final = 1 << 21
# The most bytes that a worker thread warms in one call, because a thread cannot be cancelled.
_WARM_AT_ONCE: Final = 1 << 22
_WARM_PIECE: Final = 1 << 18
_DISCARD_PIECE: Final = 1 << 16
# The errors of sendfile that only a disk has, never a socket: the disk fails, or its data are damaged.
_OF_THE_DISK: Final = frozenset({errno.EIO, errno.EBADMSG, errno.EUCLEAN})


class FileBytes(Region, Protocol):
    """A region of a log's file."""

    @property
    def position(self) -> int:
        """The region's first byte in the file."""
        ...

    def fileno(self) -> int:
        """The file's descriptor. It is valid on the loop only, until the next await."""
        ...

    def is_cached(self) -> bool:
        """Whether the whole region can be read without waiting for a disk."""
        ...

    @property
    def failed(self) -> Callable[[OSError], object]:
        """The function to call, on the loop, with the error of a disk that cannot read the region."""
        ...


class Output:
    """The chunks that a connection has yet to send, in order. `size` is the number of bytes."""

    __slots__ = ("_chunks", "sent_of_head", "size", "warm_of_head")

    def __init__(self) -> None:
        self._chunks: list[Chunk] = []
        self.size = 0
        self.sent_of_head = 0
        self.warm_of_head = 0

    def __bool__(self) -> bool:
        return self.size > 0

    def append(self, chunks: Sequence[Chunk]) -> None:
        """Append a reply."""
        for chunk in chunks:
            size = len(chunk)
            if size:
                self._chunks.append(chunk)
                self.size += size

    def head(self) -> Chunk:
        """The first chunk, of which `sent_of_head` bytes are sent. Small chunks that follow are joined to it."""
        chunks = self._chunks
        head = chunks[0]
        if len(chunks) == 1 or self.sent_of_head or not isinstance(head, _PLAIN) or len(head) >= _JOIN:
            return head
        run: list[Plain] = []
        room = _JOIN
        for chunk in chunks:
            room -= len(chunk)
            if room < 0 or not isinstance(chunk, _PLAIN):
                break
            run.append(chunk)
        if len(run) > 1:
            chunks[: len(run)] = [b"".join(run)]
        return chunks[0]

    def sent(self, count: int) -> None:
        """Count `count` bytes of the head as sent."""
        self.size -= count
        self.sent_of_head += count
        if self.sent_of_head == len(self._chunks[0]):
            self._chunks.pop(0)
            self.sent_of_head = 0
            self.warm_of_head = 0


class SocketTransport:
    """A raw non-blocking socket, because a trio stream costs more than a whole request."""

    __slots__ = ("_offload", "_socket")

    def __init__(self, sock: socket.socket, offload: Offload) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._offload = offload

    def readable(self) -> Awaitable[None]:
        """Wait until there are bytes to receive, or their end. Other tasks always run."""
        return trio.lowlevel.wait_readable(self._socket)

    def receive(self, buffer: FrameBuffer) -> int | None:
        """Receive into the buffer's room. Return the number of bytes, 0 at the end, None if there are none yet."""
        try:
            count = self._socket.recv_into(buffer.writable())
        except BlockingIOError:
            return None
        buffer.wrote(count)
        return count

    def send_now(self, output: Output) -> bool:
        """Send without waiting. False: the socket is full, the next bytes are on a disk, or _SEND_AT_ONCE are sent."""
        budget = _SEND_AT_ONCE
        try:
            while output.size:
                if budget <= 0:
                    return False
                head = output.head()
                if isinstance(head, _PLAIN):
                    sent = self._send_plain(head, output)
                else:
                    if not _is_warm(_as_file(head), output):
                        return False
                    sent = self._send_file(_as_file(head), output, budget)
                output.sent(sent)
                budget -= sent
        except BlockingIOError:
            return False
        return True

    def _send_plain(self, head: Plain, output: Output) -> int:
        start = output.sent_of_head
        # With MSG_MORE the head of a Fetch reply waits for its records, instead of waking the client alone.
        flags = socket.MSG_MORE if output.size > len(head) - start else 0
        return self._socket.send(memoryview(head)[start:] if start else head, flags)

    def _send_file(self, region: FileBytes, output: Output, budget: int) -> int:
        start = output.sent_of_head
        count = min(output.warm_of_head - start, budget)
        try:
            sent = os.sendfile(self._socket.fileno(), region.fileno(), region.position + start, count)
        except OSError as error:
            if error.errno in _OF_THE_DISK:
                region.failed(error)
            raise
        if sent == 0:
            raise ConnectionError("the log segment ends before the region that was to be sent")
        return sent

    async def send(self, output: Output) -> None:
        """Send all of the output, also chunks that are appended meanwhile. A slow reader or disk delays only itself."""
        while not self.send_now(output):
            head = output.head()
            if isinstance(head, _PLAIN) or _is_warm(_as_file(head), output):
                await trio.lowlevel.wait_writable(self._socket)
            else:
                await self._warm(_as_file(head), output)

    async def _warm(self, region: FileBytes, output: Output) -> None:
        start = output.warm_of_head
        count = min(len(region) - start, _WARM_AT_ONCE)
        # A copy, because the region's own descriptor may be closed, and its number used again, while the thread runs.
        descriptor = os.dup(region.fileno())
        try:
            await self._offload(_read_through, descriptor, region.position + start, count)
        except OSError as error:
            region.failed(error)
            raise
        finally:
            os.close(descriptor)
        output.warm_of_head = start + count

    async def close(self, *, orderly: bool) -> None:
        """Close the socket. `orderly` first discards unread input, because that would reset the connection."""
        sock = self._socket
        if sock.fileno() < 0:
            return
        if orderly:
            scratch = bytearray(_DISCARD_PIECE)
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_WR)
                for _ in range(64):
                    if not sock.recv_into(scratch):
                        break
        trio.lowlevel.notify_closing(sock)
        sock.close()


def _as_file(chunk: Region) -> FileBytes:
    """The chunk as a FileBytes: a region in a reply can only be one of a log's file."""
    return chunk  # type: ignore[return-value]


def _is_warm(region: FileBytes, output: Output) -> bool:
    if output.warm_of_head > output.sent_of_head:
        return True
    if output.warm_of_head == 0 and region.is_cached():
        output.warm_of_head = len(region)
        return True
    return False


def _read_through(descriptor: int, position: int, count: int) -> None:
    """Read a part of a file, so that the kernel has it in memory."""
    piece = bytearray(min(count, _WARM_PIECE))
    end = position + count
    while position < end:
        got = os.preadv(descriptor, [piece], position)
        if got == 0:
            return
        position += got
