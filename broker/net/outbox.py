"""The connections whose replies were completed outside of their own turn, and when those replies leave.

Counterpart in Kafka: the response queue of a Processor.
"""

import trio

from ottla.broker.loop.turn import Turn


class Sender:
    """What has replies to send. A base class and no Protocol, because compiled code calls it directly."""

    __slots__ = ()

    def flush(self) -> None:
        """Send the replies that are complete."""
        raise NotImplementedError


class Outbox:
    """The connections of one server with replies that were completed elsewhere."""

    __slots__ = ("_connections", "_idle", "_turn")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._connections: dict[Sender, None] = {}
        self._idle = trio.lowlevel.ParkingLot()

    def begin_turn(self) -> None:
        """Until `end_turn`, a connection has the loop."""
        self._turn.begin()

    def end_turn(self) -> None:
        """Have done what waited for that, others told what happened, and the replies leave."""
        try:
            self._turn.end()
        finally:
            self.flush()

    def add(self, connection: Sender) -> None:
        """Have it flushed when the present turn ends, or else soon."""
        self._connections[connection] = None
        if not self._turn.is_on:
            self._idle.unpark_all()

    def flush(self) -> None:
        """Flush them all."""
        while self._connections:
            connections, self._connections = self._connections, {}
            for connection in connections:
                connection.flush()

    async def run(self) -> None:
        """Flush what no turn flushes, until cancelled."""
        while True:
            self.flush()
            await self._idle.park()
