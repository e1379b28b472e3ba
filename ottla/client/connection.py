"""One connection to a broker: TLS, SASL, versions, and requests whose responses come in request order.

Owns the stream and the pending requests. Must not know which broker to ask, nor when to retry.
Counterparts in Kafka: NetworkClient, SaslClientAuthenticator.
"""

import os
import socket
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import trio

from ottla.client import errors
from ottla.client.config import ClientConfig
from ottla.client.sasl import Mechanism, SaslError
from ottla.client.security import Security
from ottla.wire.api_keys import ApiKey
from ottla.wire.codec import decode_response, encode_request
from ottla.wire.errors import DecodeError, ErrorCode
from ottla.wire.framing import FrameBuffer, FrameSizeError
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.schema import Request, Response

_MOST_BYTES: Final = (1 << 31) - 1
_MOST_BYTES_AT_FIRST: Final = 1 << 20
"""No response before `run` is larger. The first four bytes of TLS or HTTP are a larger number."""
_SOFTWARE: Final = "ottla"
_API_VERSIONS: Final = (4, 3, 0)
"""Versions to try in turn, because a broker that lacks a version answers UNSUPPORTED_VERSION."""


class VersionRange(NamedTuple):
    """The versions of an API that a broker offers, both inclusive."""

    lowest: int
    highest: int


class Pending:
    """A request whose response has not come yet."""

    __slots__ = ("correlation_id", "done", "error", "is_abandoned", "request_type", "response", "version")

    def __init__(self, request_type: type[Request], version: int, correlation_id: int) -> None:
        self.request_type = request_type
        self.version = version
        self.correlation_id = correlation_id
        self.done = trio.Event()
        self.response: Response | None = None
        self.error: errors.ClientError | None = None
        self.is_abandoned = False

    async def result(self) -> Response:
        """Return the response. ClientError if the connection ends before it comes."""
        try:
            await self.done.wait()
        except BaseException:
            self.is_abandoned = True
            raise
        if self.error is not None:
            raise self.error
        assert self.response is not None
        return self.response


class Connection:
    """An open connection. `run` must be running in some nursery while requests are sent."""

    def __init__(self, stream: trio.abc.Stream, where: str, config: ClientConfig, security: Security) -> None:
        self.where = where
        self.api_versions: Mapping[int, VersionRange] = {}
        self.is_closed = False
        self._stream = stream
        self._config = config
        self._mechanism = security.mechanism
        self._received = FrameBuffer(_MOST_BYTES_AT_FIRST)
        self._waiting: deque[Pending] = deque()
        self._sending = trio.Lock()
        self._correlation_id = 0

    # Requests

    def version_of(self, request: type[Request], lowest: int = 0, highest: int = 0x7FFF) -> int:
        """Return the newest version in the range that both sides know. UnsupportedRequestError if there is none."""
        offered = self.api_versions.get(request.api_key)
        if offered is None:
            name = request.api_key.name
            raise errors.UnsupportedRequestError(f"{self.where}: the broker does not offer {name}", name)
        for version in range(min(offered.highest, highest), max(offered.lowest, lowest) - 1, -1):
            if version in request.versions:
                return version
        raise errors.UnsupportedRequestError(
            f"{self.where}: the broker offers {request.api_key.name} in versions {offered.lowest} to "
            f"{offered.highest}, but the client needs {max(lowest, request.versions.lowest)} or another one",
            request.api_key.name,
        )

    async def send(self, request: Request, version: int) -> Response:
        """Return the response. The caller sets the timeout; a response after that is dropped."""
        return await (await self.post(request, version)).result()

    async def post(self, request: Request, version: int) -> Pending:
        """Send a request and return its pending response, because the next request may be sent before that comes."""
        async with self._sending:
            if self.is_closed:
                raise errors.closed(self.where, self._config.uses_sasl)
            pending = Pending(type(request), version, self._next_correlation_id())
            self._waiting.append(pending)
            await self._write(encode_request(version, pending.correlation_id, self._config["client.id"], request))
        return pending

    async def send_only(self, request: Request, version: int) -> None:
        """Send a request that has no response: a Produce with acks=0."""
        async with self._sending:
            await self._write(encode_request(version, self._next_correlation_id(), self._config["client.id"], request))

    async def _write(self, data: bytes) -> None:
        try:
            await self._stream.send_all(data)
        except BaseException as error:
            # A part of the request may be sent, so no other request can follow.
            self._end(errors.closed(self.where, self._config.uses_sasl))
            if isinstance(error, (trio.BrokenResourceError, trio.ClosedResourceError)):
                raise errors.closed(self.where, self._config.uses_sasl) from error
            raise

    def _next_correlation_id(self) -> int:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        return self._correlation_id

    async def run(self) -> None:
        """Complete pending requests with their responses until the connection ends."""
        try:
            while not self.is_closed:
                try:
                    await self._take_one()
                except errors.ClientError as error:
                    self._end(error)
        finally:
            with trio.CancelScope(shield=True):
                await self.close()

    async def _take_one(self) -> None:
        frame = await self._frame()
        if not self._waiting:
            raise errors.ClientError(f"{self.where}: the broker sent a response without a request")
        waiting = self._waiting.popleft()
        if not waiting.is_abandoned:
            try:
                waiting.response = self._decoded(frame, waiting)
            except errors.ClientError as error:
                waiting.error = error
                waiting.done.set()
                raise
        waiting.done.set()

    def _decoded(self, frame: memoryview, waiting: Pending) -> Response:
        try:
            correlation_id, response = decode_response(frame, waiting.request_type, waiting.version)
        except DecodeError as error:
            raise errors.ClientError(
                f"{self.where}: the response to {waiting.request_type.__name__} cannot be read: {error}"
            ) from error
        if correlation_id != waiting.correlation_id:
            raise errors.ClientError(
                f"{self.where}: the broker sent response {correlation_id} to request {waiting.correlation_id}"
            )
        return response

    async def _frame(self) -> memoryview:
        """Receive the next frame."""
        while not self._received.has_frame():
            await self._receive()
        try:
            frame = self._received.next_frame()
        except FrameSizeError as error:
            raise errors.not_kafka(self.where, error.size) from error
        assert frame is not None
        return frame

    async def _receive(self) -> None:
        room = self._received.writable()
        try:
            data = await self._stream.receive_some(len(room))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            data = b""
        if not data:
            raise errors.closed(self.where, self._config.uses_sasl)
        room[: len(data)] = data
        self._received.wrote(len(data))

    def _end(self, error: errors.ClientError) -> None:
        self.is_closed = True
        while self._waiting:
            waiting = self._waiting.popleft()
            waiting.error = error
            waiting.done.set()

    async def close(self) -> None:
        """Close the stream and fail the pending requests."""
        self._end(errors.closed(self.where, self._config.uses_sasl))
        await trio.aclose_forcefully(self._stream)

    # Before `run`

    async def greet(self) -> None:
        """Request the broker's versions, and authenticate if the properties say so."""
        self._take_versions(await self._first_answer())
        if self._mechanism is not None:
            await self._authenticate(self._mechanism())
        self._received = FrameBuffer(_MOST_BYTES)

    async def _first_answer(self) -> ApiVersionsResponse:
        for version in _API_VERSIONS:
            request = ApiVersionsRequest(client_software_name=_SOFTWARE, client_software_version="0")
            try:
                answer = await self._exchange(request, version)
            except errors.ConnectionFailedError as error:
                if self._received.begun() or error.hint.startswith(("Set", "Check")):
                    raise
                raise errors.closed_at_once(self.where, self._config.uses_tls, self._config.uses_sasl) from error
            assert isinstance(answer, ApiVersionsResponse)
            if answer.error_code == ErrorCode.NONE:
                return answer
            if answer.error_code != ErrorCode.UNSUPPORTED_VERSION:
                raise errors.ClientError(
                    f"{self.where}: the broker answered ApiVersions with {ErrorCode(answer.error_code).name}"
                )
        raise errors.UnsupportedRequestError(f"{self.where}: the broker knows no version of ApiVersions")

    def _take_versions(self, answer: ApiVersionsResponse) -> None:
        self.api_versions = {each.api_key: VersionRange(each.min_version, each.max_version) for each in answer.api_keys}

    async def _authenticate(self, mechanism: Mechanism) -> None:
        name = self._config["sasl.mechanism"]
        handshake = await self._exchange(SaslHandshakeRequest(mechanism=name), 1)
        assert isinstance(handshake, SaslHandshakeResponse)
        if handshake.error_code != ErrorCode.NONE:
            offered = ", ".join(handshake.mechanisms) or "none"
            raise errors.AuthenticationError(
                f"{self.where}: the listener does not accept sasl.mechanism={name}; it accepts {offered}"
            )
        message: bytes | None = mechanism.first()
        version = self.version_of(SaslAuthenticateRequest)
        while message is not None:
            answer = await self._exchange(SaslAuthenticateRequest(auth_bytes=message), version)
            assert isinstance(answer, SaslAuthenticateResponse)
            if answer.error_code != ErrorCode.NONE:
                raise errors.AuthenticationError(f"{self.where}: {answer.error_message or 'authentication failed'}")
            try:
                message = mechanism.next(bytes(answer.auth_bytes))
            except SaslError as error:
                raise errors.AuthenticationError(f"{self.where}: {error}") from error

    async def _exchange(self, request: Request, version: int) -> Response:
        """Return the response to a request; only before `run`, because `run` also reads the stream."""
        waiting = Pending(type(request), version, self._next_correlation_id())
        await self._write(encode_request(version, waiting.correlation_id, self._config["client.id"], request))
        frame = await self._frame()
        if request.api_key == ApiKey.API_VERSIONS and bytes(frame[4:6]) == b"\x00\x23":
            # UNSUPPORTED_VERSION: the broker answers in version 0.
            waiting.version = 0
        return self._decoded(frame, waiting)


async def connect(host: str, port: int, config: ClientConfig, security: Security) -> Connection:
    """Return a connection that is ready for requests. The caller must call `run`."""
    where = f"{host}:{port}"
    stream: trio.abc.Stream = await _open(host, port, config)
    try:
        if security.tls is not None:
            stream = trio.SSLStream(stream, security.tls, server_hostname=host, https_compatible=True)
            await _shake_hands(stream, where)
        connection = Connection(stream, where, config, security)
        await connection.greet()
    except BaseException:
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(stream)
        raise
    return connection


async def _open(host: str, port: int, config: ClientConfig) -> trio.SocketStream:
    """Return a stream to the first address of a host that accepts a connection, as Kafka's clients do."""
    try:
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, OverflowError) as error:
        raise errors.unresolved(host, port, getattr(error, "strerror", None) or str(error)) from error
    timeout_seconds = config.seconds("socket.connection.setup.timeout.ms")
    reason = "there is no address"
    for family, kind, protocol, _, address in found:
        sock = trio.socket.socket(family, kind, protocol)
        try:
            with trio.fail_after(timeout_seconds):
                await sock.connect(address)
            return trio.SocketStream(sock)
        except trio.TooSlowError:
            reason = f"no connection within {timeout_seconds:g} s"
            sock.close()
        except OSError as error:
            # Not str(error), because trio adds the address to the text.
            reason = os.strerror(error.errno) if error.errno else str(error)
            sock.close()
        except BaseException:
            sock.close()
            raise
    raise errors.unreachable(host, port, ", ".join(dict.fromkeys(str(each[4][0]) for each in found)), reason)


async def _shake_hands(stream: "trio.SSLStream[Any]", where: str) -> None:
    try:
        await stream.do_handshake()
    except trio.BrokenResourceError as error:
        cause = error.__cause__
        raise errors.tls_failed(where, cause if isinstance(cause, OSError) else ConnectionResetError()) from error
