"""A connection by which this broker asks another one.

Owns the connection: it is made when there is something to ask, and dropped when an answer is late, wrong or unreadable.
Must not know what is asked, nor who is worth asking again.
Counterparts in Kafka: BrokerBlockingSender, and NetworkClient as RequestSendThread uses it.
"""

import socket
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from ottla.broker.net.transport import Output, SocketTransport, Transport
from ottla.wire.codec import decode_response, encode_request
from ottla.wire.errors import DecodeError, ErrorCode
from ottla.wire.framing import FrameBuffer
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.schema import Request, Response

Where = Callable[[], tuple[str, int] | None]
# Makes a connection: OSError if that cannot be.
Connect = Callable[[str, int], Awaitable[socket.socket]]
# `await offload(function, *args)` calls what blocks.
Offload = Callable[..., Awaitable[Any]]


async def open_socket(host: str, port: int) -> socket.socket:
    """Connect by TCP."""
    stream = await trio.open_tcp_stream(host, port)
    return socket.socket(fileno=stream.socket.detach())


class Peer:
    """A way to one broker for one request at a time. Callers may overlap: they queue."""

    def __init__(
        self,
        where: Where,
        offload: Offload,
        *,
        client_id: str,
        request_timeout_ms: int,
        max_frame: int,
        connect: Connect = open_socket,
    ) -> None:
        """Take where the broker is to be reached, which is looked up for each connection."""
        self._where = where
        self._offload = offload
        self._connect_to = connect
        self._client_id = client_id
        self._timeout_seconds = request_timeout_ms / 1000
        self._max_frame = max_frame
        self._turn = trio.Lock()
        self._transport: Transport | None = None
        self._received = FrameBuffer(max_frame)
        self._correlation_id = 0
        # Of the connection that there is: the lowest and the highest version of each API. Asked for when needed.
        self._understood: dict[int, tuple[int, int]] = {}
        self._is_closed = False

    async def ask(self, request: Request, version: int) -> Response:
        """Return the answer. OSError, and no connection any more, if there is none in time."""
        async with self._turn:
            return await self._in_time(self._exchange, request, version)

    async def ask_newest(self, request: Request, *, lowest: int = 0, highest: int = 0x7FFF) -> Response:
        """As `ask`, in the newest version between the two that both sides understand; OSError if there is none."""
        async with self._turn:
            return await self._in_time(self._exchange_newest, request, lowest, highest)

    async def close(self) -> None:
        """Ask nothing any more. Whoever waits for an answer gets OSError."""
        self._is_closed = True
        await self._drop()

    async def _in_time(self, exchange: Callable[..., Awaitable[Response]], *args: Any) -> Response:
        try:
            with trio.fail_after(self._timeout_seconds):
                await self._connect()
                return await exchange(*args)
        except BaseException as error:
            # The answer may still come, and would be taken for that to the next request.
            await self._drop()
            if isinstance(error, trio.TooSlowError):
                raise TimeoutError(f"no answer within {self._timeout_seconds} s") from None
            if isinstance(error, DecodeError | trio.ClosedResourceError):
                raise ConnectionError(str(error)) from error
            raise

    async def _connect(self) -> None:
        """Have a connection: the one that there is, unless the broker has ended it, or another."""
        if self._transport is not None and not self._is_idle(self._transport):
            await self._drop()
        if self._is_closed:
            raise ConnectionError("closed")
        if self._transport is None:
            where = self._where()
            if where is None:
                raise ConnectionError("nobody knows where the broker is")
            self._transport = await self._open(*where)

    async def _open(self, host: str, port: int) -> Transport:
        try:
            sock = await self._connect_to(host, port)
        except (UnicodeError, OverflowError) as error:
            raise ConnectionError(f"no address: {host}:{port}") from error
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return SocketTransport(sock, self._offload)

    def _is_idle(self, transport: Transport) -> bool:
        """Whether nothing has been received, not even the end. Nothing is owed, so all that comes is wrong."""
        try:
            return transport.receive(self._received) is None and not self._received.take_rest()
        except OSError:
            return False

    async def _exchange(self, request: Request, version: int) -> Response:
        transport = self._transport
        assert transport is not None
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        output = Output()
        output.append([encode_request(version, self._correlation_id, self._client_id, request)])
        await transport.send(output)
        while not self._received.has_frame():
            await transport.readable()
            if transport.receive(self._received) == 0:
                raise ConnectionError("the broker has closed the connection")
        frame = self._received.next_frame()
        assert frame is not None
        correlation_id, response = decode_response(frame, type(request), version)
        if correlation_id != self._correlation_id:
            raise ConnectionError(f"answer {correlation_id} to request {self._correlation_id}")
        return response

    async def _exchange_newest(self, request: Request, lowest: int, highest: int) -> Response:
        if not self._understood:
            # The first version, which needs no second try.
            answer = await self._exchange(ApiVersionsRequest(), 0)
            assert isinstance(answer, ApiVersionsResponse)
            if answer.error_code != ErrorCode.NONE:
                raise ConnectionError(f"ApiVersions is answered with error {answer.error_code}")
            self._understood = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        least, most = self._understood.get(request.api_key, (0, -1))
        common = [each for each in range(max(least, lowest), min(most, highest) + 1) if each in request.versions]
        if not common:
            raise ConnectionError(f"the broker understands no version of {type(request).__name__} that will do")
        return await self._exchange(request, common[-1])

    async def _drop(self) -> None:
        transport, self._transport = self._transport, None
        self._received = FrameBuffer(self._max_frame)
        self._understood = {}
        if transport is not None:
            with trio.CancelScope(shield=True):
                await transport.close(orderly=False)
