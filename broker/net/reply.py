"""A reply that comes later.

Owns its encoding, once the response is known. Must not know sockets or any message. Counterpart in Kafka:
RequestChannel.Response.
"""

from typing import Any

from ottla.broker.loop.deferred import Deferred
from ottla.wire.codec import Chunk, encode_response


class Owed:
    """A reply that comes later. `reply` is None until then; its bytes are kept until earlier replies are sent.

    It must not refer to the request, because that would keep the connection's receive buffer.
    """

    __slots__ = ("_correlation_id", "_version", "deferred", "reply", "size")

    def __init__(self, deferred: Deferred[Any], correlation_id: int, version: int) -> None:
        self.deferred = deferred
        self._correlation_id = correlation_id
        self._version = version
        self.reply: list[Chunk] | None = None
        self.size = 0

    def encode(self, response: Any) -> None:
        """Encode the response into `reply`. None means: send nothing (acks=0)."""
        reply = [] if response is None else encode_response(self._correlation_id, response, self._version)
        self.reply = reply
        self.size = sum(map(len, reply))


class EncodedOwed(Owed):
    """A reply that comes later, already encoded."""

    __slots__ = ()

    def encode(self, response: list[Chunk]) -> None:
        """Keep the encoded response as `reply`."""
        self.reply = response
        self.size = sum(map(len, response))
