"""The queues of the controller's requests, one for each broker, which gets one request at a time.

Owns the queues, the versions of requests, and retries while a broker is registered. Must not know what a request does.
Counterparts in Kafka: ControllerChannelManager, RequestSendThread.
"""

import logging
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import trio

from ottla.broker.config.broker_config import BrokerConfig
from ottla.broker.config.protocol_versions import protocol_versions
from ottla.broker.controller.request_batch import ControlRequest
from ottla.broker.loop.clock import Offload
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.broker_client import Connect, Where, open_socket
from ottla.broker.net.broker_client import Peer as Connection
from ottla.wire.schema import Request, Response

logger = logging.getLogger("kafka.controller.RequestSendThread")

_RETRY_AFTER_SECONDS: Final = 0.1


class Peer(Protocol):
    """A connection to one broker."""

    async def send(self, request: ControlRequest) -> Response:
        """Return the broker's response; OSError if the request may not have arrived."""
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...


class LocalPeer:
    """The connection to this broker itself: the same handlers, without a socket."""

    def __init__(self, handlers: Mapping[type[Request], Callable[[Any], Any]]) -> None:
        """`handlers` return a response or a Deferred."""
        self._handlers = handlers

    async def send(self, request: Request) -> Response:
        """Return the handler's response, once it is there."""
        reply = self._handlers[type(request)](request)
        if isinstance(reply, Deferred):
            is_done = trio.Event()
            reply.then(lambda _: is_done.set(), lambda _: is_done.set())
            await is_done.wait()
            reply = reply.response
        assert isinstance(reply, Response)
        return reply

    async def close(self) -> None:
        """Do nothing."""


class RemotePeer:
    """The connection to another broker, with requests in the versions of `inter.broker.protocol.version`."""

    def __init__(
        self,
        where: Where,
        offload: Offload,
        config: BrokerConfig,
        controller_id: int,
        connect: Connect = open_socket,
    ) -> None:
        """`where` returns the broker's address, and is called for each connection."""
        self._connection = Connection(
            where,
            offload,
            client_id=str(controller_id),
            request_timeout_ms=config.controller_socket_timeout_ms,
            max_frame=config.socket_request_max_bytes,
            connect=connect,
        )
        self._versions = protocol_versions(config.inter_broker_protocol_version)

    async def send(self, request: ControlRequest) -> Response:
        """Return the broker's response."""
        return await self._connection.ask(request, self._versions[request.api_key])

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()


Received = Callable[[int, ControlRequest, Response], None]


class BrokerQueues:
    """The queues of all registered brokers, each with a task that sends its requests."""

    def __init__(self, nursery: trio.Nursery, peers: Callable[[int], Peer], received: Received) -> None:
        self._nursery = nursery
        self._peers = peers
        self._received = received
        self._queues: dict[int, tuple[trio.MemorySendChannel[ControlRequest | trio.Event], trio.CancelScope]] = {}

    def add(self, broker_id: int) -> None:
        """Start the queue of a registered broker."""
        sender, receiver = trio.open_memory_channel[ControlRequest | trio.Event](math.inf)
        scope = trio.CancelScope()
        self._queues[broker_id] = sender, scope
        self._nursery.start_soon(self._send_all, broker_id, receiver, scope)

    def remove(self, broker_id: int) -> None:
        """Drop the queue of a broker with its requests."""
        found = self._queues.pop(broker_id, None)
        if found is not None:
            found[1].cancel()

    def clear(self) -> None:
        """Drop all queues."""
        for broker_id in list(self._queues):
            self.remove(broker_id)

    def send(self, broker_id: int, request: ControlRequest) -> None:
        """Queue a request, unless the broker has no queue."""
        found = self._queues.get(broker_id)
        if found is not None:
            found[0].send_nowait(request)

    async def flush(self, broker_id: int) -> None:
        """Return when a broker has responded to all requests queued so far."""
        found = self._queues.get(broker_id)
        if found is not None:
            mark = trio.Event()
            found[0].send_nowait(mark)
            await mark.wait()

    async def _send_all(
        self,
        broker_id: int,
        receiver: trio.MemoryReceiveChannel[ControlRequest | trio.Event],
        scope: trio.CancelScope,
    ) -> None:
        peer = self._peers(broker_id)
        try:
            with scope:
                async for item in receiver:
                    if isinstance(item, trio.Event):
                        item.set()
                    else:
                        await self._send(broker_id, peer, item)
        finally:
            _release(receiver)
            await peer.close()

    async def _send(self, broker_id: int, peer: Peer, request: ControlRequest) -> None:
        while True:
            try:
                response = await peer.send(request)
            except OSError as error:
                logger.warning("Broker %s could not be reached, trying again: %s", broker_id, error)
                await trio.sleep(_RETRY_AFTER_SECONDS)
            except Exception:
                logger.exception("Broker %s failed at %s, which is not repeated", broker_id, type(request).__name__)
                return
            else:
                self._received(broker_id, request, response)
                return


def _release(receiver: trio.MemoryReceiveChannel[ControlRequest | trio.Event]) -> None:
    """Release the tasks in `flush` of a dropped queue."""
    while True:
        try:
            item = receiver.receive_nowait()
        except (trio.WouldBlock, trio.EndOfChannel):
            return
        if isinstance(item, trio.Event):
            item.set()
