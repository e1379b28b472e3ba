"""A proxy between a session and its server that can be cut."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import trio


class Proxy:
    """Forwards connections to a port, until it is cut."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._is_cut = False
        self._connections: set[trio.CancelScope] = set()
        self._may_answer = trio.Event()
        self._may_answer.set()
        self._free_answers = 0
        self._corrupt = False
        self.port = 0
        # The numbers of connections accepted, of connections ended, and of messages from clients.
        self.accepted = 0
        self.ended = 0
        self.requests = 0

    @property
    def connect(self) -> str:
        """The connect string of a session over this proxy."""
        return f"127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Drop all connections, and refuse new ones."""
        self._is_cut = True
        for scope in list(self._connections):
            scope.cancel()

    def let_come(self) -> None:
        """Accept connections again."""
        self._is_cut = False

    def hold_answers(self, *, but_for: int = 0) -> None:
        """Hold the server's messages from now on, except the next `but_for`."""
        self._may_answer = trio.Event()
        self._free_answers = but_for

    def corrupt_next_answer(self) -> None:
        """Corrupt the server's next messages."""
        self._corrupt = True

    def heal(self) -> None:
        """Forward everything again. Held messages of cut connections are lost."""
        self._is_cut = False
        self._may_answer.set()

    async def handle(self, client: trio.SocketStream) -> None:
        async with client:
            if self._is_cut:
                return
            self.accepted += 1
            async with await trio.open_tcp_stream("127.0.0.1", self._server_port) as server:
                async with trio.open_nursery() as nursery:
                    self._connections.add(nursery.cancel_scope)
                    nursery.start_soon(self._pump, client, server, nursery.cancel_scope, False)
                    nursery.start_soon(self._pump, server, client, nursery.cancel_scope, True)
                self._connections.discard(nursery.cancel_scope)
            self.ended += 1

    async def _pump(
        self, source: trio.SocketStream, sink: trio.SocketStream, scope: trio.CancelScope, is_answer: bool
    ) -> None:
        try:
            async with aclosing(messages(source)) as received:
                async for message in received:
                    if is_answer:
                        await self._answer(message, sink)
                    else:
                        self.requests += 1
                        await sink.send_all(message)
        except trio.BrokenResourceError:
            pass
        scope.cancel()

    async def _answer(self, message: bytes, sink: trio.SocketStream) -> None:
        if self._free_answers:
            self._free_answers -= 1
        else:
            await self._may_answer.wait()
        if self._corrupt:
            message = message[:4] + b"\x7f" * (len(message) - 4)
        await sink.send_all(message)


async def messages(stream: trio.SocketStream) -> AsyncGenerator[bytes, None]:
    """Yield whole messages with their length prefix."""
    received = bytearray()
    async for data in stream:
        received += data
        while len(received) >= 4 and len(received) >= (end := 4 + int.from_bytes(received[:4], "big")):
            yield bytes(received[:end])
            del received[:end]


@asynccontextmanager
async def proxy_to(server_port: int) -> AsyncIterator[Proxy]:
    """Run a proxy for as long as the block lasts."""
    proxy = Proxy(server_port)
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        proxy.port = listener.socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, proxy.handle, [listener])
        yield proxy
        nursery.cancel_scope.cancel()
