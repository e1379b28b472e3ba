"""What a client's request moves, and when others hear of it."""

import socket
import struct
from collections.abc import Callable

import trio

from ottla.broker.loop.turn import Turn
from ottla.broker.replicas.watchers import LOG_END, OffsetSignal
from ottla.wire.types import TopicPartition
from tests.broker.net.test_server import RunningServer
from tests.broker.support.toy import frames


class Told:
    """Waits for a partition, and does something when that moves."""

    PARTITION = TopicPartition("t", 0)

    def __init__(self, running: RunningServer, then: Callable[[], None] = lambda: None) -> None:
        self.then = then
        self.event = trio.Event()
        self.signal = OffsetSignal(running.turn)
        self.signal.watch(self.PARTITION, LOG_END, self)

    def move(self) -> None:
        """As what a request does."""
        self.signal.notify(self.PARTITION, LOG_END)

    def partition_moved(self) -> None:
        self.then()
        self.event.set()


async def test_who_waits_for_what_a_request_moves_is_told_when_its_reply_has_left(nursery: trio.Nursery) -> None:
    running = RunningServer(nursery)
    received: list[bytes] = []
    with socket.create_connection(running.address) as client:
        told = Told(running, lambda: received.append(client.recv(100, socket.MSG_DONTWAIT)))
        running.toy.actions["it"] = told.move
        client.sendall(frames("do it"))
        with trio.fail_after(120):
            await told.event.wait()
    assert b"it" in received[0]


async def test_others_are_told_what_a_client_moved_that_is_gone_before_its_reply(nursery: trio.Nursery) -> None:
    running = RunningServer(nursery)
    told = Told(running)
    client = socket.create_connection(running.address)

    def move_and_reset() -> None:
        told.move()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()

    running.toy.actions["it"] = move_and_reset
    client.sendall(frames("do it"))
    with trio.fail_after(120):
        await told.event.wait()


def test_what_waits_for_the_end_of_a_turn_is_called_then_with_what_that_adds() -> None:
    turn = Turn()
    called: list[str] = []

    def first() -> None:
        called.append("first")
        turn.at_end(lambda: called.append("added"))

    turn.begin()
    turn.at_end(first)
    turn.at_end(lambda: called.append("second"))
    assert called == []
    turn.end()
    assert called == ["first", "second", "added"]
    turn.begin()
    turn.end()
    assert called == ["first", "second", "added"]


def test_without_a_turn_nothing_waits_for_its_end() -> None:
    turn = Turn()
    called: list[str] = []
    turn.at_end(lambda: called.append("at once"))
    assert called == ["at once"]
