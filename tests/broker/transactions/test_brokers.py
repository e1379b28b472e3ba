"""Requests of transactions go to this broker without a socket, and to each other broker over one connection."""

import socket
from typing import Any

import pytest
import trio

from ottla.broker.net.broker_client import NoCommonVersionError, Peer
from ottla.broker.transactions.brokers import Brokers
from ottla.wire.api_keys import ApiKey
from ottla.wire.codec import decode_request, encode_response
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from ottla.wire.schema import Request, Response
from tests.broker.support.hosted import inline

OWN, OTHER = 1, 2
ASKED = WriteTxnMarkersRequest(markers=())


class Cluster:
    """This broker, and another one at the end of a socket that understands some versions."""

    def __init__(self, nursery: trio.Nursery, lowest: int, highest: int) -> None:
        self._nursery = nursery
        self._understood = lowest, highest
        self.own_requests: list[Request] = []
        self.connections = 0
        self.versions: list[int] = []
        self.brokers = Brokers(OWN, self._answer_own, self._peer, lowest=0, highest=1)
        nursery.start_soon(self.brokers.run)

    async def _answer_own(self, request: Request) -> Response:
        self.own_requests.append(request)
        return WriteTxnMarkersResponse(markers=())

    def _peer(self, broker_id: int) -> Peer:
        assert broker_id == OTHER
        return Peer(
            lambda: ("other", 9092), inline, client_id="c", request_timeout_ms=60_000, max_frame=1 << 20,
            connect=self._connect,
        )  # fmt: skip

    async def _connect(self, host: str, port: int) -> socket.socket:
        self.connections += 1
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        self._nursery.start_soon(self._serve, trio.SocketStream(trio.socket.from_stdlib_socket(theirs)))
        return ours

    async def _serve(self, stream: trio.SocketStream) -> None:
        async with stream:
            await self._answer_all(stream)

    async def _answer_all(self, stream: trio.SocketStream) -> None:
        received = b""
        async for data in stream:
            received += data
            while len(received) >= 4 and len(received) >= 4 + int.from_bytes(received[:4], "big"):
                size = 4 + int.from_bytes(received[:4], "big")
                frame, received = received[4:size], received[size:]
                header, request = decode_request(memoryview(frame))
                answer: Response = WriteTxnMarkersResponse(markers=())
                if header.api_key == ApiKey.API_VERSIONS:
                    lowest, highest = self._understood
                    known = ApiVersion(api_key=ApiKey.WRITE_TXN_MARKERS, min_version=lowest, max_version=highest)
                    answer = ApiVersionsResponse(error_code=0, api_keys=[known])
                else:
                    assert isinstance(request, WriteTxnMarkersRequest)
                    self.versions.append(header.api_version)
                chunks: Any = encode_response(header.correlation_id, answer, header.api_version)
                await stream.send_all(b"".join(chunks))


async def test_this_broker_is_asked_without_a_socket(nursery: trio.Nursery) -> None:
    cluster = Cluster(nursery, 0, 1)
    assert isinstance(await cluster.brokers.ask(OWN, ASKED), WriteTxnMarkersResponse)
    assert (cluster.own_requests, cluster.connections) == ([ASKED], 0)


@pytest.mark.parametrize(("lowest", "highest", "version"), [(0, 2, 1), (0, 0, 0), (1, 5, 1)])
async def test_another_broker_is_asked_over_one_connection_in_the_newest_version_that_both_know(
    nursery: trio.Nursery, lowest: int, highest: int, version: int
) -> None:
    cluster = Cluster(nursery, lowest, highest)
    for _ in range(2):
        assert isinstance(await cluster.brokers.ask(OTHER, ASKED), WriteTxnMarkersResponse)
    assert (cluster.versions, cluster.connections, cluster.own_requests) == ([version] * 2, 1, [])


async def test_a_broker_that_knows_no_version_is_not_asked(nursery: trio.Nursery) -> None:
    cluster = Cluster(nursery, 2, 5)
    with pytest.raises(NoCommonVersionError):
        await cluster.brokers.ask(OTHER, ASKED)
    assert cluster.versions == []
