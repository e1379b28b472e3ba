"""Over real sockets: clients are accepted, served side by side, and leave nothing behind."""

import os
import socket
import struct
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from ottla.broker.config.connection_limits import ConnectionLimits, Limits
from ottla.broker.loop.clock import Clock
from ottla.broker.loop.turn import Turn
from ottla.broker.net.server import Server, listen, resolve_overrides
from ottla.broker.net.session import RequestContext
from ottla.broker.requests.authorizer import Operation, ResourceType
from ottla.broker.requests.dispatch import Api
from ottla.broker.requests.table import Row
from ottla.wire.api_keys import ApiKey
from ottla.wire.codec import decode_response, encode_request
from ottla.wire.config_def import ConfigError
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from tests.broker.net.test_transport import Region, content
from tests.broker.support.toy import MAX_FRAME, Toy, ToyClient, frames, inline, said
from tests.harness.measuring import AtMost


class RunningServer:
    """A server of the toy, on free ports."""

    def __init__(
        self,
        nursery: trio.Nursery,
        others: Sequence[Api] = (),
        names: Sequence[str] = ("PLAINTEXT",),
        host: str = "127.0.0.1",
        **options: Any,
    ) -> None:
        self.toy = Toy()
        self.clock = Clock()
        self.turn = Turn()
        listeners = [(name, listen(host, 0, 50)) for name in names]
        self.addresses = {name: sock.getsockname()[:2] for name, sock in listeners}
        self.address = self.addresses[names[0]]
        self.server = Server(
            self.toy.apis(*others).dispatch,
            self.clock,
            inline,
            self.turn,
            max_frame=MAX_FRAME,
            idle_seconds=600,
            **options,
        )
        nursery.start_soon(self.clock.run)
        nursery.start_soon(self.server.run, listeners)

    async def connect(self, listener: str | None = None) -> ToyClient:
        address = self.address if listener is None else self.addresses[listener]
        return ToyClient(await trio.open_tcp_stream(*address))

    async def served(self, listener: str | None = None) -> ToyClient:
        """A client that has got a response."""
        client = await self.connect(listener)
        await client.send("say hello")
        assert await client.reply() == "hello"
        return client


@pytest.fixture
async def running(nursery: trio.Nursery) -> AsyncIterator[RunningServer]:
    with trio.fail_after(120):
        yield RunningServer(nursery)


async def test_clients_are_served_side_by_side(running: RunningServer) -> None:
    clients = [await running.connect() for _ in range(20)]
    for client in clients:
        await client.send(*(f"say {i}" for i in range(50)))
    for client in clients:
        assert await client.replies(50) == [str(i) for i in range(50)]
        await client.stream.aclose()


async def test_the_context_of_a_request_names_its_client(running: RunningServer) -> None:
    client = await running.connect()
    await client.send("say hello")
    await client.reply()
    ours = client.stream.socket.getsockname()  # type: ignore[attr-defined]
    await client.stream.aclose()
    context = running.toy.contexts[0]
    assert (context.api_key, context.api_version, context.client_id) == (10, 0, "toy")
    assert (context.listener_name, context.principal) == ("PLAINTEXT", "User:ANONYMOUS")
    assert context.client_address == "127.0.0.1"
    assert context.connection_id == f"127.0.0.1:{running.address[1]}-127.0.0.1:{ours[1]}-1"


async def test_a_client_of_a_socket_for_all_addresses_has_its_ipv4_address(nursery: trio.Nursery) -> None:
    running = RunningServer(nursery, host="")
    port = running.address[1]
    client = ToyClient(await trio.open_tcp_stream("127.0.0.1", port))
    await client.send("say hello")
    await client.reply()
    await client.stream.aclose()
    context = running.toy.contexts[0]
    assert context.client_address == "127.0.0.1"
    assert context.connection_id.startswith(f"127.0.0.1:{port}-127.0.0.1:")


@pytest.mark.measured
async def test_small_replies_are_sent_at_once(running: RunningServer) -> None:
    """With Nagle's algorithm the second of two small replies waits 40 ms for the client's acknowledgement."""
    client = await running.connect()
    started = time.monotonic()
    for i in range(20):
        await client.send(f"applied a{i}", f"applied b{i}")
        await trio.testing.wait_all_tasks_blocked(0.001)
        running.toy.complete(f"a{i}")
        assert await client.reply() == f"a{i}"
        running.toy.complete(f"b{i}")
        assert await client.reply() == f"b{i}"
    assert time.monotonic() - started < 0.4
    await client.stream.aclose()


async def test_a_flood_does_not_starve_others(running: RunningServer, at_most: AtMost) -> None:
    flood, other = await running.connect(), await running.connect()
    flooding = True

    async def send() -> None:
        burst = [f"say {i}" for i in range(500)]
        while flooding:
            await flood.send(*burst)

    async def receive() -> None:
        while await flood.reply() is not None:
            pass

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        nursery.start_soon(receive)
        for i in range(50):
            started = time.monotonic()
            await other.send(f"say {i}")
            assert await other.reply() == str(i)
            at_most(time.monotonic() - started, 0.5)
        flooding = False
        nursery.cancel_scope.cancel()
    await flood.stream.aclose()
    await other.stream.aclose()


@pytest.mark.once
async def test_a_slow_reader_delays_only_itself_and_loses_nothing(running: RunningServer) -> None:
    slow, other = await running.connect(), await running.connect()
    text = "x" * 30_000
    count = 1000

    async def send() -> None:
        await slow.send(*[f"say {text}"] * count)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        await trio.testing.wait_all_tasks_blocked(0.05)
        handled = len(running.toy.handled)
        assert handled < count
        await other.send("say quick")
        assert await other.reply() == "quick"
        assert await slow.replies(count) == [text] * count
    await slow.stream.aclose()
    await other.stream.aclose()


async def test_a_deferred_reply_to_a_slow_reader_is_sent_when_it_reads(nursery: trio.Nursery) -> None:
    """The test completes the replies and they fill the socket, so that a new task drains them."""
    running = RunningServer(nursery, send_buffer=50_000)
    client = await running.connect()
    text = "x" * 30_000
    await client.send(*(f"applied {i}" for i in range(60)))
    await trio.testing.wait_all_tasks_blocked(0.01)
    for i in range(60):
        running.toy.deferred[str(i)].complete(said(text))
    await trio.testing.wait_all_tasks_blocked(0.01)
    await client.send("say end")
    with trio.fail_after(120):
        assert await client.replies(61) == [*[text] * 60, "end"]
    await client.stream.aclose()


async def test_a_client_that_resets_the_connection_is_forgotten(running: RunningServer) -> None:
    client = await running.connect()
    await client.send("applied a", "say b")
    await trio.testing.wait_all_tasks_blocked(0.01)
    client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # type: ignore[attr-defined]
    await client.stream.aclose()
    while not running.toy.abandoned:
        await trio.sleep(0)
    assert running.toy.abandoned == ["a"]


async def test_a_client_that_is_gone_when_its_reply_completes_ends_only_its_connection(running: RunningServer) -> None:
    """It is muted, so that its end is found only when its reply completes, in another connection's turn."""
    gone, other = await running.connect(), await running.connect()
    await gone.send("pending a")
    await trio.testing.wait_all_tasks_blocked(0.01)
    gone.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # type: ignore[attr-defined]
    await gone.stream.aclose()
    running.toy.actions["it"] = lambda: running.toy.complete("a")
    await other.send("do it")
    assert await other.reply() == "it"
    await other.send("say still here")
    assert await other.reply() == "still here"
    while running.server.connection_count > 1:
        await trio.sleep(0)
    await other.stream.aclose()


async def test_a_half_closed_client_gets_its_replies(running: RunningServer) -> None:
    client = await running.connect()
    await client.send("applied a", "say b")
    await client.stream.send_eof()  # type: ignore[attr-defined]
    await trio.testing.wait_all_tasks_blocked(0.01)
    running.toy.complete("a")
    assert await client.replies(3) == ["a", "b", None]
    await client.stream.aclose()


@pytest.mark.trials(few=40, soak=200)
async def test_no_descriptor_is_left_behind(running: RunningServer, trials: int) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    client = await running.connect()
    await client.send("say warm")
    await client.reply()
    before = descriptors()
    for kind in range(trials):
        other = await running.connect()
        if kind % 4 == 0:
            await other.send("say a", f"applied {kind}")
            await other.reply()
        elif kind % 4 == 1:
            await other.stream.send_all(b"\xff\xff\xff\xffjunk")
            assert await other.reply() is None
        elif kind % 4 == 2:
            await other.stream.send_all(frames("pending a")[:-1])
        await other.stream.aclose()
    # A connection that owes a reply finds the client's end when it sends the reply.
    for name in running.toy.deferred:
        running.toy.complete(name)
    with trio.fail_after(120):
        while descriptors() > before or running.server.connection_count > 1:
            await trio.sleep(0.001)
    await client.send("say still here")
    assert await client.reply() == "still here"
    await client.stream.aclose()


async def test_stop_sends_owed_replies_and_closes_all_connections(running: RunningServer) -> None:
    busy, idle, waiting = [await running.connect() for _ in range(3)]
    await busy.send("applied a", "say b")
    await waiting.send("pending c")
    await trio.testing.wait_all_tasks_blocked(0.01)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(running.server.stop, 5)
        assert await idle.reply() is None
        assert await waiting.reply() is None
        running.toy.complete("a")
        assert await busy.replies(3) == ["a", "b", None]
    with pytest.raises(OSError, match=r"connect|refused"):
        await trio.open_tcp_stream(*running.address)
    assert running.toy.abandoned == ["c"]
    for client in (busy, idle, waiting):
        await client.stream.aclose()


async def test_stopping_does_not_wait_for_ever(running: RunningServer) -> None:
    client = await running.connect()
    await client.send("applied a")
    await trio.testing.wait_all_tasks_blocked(0.01)
    started = trio.current_time()
    await running.server.stop(0.1)
    assert trio.current_time() - started >= 0.1
    assert running.toy.abandoned == ["a"]
    assert await client.reply() is None
    await client.stream.aclose()


@pytest.mark.trials(few=10, soak=50)
async def test_a_client_that_connects_while_the_server_stops_does_not_delay_the_stop(
    nursery: trio.Nursery, trials: int
) -> None:
    for trial in range(trials):
        running = RunningServer(nursery)
        first = await running.connect()
        await first.send("say hello")
        await first.reply()
        with socket.create_connection(running.address):
            for _ in range(trial % 4):
                await trio.lowlevel.checkpoint()
            with trio.fail_after(120):
                await running.server.stop(60)
        await first.stream.aclose()


def limits(broker: Limits = Limits(), **others: Any) -> ConnectionLimits:  # noqa: B008 - immutable
    return ConnectionLimits(broker, **others)


async def test_a_connection_beyond_the_limit_waits_for_the_end_of_another(nursery: trio.Nursery) -> None:
    running = RunningServer(nursery, limits=limits(Limits(connections=2)))
    first, second = await running.served(), await running.served()
    third = await running.connect()
    await third.send("say late")
    await second.send("say still served")
    assert await second.reply() == "still served"
    assert await third.has_nothing_to_read()
    assert running.server.connection_count == 2
    await first.stream.aclose()
    with trio.fail_after(120):
        assert await third.reply() == "late"
    assert running.server.connection_count == 2
    fourth = await running.connect()
    await fourth.send("say allowed now")
    assert await fourth.has_nothing_to_read()
    running.server.use_limits(limits(Limits(connections=3)))
    with trio.fail_after(120):
        assert await fourth.reply() == "allowed now"
    for client in (second, third, fourth):
        await client.stream.aclose()


async def test_a_listener_that_is_full_leaves_the_others_alone(nursery: trio.Nursery) -> None:
    of_listener = {"A": Limits(connections=1), "B": Limits()}
    running = RunningServer(nursery, names=["A", "B"], limits=limits(of_listener=of_listener))
    first = await running.served("A")
    waiting = await running.connect("A")
    await waiting.send("say late")
    others = [await running.served("B") for _ in range(3)]
    assert await waiting.has_nothing_to_read()
    await first.stream.aclose()
    with trio.fail_after(120):
        assert await waiting.reply() == "late"
    for client in (waiting, *others):
        await client.stream.aclose()


async def test_a_broker_replaces_the_least_recently_used_client(nursery: trio.Nursery) -> None:
    wanted = limits(Limits(connections=2), of_listener={"IN": Limits(), "OUT": Limits()}, inter_broker_listener="IN")
    running = RunningServer(nursery, names=["OUT", "IN"], limits=wanted)
    used, unused = await running.served("OUT"), await running.served("OUT")
    await used.send("say used")
    assert await used.reply() == "used"
    with trio.fail_after(120):
        brokers = [await running.served("IN")]
        assert await unused.reply() is None
        brokers.append(await running.served("IN"))
        assert await used.reply() is None
        # No client is left to close, and brokers are accepted nevertheless.
        brokers.append(await running.served("IN"))
    assert running.server.connection_count == 3
    for client in (used, unused, *brokers):
        await client.stream.aclose()


async def test_a_connection_of_an_address_with_too_many_is_closed(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    running = RunningServer(nursery, limits=limits(per_ip=5, per_ip_overrides={"127.0.0.1": 1}))
    first = await running.served()
    second = await running.connect()
    with trio.fail_after(120):
        assert await second.reply() is None
        assert "Rejected connection from 127.0.0.1, address already has the configured maximum of 1" in caplog.text
        await first.stream.aclose()
        while running.server.connection_count:
            await trio.sleep(0)
        third = await running.served()
    for client in (second, third):
        await client.stream.aclose()


async def test_connections_beyond_the_rate_are_accepted_later(nursery: trio.Nursery) -> None:
    wanted = limits(Limits(creation_rate=2), window_num=1, window_seconds=1)
    running = RunningServer(nursery, limits=wanted)
    started = trio.current_time()
    clients = [await running.served() for _ in range(3)]
    assert trio.current_time() - started > 0.5
    for client in clients:
        await client.stream.aclose()


async def test_a_connection_that_waits_for_its_slot_does_not_delay_the_stop(nursery: trio.Nursery) -> None:
    running = RunningServer(nursery, limits=limits(Limits(connections=1)))
    first = await running.served()
    waiting = await running.connect()
    await trio.testing.wait_all_tasks_blocked(0.01)
    with trio.fail_after(120):
        await running.server.stop(60)
        assert await waiting.reply() is None
    for client in (first, waiting):
        await client.stream.aclose()


def test_host_names_are_resolved_once() -> None:
    found = resolve_overrides(limits(per_ip_overrides={"localhost": 7, "0:0:0:0:0:0:0:1": 8}))
    assert found.per_ip_overrides == {"127.0.0.1": 7, "::1": 8}


def test_an_unknown_host_name_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigError, match=r"^max\.connections\.per\.ip\.overrides: no host: "):
        resolve_overrides(limits(per_ip_overrides={"no host": 7}))


async def test_records_in_a_file_are_sent_from_it(nursery: trio.Nursery, tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(content(5_000_000))
    regions: list[Region] = []

    def fetch(request: FetchRequest, context: RequestContext) -> FetchResponse:
        regions.append(Region(path, request.max_wait_ms, request.max_bytes, cached=request.min_bytes == 1))
        data = PartitionData(
            partition_index=7, error_code=0, high_watermark=1, aborted_transactions=None, records=regions[-1]
        )
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])

    running = RunningServer(nursery, [Api(Row(ApiKey.FETCH, "4-12", Operation.READ, ResourceType.TOPIC), fetch)])
    client = await running.connect()
    wanted = [(1000, 4_000_000, 1), (7, 300_000, 0), (0, 0, 1), (5, 1, 1)]
    for number, (position, length, cached) in enumerate(wanted):
        request = FetchRequest(max_wait_ms=position, max_bytes=length, min_bytes=cached, topics=())
        await client.stream.send_all(encode_request(11, number, None, request))
    with trio.fail_after(120):
        for number, (position, length, _) in enumerate(wanted):
            frame = await client.frame()
            assert frame is not None
            correlation_id, response = decode_response(memoryview(frame), FetchRequest, 11)
            assert correlation_id == number
            assert isinstance(response, FetchResponse)
            (partition,) = response.responses[0].partitions
            assert partition.records == content(5_000_000)[position : position + length]
    await client.stream.aclose()
    for region in regions:
        region.close()
