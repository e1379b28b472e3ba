"""Requests from this broker to another one, over one connection.

Owns the connection: made for the first request, dropped when a response is late, wrong or unreadable. Must not know
the requests, nor which of them are worth a retry.
Counterparts in Kafka: BrokerBlockingSender, and NetworkClient as RequestSendThread uses it.
"""

import socket
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from ottla.broker.loop.clock import Offload
from ottla.broker.net.transport import Output, SocketTransport
from ottla.wire.codec import decode_response, encode_request
from ottla.wire.errors import DecodeError, ErrorCode
from ottla.wire.framing import FrameBuffer
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.schema import Request, Response

Where = Callable[[], tuple[str, int] | None]
# Returns a connected socket, or raises OSError.
Connect = Callable[[str, int], Awaitable[socket.socket]]


class NoCommonVersionError(ConnectionError):
    """The other broker understands no version of a request that this broker may send."""


async def open_socket(host: str, port: int) -> socket.socket:
    """Return a socket connected by TCP."""
    stream = await trio.open_tcp_stream(host, port)
    return socket.socket(fileno=stream.socket.detach())


class Peer:
    """One broker, for one request at a time. Further callers queue."""

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
        """`where()` returns the broker's address or None. It is called for each connection."""
        self._where = where
        self._offload = offload
        self._connect_to = connect
        self._client_id = client_id
        self._timeout_seconds = request_timeout_ms / 1000
        self._max_frame = max_frame
        self._turn = trio.Lock()
        self._transport: SocketTransport | None = None
        self._received = FrameBuffer(max_frame)
        self._correlation_id = 0
        # The lowest and highest version of each API that the other broker understands; empty until `ask_newest`.
        self._understood: dict[int, tuple[int, int]] = {}
        self._is_closed = False

    async def ask(self, request: Request, version: int) -> Response:
        """Return the response. Without one in time, drop the connection and raise OSError."""
        async with self._turn:
            return await self._in_time(self._exchange, request, version)

    async def ask_newest(self, request: Request, *, lowest: int = 0, highest: int = 0x7FFF) -> Response:
        """As `ask`, in the newest version from `lowest` to `highest` that both brokers understand."""
        async with self._turn:
            return await self._in_time(self._exchange_newest, request, lowest, highest)

    async def close(self) -> None:
        """Drop the connection for good. Waiting and later callers get OSError."""
        self._is_closed = True
        await self._drop()

    async def _in_time(self, exchange: Callable[..., Awaitable[Response]], *args: Any) -> Response:
        try:
            with trio.fail_after(self._timeout_seconds):
                await self._connect()
                return await exchange(*args)
        except BaseException as error:
            # A late response must not be taken for the response to the next request.
            await self._drop()
            if isinstance(error, trio.TooSlowError):
                raise TimeoutError(f"no answer within {self._timeout_seconds} s") from None
            if isinstance(error, DecodeError | trio.ClosedResourceError):
                raise ConnectionError(str(error)) from error
            raise

    async def _connect(self) -> None:
        """Make a connection, unless there is one that the other broker has not ended."""
        if self._transport is not None and not self._is_idle(self._transport):
            await self._drop()
        if self._is_closed:
            raise ConnectionError("closed")
        if self._transport is None:
            where = self._where()
            if where is None:
                raise ConnectionError("the broker's address is not known")
            self._transport = await self._open(*where)

    async def _open(self, host: str, port: int) -> SocketTransport:
        try:
            sock = await self._connect_to(host, port)
        except (UnicodeError, OverflowError) as error:
            raise ConnectionError(f"no address: {host}:{port}") from error
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return SocketTransport(sock, self._offload)

    def _is_idle(self, transport: SocketTransport) -> bool:
        """Whether nothing was received, not even the end. No response is due, so that any byte is an error."""
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
            # Version 0, because every broker answers it.
            answer = await self._exchange(ApiVersionsRequest(), 0)
            assert isinstance(answer, ApiVersionsResponse)
            if answer.error_code != ErrorCode.NONE:
                raise ConnectionError(f"the broker answered ApiVersions with error {answer.error_code}")
            self._understood = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        least, most = self._understood.get(request.api_key, (0, -1))
        common = [each for each in range(max(least, lowest), min(most, highest) + 1) if each in request.versions]
        if not common:
            raise NoCommonVersionError(
                f"the broker understands no version of {type(request).__name__} that this broker may send"
            )
        return await self._exchange(request, common[-1])

    async def _drop(self) -> None:
        transport, self._transport = self._transport, None
        self._received = FrameBuffer(self._max_frame)
        self._understood = {}
        if transport is not None:
            with trio.CancelScope(shield=True):
                await transport.close(orderly=False)
