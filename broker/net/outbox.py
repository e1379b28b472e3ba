"""The connections whose replies were completed outside of their own turn.

Owns the time at which these replies are sent: the end of the current turn, else soon. Must not know sockets or replies.
Counterpart in Kafka: the response queue of a Processor.
"""

import trio

from ottla.broker.loop.turn import Turn


class Sender:
    """A connection with replies to send. A base class and no Protocol, because compiled code calls it directly."""

    __slots__ = ()

    def flush(self) -> None:
        """Send the replies that are complete."""
        raise NotImplementedError


class Outbox:
    """The connections of one server that are to be flushed."""

    __slots__ = ("_connections", "_idle", "_turn")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._connections: dict[Sender, None] = {}
        self._idle = trio.lowlevel.ParkingLot()

    def begin_turn(self) -> None:
        """Begin a connection's turn."""
        self._turn.begin()

    def end_turn(self) -> None:
        """Run the end-of-turn callbacks, then send the replies."""
        try:
            self._turn.end()
        finally:
            self.flush()

    def add(self, connection: Sender) -> None:
        """Flush the connection at the end of the current turn; without a turn, soon."""
        self._connections[connection] = None
        if not self._turn.is_on:
            self._idle.unpark_all()

    def flush(self) -> None:
        """Flush all connections."""
        while self._connections:
            connections, self._connections = self._connections, {}
            for connection in connections:
                connection.flush()

    async def run(self) -> None:
        """Flush the connections that no turn flushes, until cancelled."""
        while True:
            self.flush()
            await self._idle.park()
