"""Requests to another broker over real sockets: a response or OSError comes, then the next request may be sent."""

import socket
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest
import trio
import trio.testing

from ottla.broker.handlers import api_versions
from ottla.broker.net.broker_client import Peer
from ottla.broker.requests.authorizer import Operation, ResourceType
from ottla.broker.requests.dispatch import Api
from ottla.broker.requests.table import Row
from ottla.wire.api_keys import ApiKey
from ottla.wire.codec import encode_response
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.types import VersionRange
from tests.broker.net.test_server import RunningServer
from tests.broker.support.toy import MAX_FRAME, frames, inline, said

Where = Callable[[], tuple[str, int] | None]


def peer(where: Where) -> Peer:
    return Peer(where, inline, client_id="toy", request_timeout_ms=30_000, max_frame=MAX_FRAME)


async def said_to(asker: Peer, key: str) -> str:
    response = await asker.ask(FindCoordinatorRequest(key=key), 0)
    assert isinstance(response, FindCoordinatorResponse)
    return response.host


async def handled(running: RunningServer, key: str) -> None:
    """Return when a request has been handled."""
    while key not in running.toy.handled:
        await trio.testing.wait_all_tasks_blocked()


def offering(version: str) -> Api:
    """ApiVersions of a broker that understands these versions of FindCoordinator."""
    response = ApiVersionsResponse(
        error_code=0,
        api_keys=[
            ApiVersion(api_key=ApiKey.FIND_COORDINATOR, min_version=each.lowest, max_version=each.highest)
            for each in [VersionRange.parse(version)]
        ],
    )
    row = Row(ApiKey.API_VERSIONS, "0-4", Operation.NONE, ResourceType.NONE)
    error_response = partial(
        api_versions.error_response, offered={ApiKey.API_VERSIONS: VersionRange.parse(row.advertised)}
    )
    return Api(row, lambda request, context: response, error_response)


@pytest.fixture
async def running(nursery: trio.Nursery) -> AsyncIterator[RunningServer]:
    with trio.fail_after(30):
        yield RunningServer(nursery)


class Scripted:
    """A broker that sends the given responses, then none."""

    def __init__(self, nursery: trio.Nursery, *answers: bytes) -> None:
        self.connections = 0
        self.heard = b""
        self._answers = list(answers)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(self._listener))
        nursery.start_soon(trio.serve_listeners, self._serve, [listener])

    async def _serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        async with stream:
            while piece := await stream.receive_some():
                self.heard += piece
                if self._answers:
                    await stream.send_all(self._answers.pop(0))
            await trio.sleep_forever()


def answer(number: int, text: str = "hello") -> bytes:
    return b"".join(bytes(chunk) for chunk in encode_response(number, said(text), 0) if isinstance(chunk, bytes))


async def test_requests_are_sent_over_one_connection(running: RunningServer) -> None:
    asker = peer(lambda: running.address)
    assert [await said_to(asker, f"say {n}") for n in range(3)] == ["0", "1", "2"]
    assert {context.connection_id[-2:] for context in running.toy.contexts} == {"-1"}
    assert {context.client_id for context in running.toy.contexts} == {"toy"}
    await asker.close()


async def test_overlapping_requests_are_sent_one_after_the_other(running: RunningServer) -> None:
    asker = peer(lambda: running.address)
    answers: list[str] = []

    async def ask(key: str) -> None:
        answers.append(await said_to(asker, key))

    async with trio.open_nursery() as callers:
        callers.start_soon(ask, "pending one")
        await handled(running, "pending one")
        callers.start_soon(ask, "say two")
        await trio.testing.wait_all_tasks_blocked()
        assert running.toy.handled == ["pending one"]
        running.toy.complete("one")
    assert answers == ["one", "two"]
    await asker.close()


async def test_the_address_is_looked_up_for_each_connection(nursery: trio.Nursery) -> None:
    first, second = RunningServer(nursery), RunningServer(nursery)
    where: list[tuple[str, int] | None] = [None]
    asker = peer(lambda: where[0])
    with trio.fail_after(30):
        with pytest.raises(OSError, match="address is not known"):
            await said_to(asker, "say nothing")
        where[0] = first.address
        assert await said_to(asker, "say one") == "one"
        await first.server.stop(0)
        where[0] = second.address
        # The connection has ended in between. The client finds that before it sends the request.
        assert await said_to(asker, "say two") == "two"
    assert second.toy.handled == ["say two"]
    await asker.close()


async def test_a_broker_without_a_listener_or_an_address_raises_os_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    for where in (("127.0.0.1", free), ("127.0.0.1", 70_000), ("127.0.0.1", -1), ("x" * 70, 1), ("", 1)):
        with pytest.raises(OSError, match=r"attempts|address|service|Servname|Name"):
            await said_to(peer(lambda address=where: address), "say hello")  # type: ignore[misc]


async def test_a_closed_connection_raises_os_error(running: RunningServer) -> None:
    asker = peer(lambda: running.address)
    with pytest.raises(OSError, match="closed the connection"):
        await said_to(asker, "close now")
    assert await said_to(asker, "say hello") == "hello"
    await asker.close()


async def test_a_late_response_is_not_taken_for_the_next(
    nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    running = RunningServer(nursery)
    asker = peer(lambda: running.address)

    async def let_time_pass() -> None:
        await handled(running, "pending one")
        mock_clock.jump(30)

    nursery.start_soon(let_time_pass)
    with pytest.raises(TimeoutError, match="within 30"):
        await said_to(asker, "pending one")
    running.toy.complete("one")
    assert await said_to(asker, "say two") == "two"
    await asker.close()


async def test_a_cancelled_caller_leaves_no_response_to_the_next(running: RunningServer) -> None:
    asker = peer(lambda: running.address)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as callers:
            callers.start_soon(said_to, asker, "pending one")
            await handled(running, "pending one")
            scope.cancel()
    assert await said_to(asker, "say two") == "two"
    assert [context.connection_id[-2:] for context in running.toy.contexts] == ["-1", "-2"]
    await asker.close()


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (answer(7), "answer 7 to request 1"),
        ((5).to_bytes(4, "big") + bytes([0, 0, 0, 1, 9]), "beyond|short|buffer|end"),
        ((MAX_FRAME + 1).to_bytes(4, "big"), "a frame of"),
        ((-5).to_bytes(4, "big", signed=True), "a frame of -5"),
        ((2).to_bytes(4, "big") + b"xx", "response header"),
    ],
    ids=["another's", "torn", "too large", "of negative size", "without a header"],
)
async def test_a_wrong_response_ends_the_connection(nursery: trio.Nursery, wrong: bytes, what: str) -> None:
    broker = Scripted(nursery, wrong, answer(2, "right"))
    asker = peer(lambda: broker.address)
    with trio.fail_after(30):
        with pytest.raises(OSError, match=what):
            await said_to(asker, "say hello")
        assert await said_to(asker, "say hello") == "right"
    assert broker.connections == 2
    assert broker.heard == frames("say hello", "say hello")
    await asker.close()


async def test_unexpected_bytes_end_the_connection(nursery: trio.Nursery) -> None:
    broker = Scripted(nursery, answer(1) + answer(2, "too soon"), answer(2, "right"))
    asker = peer(lambda: broker.address)
    with trio.fail_after(30):
        assert await said_to(asker, "say hello") == "hello"
        assert await said_to(asker, "say hello") == "right"
    await asker.close()


async def test_close_raises_os_error_in_waiting_and_later_callers(running: RunningServer) -> None:
    asker = peer(lambda: running.address)

    async def close() -> None:
        await handled(running, "pending one")
        await asker.close()

    async with trio.open_nursery() as closing:
        closing.start_soon(close)
        with pytest.raises(ConnectionError):
            await said_to(asker, "pending one")
    with pytest.raises(OSError, match="closed"):
        await said_to(asker, "say hello")
    assert running.toy.handled == ["pending one"]


@pytest.mark.parametrize(
    ("offered", "bounds", "chosen"),
    [("0-2", {}, 2), ("0-1", {}, 1), ("0-2", {"highest": 1}, 1), ("1-9", {"highest": 2}, 2)],
)
async def test_ask_newest_uses_the_newest_version_that_both_brokers_understand(
    nursery: trio.Nursery, offered: str, bounds: dict[str, int], chosen: int
) -> None:
    running = RunningServer(nursery, [offering(offered)])
    asker = peer(lambda: running.address)
    with trio.fail_after(30):
        for _ in range(2):
            await asker.ask_newest(FindCoordinatorRequest(key="say hello"), **bounds)
    assert [context.api_version for context in running.toy.contexts] == [chosen, chosen]
    await asker.close()


async def test_a_request_without_a_common_version_is_not_sent(nursery: trio.Nursery) -> None:
    running = RunningServer(nursery, [offering("0-1")])
    asker = peer(lambda: running.address)
    with trio.fail_after(30):
        with pytest.raises(OSError, match="no version of HeartbeatRequest"):
            await asker.ask_newest(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))
        with pytest.raises(OSError, match="no version of FindCoordinatorRequest"):
            await asker.ask_newest(FindCoordinatorRequest(key="say hello"), lowest=2)
    assert running.toy.handled == []
    await asker.close()


async def test_the_versions_are_asked_for_again_on_another_connection(nursery: trio.Nursery) -> None:
    old, new = RunningServer(nursery, [offering("0-1")]), RunningServer(nursery, [offering("0-2")])
    where = [old.address]
    asker = peer(lambda: where[0])
    with trio.fail_after(30):
        await asker.ask_newest(FindCoordinatorRequest(key="say hello"))
        await old.server.stop(0)
        where[0] = new.address
        await asker.ask_newest(FindCoordinatorRequest(key="say hello"))
    assert [context.api_version for context in new.toy.contexts] == [2]
    await asker.close()


async def test_api_versions_can_be_sent_as_a_request(nursery: trio.Nursery) -> None:
    running = RunningServer(nursery, [offering("0-1")])
    asker = peer(lambda: running.address)
    response = await asker.ask(ApiVersionsRequest(), 3)
    assert isinstance(response, ApiVersionsResponse)
    assert [each.max_version for each in response.api_keys] == [1]
    await asker.close()
