"""A listener in a process that is out of descriptors: connections get descriptors of other parts, or wait."""

import contextlib
import os
import resource
import socket
from collections.abc import Iterator

import pytest
import trio

from tests.broker.net.test_server import RunningServer
from tests.broker.support.toy import ToyClient


async def test_a_listener_without_descriptors_takes_them_from_other_parts(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    spare = [os.open(os.devnull, os.O_RDONLY) for _ in range(9)]

    def give_up() -> bool:
        if not spare:
            return False
        os.close(spare.pop())
        return True

    running = RunningServer(nursery, give_up_files=give_up)
    client = socket.socket()
    with no_more_descriptors(client.fileno() + 20), trio.fail_after(30):
        client.connect(running.address)
        served = ToyClient(trio.SocketStream(trio.socket.from_stdlib_socket(client)))
        await served.send("say room")
        assert await served.reply() == "room"
    assert len(spare) < 9
    for descriptor in spare:
        os.close(descriptor)
    assert "cannot accept" not in caplog.text
    await served.stream.aclose()


@contextlib.contextmanager
def no_more_descriptors(limit: int) -> Iterator[None]:
    """Use up all descriptors of this process below a limit."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    held: list[int] = []
    try:
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for descriptor in held:
            os.close(descriptor)


async def test_running_out_of_descriptors_does_not_end_the_listener(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    running = RunningServer(nursery)
    client = socket.socket()
    with no_more_descriptors(client.fileno() + 20), trio.fail_after(30):
        client.connect(running.address)
        while "cannot accept" not in caplog.text:
            await trio.sleep(0)
    with trio.fail_after(5):
        served = ToyClient(trio.SocketStream(trio.socket.from_stdlib_socket(client)))
        await served.send("say late")
        assert await served.reply() == "late"
        await served.stream.aclose()
