"""Callbacks at the end of a turn, and the watchers that they notify."""

import socket
import struct
from collections.abc import Callable

import trio

from ottla.broker.loop.turn import Turn
from ottla.broker.replicas.watchers import LOG_END, OffsetSignal
from ottla.wire.types import TopicPartition
from tests.broker.net.test_server import RunningServer
from tests.broker.support.toy import frames


class Watcher:
    """Watches the log end of a partition, and calls `then` when it moves."""

    PARTITION = TopicPartition("t", 0)

    def __init__(self, running: RunningServer, then: Callable[[], None] = lambda: None) -> None:
        self.then = then
        self.event = trio.Event()
        self.signal = OffsetSignal(running.turn)
        self.signal.watch(self.PARTITION, LOG_END, self)

    def move(self) -> None:
        """Move the log end, as a request does."""
        self.signal.notify(self.PARTITION, LOG_END)

    def partition_moved(self) -> None:
        self.then()
        self.event.set()


async def test_a_watcher_is_notified_after_the_response_to_the_moving_request(
    nursery: trio.Nursery,
) -> None:
    running = RunningServer(nursery)
    received: list[bytes] = []
    with socket.create_connection(running.address) as client:
        watcher = Watcher(running, lambda: received.append(client.recv(100, socket.MSG_DONTWAIT)))
        running.toy.actions["it"] = watcher.move
        client.sendall(frames("do it"))
        with trio.fail_after(120):
            await watcher.event.wait()
    assert b"it" in received[0]


async def test_a_watcher_is_notified_though_the_client_that_moved_the_offset_is_gone(nursery: trio.Nursery) -> None:
    running = RunningServer(nursery)
    watcher = Watcher(running)
    client = socket.create_connection(running.address)

    def move_and_reset() -> None:
        watcher.move()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()

    running.toy.actions["it"] = move_and_reset
    client.sendall(frames("do it"))
    with trio.fail_after(120):
        await watcher.event.wait()


def test_callbacks_run_at_the_end_of_a_turn_with_those_that_they_add() -> None:
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


def test_a_callback_runs_at_once_outside_a_turn() -> None:
    turn = Turn()
    called: list[str] = []
    turn.at_end(lambda: called.append("at once"))
    assert called == ["at once"]
