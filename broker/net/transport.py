"""How bytes get in and out of a connection.

Owns what is to be sent (`Output`: joined where it is small, by `sendfile` where it lies in a file) and the two ways to
send it: `SocketTransport` over a raw non-blocking socket, and the slower `StreamTransport` over any trio stream. Must
not know requests or replies. Counterparts in Kafka: TransportLayer, NetworkSend, FileRecords.writeTo.
"""

import contextlib
import errno
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

import trio

from ottla.wire.types import Region

Plain = bytes | bytearray | memoryview
Chunk = Plain | Region
_PLAIN: Final = (bytes, bytearray, memoryview)

# `await offload(function, *args)` calls what blocks.
Offload = Callable[..., Awaitable[Any]]

# Small chunks are copied together up to this size: a copy costs less than a system call.
_JOIN: Final = 1 << 16
# What one call may hand to the kernel before other connections get their turn.
_SEND_AT_ONCE: Final = 1 << 21
# A worker thread cannot be cancelled: it warms this much at a time.
_WARM_AT_ONCE: Final = 1 << 22
_WARM_PIECE: Final = 1 << 18
_RECEIVE_FROM_STREAM: Final = 1 << 16
# Of the two that sendfile works on, only the disk has these errors: it fails, or what it holds is damaged.
_OF_THE_DISK: Final = frozenset({errno.EIO, errno.EBADMSG, errno.EUCLEAN})


class FileBytes(Region, Protocol):
    """A region of a file, as the log hands it out."""

    @property
    def position(self) -> int:
        """Where in the file it begins."""
        ...

    def fileno(self) -> int:
        """The file's descriptor; only valid on the loop, until the next await."""
        ...

    def is_cached(self) -> bool:
        """Whether all of it can be read without waiting for a disk."""
        ...

    def reader(self) -> Callable[[], Plain]:
        """Return a function that reads all of it; any thread may call it."""
        ...

    @property
    def failed(self) -> Callable[[OSError], object]:
        """The function to call, on the loop, with the error of a disk that does not give the bytes."""
        ...


class Output:
    """What a connection has yet to send, in order. `size` is the number of bytes."""

    __slots__ = ("_chunks", "sent_of_head", "size", "warm_of_head")

    def __init__(self) -> None:
        self._chunks: list[Chunk] = []
        self.size = 0
        self.sent_of_head = 0
        self.warm_of_head = 0

    def __bool__(self) -> bool:
        return self.size > 0

    def append(self, chunks: Sequence[Chunk]) -> None:
        """Put a reply behind the others."""
        for chunk in chunks:
            size = len(chunk)
            if size:
                self._chunks.append(chunk)
                self.size += size

    def head(self) -> Chunk:
        """The first chunk, of which `sent_of_head` bytes have left; small neighbours are joined to it."""
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
        """So many bytes of the head have left."""
        self.size -= count
        self.sent_of_head += count
        if self.sent_of_head == len(self._chunks[0]):
            self._chunks.pop(0)
            self.sent_of_head = 0
            self.warm_of_head = 0


class Transport(Protocol):
    """Where a connection's bytes come from and go to."""

    def readable(self) -> Awaitable[None]:
        """Wait until there are bytes to receive, or their end; always lets others run."""
        ...

    def receive(self, buffer: "Receiver") -> int | None:
        """Take what is there: the number of bytes, 0 at the end of the stream, None if there is nothing yet."""
        ...

    def send_now(self, output: Output) -> bool:
        """Send what leaves without waiting; whether all did."""
        ...

    async def send(self, output: Output) -> None:
        """Send all of the output, also what is put behind it meanwhile."""
        ...

    async def close(self, *, orderly: bool) -> None:
        """End it. Orderly: what was sent must still arrive."""
        ...


class Receiver(Protocol):
    """The part of a FrameBuffer that a transport needs."""

    def writable(self) -> memoryview:
        """Where received bytes go."""
        ...

    def wrote(self, n: int) -> None:
        """So many were put there."""
        ...


class SocketTransport:
    """A TCP connection without any layer above its socket: a trio stream costs more than a whole request."""

    __slots__ = ("_offload", "_socket")

    def __init__(self, sock: socket.socket, offload: Offload) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._offload = offload

    def readable(self) -> Awaitable[None]:
        """Wait for the socket."""
        return trio.lowlevel.wait_readable(self._socket)

    def receive(self, buffer: Receiver) -> int | None:
        """Take all that clients have pipelined, as far as the buffer has room."""
        try:
            count = self._socket.recv_into(buffer.writable())
        except BlockingIOError:
            return None
        buffer.wrote(count)
        return count

    def send_now(self, output: Output) -> bool:
        """Send what the kernel takes. False: it is full, the next bytes are on a disk, or others must have a turn."""
        budget = _SEND_AT_ONCE
        try:
            while output.size:
                if budget <= 0:
                    return False
                head = output.head()
                if isinstance(head, _PLAIN):
                    sent = self._send_plain(head, output)
                else:
                    if not _is_warm(as_file(head), output):
                        return False
                    sent = self._send_file(as_file(head), output, budget)
                output.sent(sent)
                budget -= sent
        except BlockingIOError:
            return False
        return True

    def _send_plain(self, head: Plain, output: Output) -> int:
        start = output.sent_of_head
        # With MSG_MORE the head of a Fetch reply waits for its records instead of travelling, and waking, alone.
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
            raise ConnectionError("a log segment ended before the region that was promised")
        return sent

    async def send(self, output: Output) -> None:
        """A slow reader holds only itself, as does a slow disk."""
        while not self.send_now(output):
            head = output.head()
            if isinstance(head, _PLAIN) or _is_warm(as_file(head), output):
                await trio.lowlevel.wait_writable(self._socket)
            else:
                await self._warm(as_file(head), output)

    async def _warm(self, region: FileBytes, output: Output) -> None:
        start = output.warm_of_head
        count = min(len(region) - start, _WARM_AT_ONCE)
        # The region's own descriptor may be closed, and its number used again, while the thread runs.
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
        """Close the socket. Unread input would make the kernel take back what was sent, so an orderly end reads it."""
        sock = self._socket
        if sock.fileno() < 0:
            return
        if orderly:
            scratch = bytearray(_RECEIVE_FROM_STREAM)
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_WR)
                for _ in range(64):
                    if not sock.recv_into(scratch):
                        break
        trio.lowlevel.notify_closing(sock)
        sock.close()


class StreamTransport:
    """The same over a trio stream, for TLS and for tests. Nothing leaves without waiting."""

    __slots__ = ("_offload", "_received", "_stream")

    def __init__(self, stream: trio.abc.Stream, offload: Offload) -> None:
        self._stream = stream
        self._offload = offload
        self._received: bytes | bytearray | None = None

    async def readable(self) -> None:
        """Wait for a piece of the stream."""
        self._received = await self._stream.receive_some(_RECEIVE_FROM_STREAM)

    def receive(self, buffer: Receiver) -> int | None:
        """Take the piece."""
        if self._received is None:
            return None
        data, self._received = memoryview(self._received), None
        taken = 0
        while taken < len(data):
            room = buffer.writable()
            count = min(len(room), len(data) - taken)
            room[:count] = data[taken : taken + count]
            buffer.wrote(count)
            taken += count
        return taken

    def send_now(self, output: Output) -> bool:
        """Whether there is nothing to send."""
        return not output

    async def send(self, output: Output) -> None:
        """Send chunk by chunk; what lies in a file is read off the loop, unless it is in memory."""
        while output:
            head = output.head()
            output.sent(len(head))
            await self._stream.send_all(head if isinstance(head, _PLAIN) else await self._read(as_file(head)))

    async def _read(self, region: FileBytes) -> Plain:
        read = region.reader()
        try:
            return read() if region.is_cached() else await self._offload(read)
        except OSError as error:
            region.failed(error)
            raise

    async def close(self, *, orderly: bool) -> None:
        """Close the stream, at once."""
        await trio.aclose_forcefully(self._stream)


def as_file(chunk: Region) -> FileBytes:
    """The region, which can only be the log's."""
    return chunk  # type: ignore[return-value]


def _is_warm(region: FileBytes, output: Output) -> bool:
    if output.warm_of_head > output.sent_of_head:
        return True
    if output.warm_of_head == 0 and region.is_cached():
        output.warm_of_head = len(region)
        return True
    return False


def _read_through(descriptor: int, position: int, count: int) -> None:
    piece = bytearray(min(count, _WARM_PIECE))
    end = position + count
    while position < end:
        got = os.preadv(descriptor, [piece], position)
        if got == 0:
            return
        position += got
