"""What stands between a session and its server, and can be cut."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


class Proxy:
    """Forwards connections to a port, as long as it is let."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._is_cut = False
        self._connections: set[trio.CancelScope] = set()
        self._may_answer = trio.Event()
        self._may_answer.set()
        self.port = 0
        # How many connections there were, and how many of them ended.
        self.accepted = 0
        self.ended = 0

    @property
    def connect(self) -> str:
        """The connect string of a session that goes this way."""
        return f"127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Drop all connections, and let none come."""
        self._is_cut = True
        for scope in list(self._connections):
            scope.cancel()

    def hold_answers(self) -> None:
        """Keep back what the server says from now on, over the connections that there are."""
        self._may_answer = trio.Event()

    def heal(self) -> None:
        """Forward all again. What was kept back over a connection that was cut is lost."""
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
            async for data in source:
                if is_answer:
                    await self._may_answer.wait()
                await sink.send_all(data)
        except trio.BrokenResourceError:
            pass
        scope.cancel()


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
