"""A reply that a connection still has to send.

Owns its encoding, once the response is known. Must not know sockets or any message.
"""

from typing import Any

from ottla.broker.loop.deferred import Deferred
from ottla.wire.codec import Chunk, encode_response


class Owed:
    """A reply that will come. `reply` holds its bytes from then until its turn to leave.

    It knows nothing of the request: that would keep the connection's receive buffer.
    """

    __slots__ = ("_correlation_id", "_version", "deferred", "reply", "size")

    def __init__(self, deferred: Deferred[Any], correlation_id: int, version: int) -> None:
        self.deferred = deferred
        self._correlation_id = correlation_id
        self._version = version
        self.reply: list[Chunk] | None = None
        self.size = 0

    def encode(self, response: Any) -> None:
        """Make the response bytes, and keep them; None, as for acks=0, makes none."""
        reply = [] if response is None else encode_response(self._correlation_id, response, self._version)
        self.reply = reply
        self.size = sum(map(len, reply))


class EncodedOwed(Owed):
    """A reply that will come as bytes."""

    __slots__ = ()

    def encode(self, response: list[Chunk]) -> None:
        """Keep the bytes."""
        self.reply = response
        self.size = sum(map(len, response))
