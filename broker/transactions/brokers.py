"""Requests of transactions to the brokers of the cluster, this one among them.

Owns one connection to each broker. Must not know any request. Counterpart in Kafka: InterBrokerSendThread.
"""

from collections.abc import Awaitable, Callable

import trio

from ottla.broker.net.broker_client import Peer
from ottla.wire.schema import Request, Response

Ask = Callable[[int, Request], Awaitable[Response]]
"""Returns a broker's response. Raises OSError if none comes, NoCommonVersionError if the broker knows no version."""


class Brokers:
    """The brokers of the cluster, for requests of one kind in the versions that this broker may send."""

    def __init__(
        self,
        broker_id: int,
        ask_own: Callable[[Request], Awaitable[Response]],
        peer_for: Callable[[int], Peer],
        *,
        lowest: int,
        highest: int,
    ) -> None:
        """`ask_own` returns the response to this broker's own request, without a socket."""
        self._broker_id = broker_id
        self._ask_own = ask_own
        self._peer_for = peer_for
        self._lowest = lowest
        self._highest = highest
        self._peers: dict[int, Peer] = {}

    async def run(self) -> None:
        """Close the connections in the end."""
        try:
            await trio.sleep_forever()
        finally:
            for peer in self._peers.values():
                await peer.close()

    async def ask(self, broker_id: int, request: Request) -> Response:
        """Return the response of a broker."""
        if broker_id == self._broker_id:
            return await self._ask_own(request)
        peer = self._peers.get(broker_id)
        if peer is None:
            peer = self._peers[broker_id] = self._peer_for(broker_id)
        return await peer.ask_newest(request, lowest=self._lowest, highest=self._highest)
