"""Bytes are sent in order and whole, and a slow reader delays only itself."""

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, TypeVarTuple, cast

import pytest
import trio
import trio.testing

from ottla.broker.net.transport import Output, SocketTransport
from ottla.wire.framing import FrameBuffer

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def inline(function: Callable[[*Ts], T], *args: *Ts) -> T:
    await trio.lowlevel.checkpoint()
    return function(*args)


class Region:
    """A region of a real file. `is_cached` returns `cached`."""

    def __init__(self, path: Path, position: int, length: int, *, cached: bool = True) -> None:
        self._file = path.open("rb")
        self.position = position
        self.length = length
        self.cached = cached
        self.asked = 0
        self.told: list[int | None] = []

    def __len__(self) -> int:
        return self.length

    def fileno(self) -> int:
        return self._file.fileno()

    def is_cached(self) -> bool:
        self.asked += 1
        return self.cached

    def failed(self, error: OSError) -> None:
        self.told.append(error.errno)

    def close(self) -> None:
        self._file.close()


def connected() -> tuple[socket.socket, socket.socket]:
    """Both ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
    return server, client


def content(size: int) -> bytes:
    return bytes(i * 7 % 251 for i in range(1021)) * (size // 1021 + 1)


async def read_all(client: socket.socket, count: int) -> bytes:
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(client))
    data = bytearray()
    while len(data) < count:
        piece = await stream.receive_some(1 << 20)
        assert piece
        data += piece
    return bytes(data)


def test_small_chunks_are_joined() -> None:
    output = Output()
    output.append([b"ab", b"", bytearray(b"cd")])
    output.append([memoryview(b"ef")])
    assert output.size == 6
    assert output.head() == b"abcdef"
    output.sent(6)
    assert not output


def test_a_large_chunk_is_not_copied() -> None:
    large = bytes(1 << 20)
    output = Output()
    output.append([b"size", large, b"rest"])
    assert output.head() == b"size"
    output.sent(4)
    assert output.head() is large
    output.sent(len(large))
    assert output.head() == b"rest"


@pytest.mark.once
async def test_everything_arrives_in_order_through_a_full_socket(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(content(6_000_000))
    region = Region(path, 1000, 5_000_000)
    large = content(3_000_000)
    expected = b"head" + path.read_bytes()[1000:5_001_000] + b"between" + b"more" + large + b"end"
    server, client = connected()
    transport = SocketTransport(server, inline)
    output = Output()
    output.append([b"head", region, b"between"])
    output.append([b"more", memoryview(large), b"end"])
    assert not transport.send_now(output)
    assert 0 < output.size < len(expected)

    received = b""

    async def receive() -> None:
        nonlocal received
        received = await read_all(client, len(expected))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        with trio.fail_after(120):
            await transport.send(output)
    assert not output
    assert received == expected
    assert region.asked == 1
    region.close()
    await transport.close(orderly=True)
    client.close()


async def test_a_region_on_a_cold_disk_is_warmed_off_the_loop_before_it_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(content(10_000_000))
    region = Region(path, 17, 9_000_000, cached=False)
    server, client = connected()
    warmed: list[tuple[int, int]] = []

    async def offload(function: Callable[[*Ts], T], *args: *Ts) -> T:
        descriptor, position, count = cast(tuple[int, int, int], args)
        assert descriptor != region.fileno()
        assert output.sent_of_head == position - 17
        warmed.append((position, count))
        return await inline(function, *args)

    transport = SocketTransport(server, offload)
    descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    output = Output()
    output.append([region])
    assert not transport.send_now(output)
    assert output.size == 9_000_000

    async with trio.open_nursery() as nursery:
        nursery.start_soon(transport.send, output)
        with trio.fail_after(120):
            assert await read_all(client, 9_000_000) == path.read_bytes()[17:9_000_017]
    assert [position for position, _ in warmed] == [17, 17 + (1 << 22), 17 + (2 << 22)]
    assert sum(count for _, count in warmed) == 9_000_000
    assert len(os.listdir("/proc/self/fd")) == descriptors  # noqa: PTH208
    region.close()
    await transport.close(orderly=True)
    client.close()


async def test_a_file_that_ends_before_its_region_ends_the_connection_instead_of_spinning(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"short")
    region = Region(path, 0, 100)
    server, client = connected()
    with server, client:
        output = Output()
        output.append([region])
        with pytest.raises(ConnectionError):
            SocketTransport(server, inline).send_now(output)
    region.close()


async def test_one_call_receives_all_pipelined_bytes_and_zero_is_the_end() -> None:
    server, client = connected()
    transport = SocketTransport(server, inline)
    client.sendall(b"one" + b"two" + b"three")
    buffer = FrameBuffer(1000)
    await transport.readable()
    assert transport.receive(buffer) == 11
    assert transport.receive(buffer) is None
    assert buffer.take_rest() == b"onetwothree"
    client.shutdown(socket.SHUT_WR)
    await transport.readable()
    assert transport.receive(buffer) == 0
    await transport.close(orderly=True)
    client.close()


async def test_closing_wakes_the_task_that_waits_for_the_socket() -> None:
    server, client = connected()
    transport = SocketTransport(server, inline)
    with client, trio.fail_after(120):
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                with pytest.raises(trio.ClosedResourceError):
                    await transport.readable()

            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            await transport.close(orderly=False)
    await transport.close(orderly=False)


async def test_sent_bytes_arrive_although_the_clients_bytes_were_not_read() -> None:
    """Closing a socket with unread input resets the connection, and the reset overtakes what was sent."""
    server, client = connected()
    transport = SocketTransport(server, inline)
    client.sendall(bytes(50_000))
    output = Output()
    output.append([b"last words"])
    assert transport.send_now(output)
    await transport.close(orderly=True)
    with client:
        client.settimeout(5)
        assert client.recv(100) == b"last words"
        assert client.recv(100) == b""
        # A send fails on a connection that was reset, but not yet on one that was closed.
        client.send(b"x")


@pytest.mark.parametrize(
    ("number", "told"), [(errno.EIO, [errno.EIO]), (errno.EUCLEAN, [errno.EUCLEAN]), (errno.ECONNRESET, [])]
)
def test_the_log_gets_an_error_of_its_disk_and_none_of_the_socket(
    number: int, told: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "segment").write_bytes(content(100_000))
    region = Region(tmp_path / "segment", 0, 100_000)
    server, client = connected()
    output = Output()
    output.append([region])

    def broken(*args: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "sendfile", broken)
    with pytest.raises(OSError, match=os.strerror(number)):
        SocketTransport(server, inline).send_now(output)
    assert region.told == told
    for each in (region, server, client):
        each.close()


async def test_the_log_gets_the_error_of_a_cold_region_that_cannot_be_read() -> None:
    # Nothing is mapped at the first address.
    region = Region(Path("/proc/self/mem"), 0, 10, cached=False)
    server, client = connected()
    output = Output()
    output.append([region])
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        await SocketTransport(server, inline).send(output)
    assert region.told == [errno.EIO]
    for each in (region, server, client):
        each.close()
