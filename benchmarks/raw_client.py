"""A client of almost no cost: it sends frames encoded beforehand over raw sockets, and counts replies.

It checks every reply for error codes, because with errors the figure would be worthless.
"""

import itertools
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence

Check = Callable[[memoryview], None]
RECEIVE_SIZE = 4 << 20


class _Connection:
    """A connection that keeps a number of requests in flight."""

    def __init__(self, address: tuple[str, int], frames: Sequence[bytes], in_flight: int) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.frames = frames
        self.next = 0
        self.buffer = bytearray(RECEIVE_SIZE)
        self.held = 0
        self.unsent: deque[memoryview] = deque()
        self.socket.setblocking(False)
        self.send(in_flight)

    def send(self, count: int) -> None:
        """Queue the next frames, and send as much as the socket takes."""
        for _ in range(count):
            self.unsent.append(memoryview(self.frames[self.next]))
            self.next = (self.next + 1) % len(self.frames)
        self.push()

    def push(self) -> None:
        """Send as much of the queue as the socket takes."""
        while self.unsent:
            batch = list(itertools.islice(self.unsent, 64))
            try:
                sent = self.socket.sendmsg(batch)
            except BlockingIOError:
                return
            for chunk in batch:
                if sent < len(chunk):
                    self.unsent[0] = chunk[sent:]
                    break
                sent -= len(chunk)
                self.unsent.popleft()

    def receive(self, check: Check) -> tuple[int, int]:
        """Read the arrived replies; return their number and their bytes."""
        view = memoryview(self.buffer)
        size = self.socket.recv_into(view[self.held :])
        if size == 0:
            raise ConnectionError("the broker closed the connection")
        end, position, replies = self.held + size, 0, 0
        while end - position >= 4:
            after = position + 4 + int.from_bytes(view[position : position + 4], "big")
            if after > end:
                break
            check(view[position + 4 : after])
            position = after
            replies += 1
        self.held = end - position
        view[: self.held] = bytes(view[position:end])
        return replies, position


def drive(
    address: tuple[str, int],
    frames_of: Callable[[int], Sequence[bytes]],
    *,
    connections: int,
    in_flight: int,
    seconds: float,
    check: Check,
) -> tuple[float, float]:
    """Load a broker for some seconds; return replies a second and received bytes a second."""
    selector = selectors.DefaultSelector()
    load = [_Connection(address, frames_of(i), in_flight) for i in range(connections)]
    for connection in load:
        selector.register(connection.socket, _interest(connection), connection)
    replies = size = 0
    began = time.perf_counter()
    deadline = began + seconds
    while time.perf_counter() < deadline:
        for key, events in selector.select(1.0):
            connection = key.data
            if events & selectors.EVENT_READ:
                count, received = connection.receive(check)
                replies += count
                size += received
                connection.send(count)
            else:
                connection.push()
            if key.events != _interest(connection):
                selector.modify(connection.socket, _interest(connection), connection)
    took = time.perf_counter() - began
    for connection in load:
        connection.socket.close()
    selector.close()
    return replies / took, size / took


def _interest(connection: _Connection) -> int:
    return selectors.EVENT_READ | selectors.EVENT_WRITE if connection.unsent else selectors.EVENT_READ
