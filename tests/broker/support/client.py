"""A client of a broker under test that sends what it is given."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from ottla.wire.codec import decode_response, encode_request
from ottla.wire.schema import Request, Response


class Client:
    """One connection."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._asked = 0

    async def ask(self, request: Request, version: int) -> Response:
        (response,) = await self.ask_all((request, version))
        return response

    async def ask_all(self, *requests: tuple[Request, int]) -> list[Response]:
        """Ask many things in one go."""
        first = self._asked + 1
        self._asked += len(requests)
        frames = [
            encode_request(version, number, "test", request)
            for number, (request, version) in enumerate(requests, first)
        ]
        await self.stream.send_all(b"".join(frames))
        responses = []
        for expected, (request, version) in enumerate(requests, first):
            size = int.from_bytes(await self._exactly(4), "big")
            number, response = decode_response(memoryview(await self._exactly(size)), type(request), version)
            assert number == expected
            responses.append(response)
        return responses

    async def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = await self.stream.receive_some(count - len(data))
            assert piece, "the broker has closed the connection"
            data += piece
        return data


@asynccontextmanager
async def client(bootstrap: str) -> AsyncIterator[Client]:
    host, port = bootstrap.rsplit(":", 1)
    async with await trio.open_tcp_stream(host, int(port)) as stream:
        yield Client(stream)
