"""What a client's request moves, and when others hear of it."""

import socket
import struct
from collections.abc import Callable

import trio

from ottla.broker.offset_signal import LOG_END
from ottla.wire.types import TopicPartition
from tests.broker.test_server import RunningServer
from tests.broker.toy import frames


class Told:
    """Waits for a partition, and does something when that moves."""

    PARTITION = TopicPartition("t", 0)

    def __init__(self, running: RunningServer, then: Callable[[], None] = lambda: None) -> None:
        self.then = then
        self.event = trio.Event()
        running.signal.watch(self.PARTITION, LOG_END, self)

    def partition_moved(self) -> None:
        self.then()
        self.event.set()


async def test_who_waits_for_what_a_request_moves_is_told_when_its_reply_has_left(nursery: trio.Nursery) -> None:
    running = RunningServer(nursery)
    received: list[bytes] = []
    with socket.create_connection(running.address) as client:
        told = Told(running, lambda: received.append(client.recv(100, socket.MSG_DONTWAIT)))
        running.toy.actions["it"] = lambda: running.signal.notify(Told.PARTITION, LOG_END)
        client.sendall(frames("do it"))
        with trio.fail_after(5):
            await told.event.wait()
    assert b"it" in received[0]


async def test_others_are_told_what_a_client_moved_that_is_gone_before_its_reply(nursery: trio.Nursery) -> None:
    running = RunningServer(nursery)
    told = Told(running)
    client = socket.create_connection(running.address)

    def move_and_reset() -> None:
        running.signal.notify(Told.PARTITION, LOG_END)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()

    running.toy.actions["it"] = move_and_reset
    client.sendall(frames("do it"))
    with trio.fail_after(5):
        await told.event.wait()
