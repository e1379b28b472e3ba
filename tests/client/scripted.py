"""A broker on loopback with scripted answers, for situations that no real broker produces at the right moment."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import trio

from ottla.wire.api_keys import ApiKey
from ottla.wire.codec import RequestHeader, decode_request, encode_response
from ottla.wire.framing import FrameBuffer
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.schema import Request, Response

HANG_UP = None
"""In place of a response: the connection is closed."""
Answer = Callable[[RequestHeader, Request], Awaitable[Response | None]]
NEWEST: dict[ApiKey, tuple[int, int]] = dict.fromkeys(ApiKey, (0, 3))


class ScriptedBroker:
    """One broker; `requests` has all received requests by type."""

    def __init__(self, answer: Answer, node_id: int = 1) -> None:
        self.node_id = node_id
        self.requests: list[Request] = []
        self.versions = {**NEWEST, ApiKey.METADATA: (0, 12), ApiKey.FIND_COORDINATOR: (0, 4)}
        self.host, self.port = "127.0.0.1", 0
        self.refusals = 0
        """How many connections are closed at once, before the broker serves."""
        self._answer = answer

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    async def serve(self, stream: trio.SocketStream) -> None:
        if self.refusals:
            self.refusals -= 1
            return
        received = FrameBuffer(1 << 20)
        while True:
            while not received.has_frame():
                data = await stream.receive_some()
                if not data:
                    return
                room = received.writable()
                room[: len(data)] = data
                received.wrote(len(data))
            frame = received.next_frame()
            assert frame is not None
            header, request = decode_request(frame)
            self.requests.append(request)
            response = (
                self._versions() if isinstance(request, ApiVersionsRequest) else await self._answer(header, request)
            )
            if response is HANG_UP:
                return
            for chunk in encode_response(header.correlation_id, response, header.api_version):
                assert isinstance(chunk, bytes)
                await stream.send_all(chunk)

    def _versions(self) -> ApiVersionsResponse:
        keys = [
            ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.versions.items()
        ]
        return ApiVersionsResponse(error_code=0, api_keys=keys)

    def asked(self, kind: type[Request]) -> int:
        """Return the count of received requests of a type."""
        return sum(isinstance(each, kind) for each in self.requests)


@asynccontextmanager
async def listening(*brokers: ScriptedBroker) -> AsyncIterator[None]:
    """Run these brokers."""
    async with trio.open_nursery() as nursery:
        for broker in brokers:
            listeners = await nursery.start(
                trio.serve_tcp,
                broker.serve,
                0,
            )
            broker.port = listeners[0].socket.getsockname()[1]
        yield
        nursery.cancel_scope.cancel()


def metadata(
    brokers: Sequence[ScriptedBroker],
    leaders: Sequence[int] = (),
    *,
    topic: str = "orders",
    controller: int = 1,
    error_code: int = 0,
) -> MetadataResponse:
    """Return Metadata of one topic, whose partitions these brokers lead."""
    partitions = [
        MetadataResponsePartition(
            error_code=0, partition_index=index, leader_id=leader, replica_nodes=[leader], isr_nodes=[leader]
        )
        for index, leader in enumerate(leaders)
    ]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=each.node_id, host=each.host, port=each.port) for each in brokers],
        controller_id=controller,
        cluster_id="scripted",
        topics=[MetadataResponseTopic(error_code=error_code, name=topic, partitions=partitions)] if leaders else [],
    )
