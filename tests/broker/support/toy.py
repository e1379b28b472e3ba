"""A table of plain functions, and a client for it: what the tests of connections and servers talk about.

The toy's requests are FindCoordinator's. What happens to one is the first word of its key: "say x" is answered at once,
"applied x", "pending x" and "repeatable x" are deferred until the test completes them, "silent x" has no reply, "close"
ends the connection, "bug" is one, "error" is a KafkaError, "do x" calls `actions["x"]` and is answered.
"""

import socket
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar, TypeVarTuple

import trio
import trio.testing

from ottla.broker.loop.clock import Clock
from ottla.broker.loop.deferred import CloseConnection, Deferred
from ottla.broker.loop.turn import Turn
from ottla.broker.net.buffers import Buffers, RequestMemory
from ottla.broker.net.connection import Connection
from ottla.broker.net.outbox import Outbox
from ottla.broker.net.session import ClientSession, RequestContext
from ottla.broker.net.transport import SocketTransport
from ottla.broker.requests.authorizer import Operation, ResourceType
from ottla.broker.requests.dispatch import Api, Apis
from ottla.broker.requests.table import Row
from ottla.wire.api_keys import ApiKey
from ottla.wire.codec import decode_response, encode_request
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

MAX_FRAME = 1 << 20


async def inline(function: Callable[[*Ts], T], *args: *Ts) -> T:
    await trio.lowlevel.checkpoint()
    return function(*args)


def said(text: str) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(host=text)


class Toy:
    """The handler, and what became of the requests."""

    def __init__(self) -> None:
        self.handled: list[str] = []
        self.abandoned: list[str] = []
        self.contexts: list[RequestContext] = []
        self.deferred: dict[str, Deferred[FindCoordinatorResponse]] = {}
        self.actions: dict[str, Callable[[], None]] = {}
        row = Row(ApiKey.FIND_COORDINATOR, "0-3", Operation.DESCRIBE, ResourceType.GROUP, served="0-2")
        self.api = Api(row, self.handle, self.error_response)

    def apis(self, *others: Api) -> Apis:
        return Apis([self.api, *others])

    def handle(
        self, request: FindCoordinatorRequest, context: RequestContext
    ) -> FindCoordinatorResponse | Deferred[FindCoordinatorResponse] | None:
        self.handled.append(request.key)
        self.contexts.append(context)
        word, _, rest = request.key.partition(" ")
        if word in ("applied", "pending", "repeatable"):
            abandoned = partial(self.abandoned.append, rest)
            self.deferred[rest] = Deferred(word == "applied", abandoned, repeatable=word == "repeatable")
            return self.deferred[rest]
        if word == "close":
            raise CloseConnection(rest)
        if word == "error":
            raise KafkaError(ErrorCode.NOT_COORDINATOR, rest)
        if word == "bug":
            raise ZeroDivisionError(rest)
        if word == "do":
            self.actions[rest]()
        return None if word == "silent" else said(rest)

    def complete(self, name: str) -> None:
        self.deferred[name].complete(said(name))

    @staticmethod
    def error_response(request: FindCoordinatorRequest, version: int, code: ErrorCode) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(error_code=code, host=f"error in {request.key}")


def frames(*keys: str, first: int = 1) -> bytes:
    """Requests of the toy, numbered from `first`."""
    return b"".join(
        encode_request(0, number, "toy", FindCoordinatorRequest(key=key)) for number, key in enumerate(keys, first)
    )


class ToyClient:
    """Sends requests, and reads replies in their order: their numbers are checked."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._sent = 0
        self._read = 0
        self._data = bytearray()

    async def send(self, *keys: str) -> None:
        first = self._sent + 1
        self._sent += len(keys)
        await self.stream.send_all(frames(*keys, first=first))

    async def frame(self) -> bytes | None:
        """The next reply without its size, or None at the end of the stream."""
        while len(self._data) < 4 or len(self._data) < 4 + struct.unpack_from(">i", self._data)[0]:
            piece = await self.stream.receive_some(1 << 20)
            if not piece:
                assert not self._data, "the last reply is torn"
                return None
            self._data += piece
        (size,) = struct.unpack_from(">i", self._data)
        frame = bytes(self._data[4 : 4 + size])
        del self._data[: 4 + size]
        return frame

    async def reply(self) -> str | None:
        """What the next reply says, or None at the end of the stream."""
        frame = await self.frame()
        if frame is None:
            return None
        number, response = decode_response(memoryview(frame), FindCoordinatorRequest, 0)
        assert isinstance(response, FindCoordinatorResponse)
        self._read += 1
        assert number == self._read
        return response.host

    async def has_nothing_to_read(self) -> bool:
        """Whether no byte arrives, whatever the server still does by itself."""
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def read() -> None:
                    self._data += await self.stream.receive_some(1 << 20)

                nursery.start_soon(read)
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        return not self._data

    async def replies(self, count: int) -> Sequence[str | None]:
        return [await self.reply() for _ in range(count)]


class ToyServer:
    """The parts that connections share, without a listener."""

    def __init__(self, nursery: trio.Nursery, apis: Apis, memory: RequestMemory | None = None) -> None:
        self.nursery = nursery
        self.apis = apis
        self.clock = Clock()
        self.outbox = Outbox(Turn())
        self.buffers = Buffers(MAX_FRAME, memory)
        nursery.start_soon(self.clock.run)
        nursery.start_soon(self.outbox.run)

    def open(self, **options: float) -> tuple[ToyClient, Connection]:
        """Serve one end of a pair of sockets, and return a client at the other end."""
        ours, theirs = socket.socketpair()
        client = trio.SocketStream(trio.socket.from_stdlib_socket(theirs))
        self.nursery.start_soon(_closed_at_the_end, client)
        connection = Connection(
            "toy",
            SocketTransport(ours, inline),
            partial(self.apis.dispatch, ClientSession(connection_id="toy")),
            self.outbox,
            self.clock,
            self.buffers,
            self.nursery,
            **options,  # type: ignore[arg-type]
        )
        self.nursery.start_soon(connection.run)
        return ToyClient(client), connection


async def _closed_at_the_end(stream: trio.SocketStream) -> None:
    """Close a client's socket when the test ends."""
    try:
        await trio.sleep_forever()
    finally:
        await trio.aclose_forcefully(stream)
