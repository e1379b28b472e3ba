"""How the controller's requests reach brokers: each has its own queue, and gets one request at a time.

Owns the queues, the version in which a request is sent, and trying again while a broker is registered. Must not know
what a request does.
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
    """A way to one broker."""

    async def send(self, request: ControlRequest) -> Response:
        """Return the broker's answer; OSError if the request may not have arrived."""
        ...

    async def close(self) -> None:
        """Send nothing any more."""
        ...


class LocalPeer:
    """The way to this broker itself: the same handlers, without a socket."""

    def __init__(self, handlers: Mapping[type[Request], Callable[[Any], Any]]) -> None:
        """Take, for each request, a handler that returns a response or a deferred one."""
        self._handlers = handlers

    async def send(self, request: Request) -> Response:
        """Have the request handled."""
        reply = self._handlers[type(request)](request)
        if isinstance(reply, Deferred):
            is_done = trio.Event()
            reply.then(lambda _: is_done.set())
            await is_done.wait()
            reply = reply.response
        assert isinstance(reply, Response)
        return reply

    async def close(self) -> None:
        """There is nothing to close."""


class RemotePeer:
    """The way to another broker: requests in the versions of `inter.broker.protocol.version`, over a connection."""

    def __init__(
        self,
        where: Where,
        offload: Offload,
        config: BrokerConfig,
        controller_id: int,
        connect: Connect = open_socket,
    ) -> None:
        """Take where the broker is to be reached, which is looked up for each connection."""
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
        """Ask the broker."""
        return await self._connection.ask(request, self._versions[request.api_key])

    async def close(self) -> None:
        """End the connection."""
        await self._connection.close()


Answered = Callable[[int, ControlRequest, Response], None]


class BrokerQueues:
    """The queues of all registered brokers; tasks of one nursery empty them."""

    def __init__(self, nursery: trio.Nursery, peers: Callable[[int], Peer], answered: Answered) -> None:
        self._nursery = nursery
        self._peers = peers
        self._answered = answered
        self._queues: dict[int, tuple[trio.MemorySendChannel[ControlRequest | trio.Event], trio.CancelScope]] = {}

    def add(self, broker_id: int) -> None:
        """Begin a queue for a broker that has registered."""
        sender, receiver = trio.open_memory_channel[ControlRequest | trio.Event](math.inf)
        scope = trio.CancelScope()
        self._queues[broker_id] = sender, scope
        self._nursery.start_soon(self._empty, broker_id, receiver, scope)

    def remove(self, broker_id: int) -> None:
        """Drop the queue of a broker that is gone, with all that is in it."""
        found = self._queues.pop(broker_id, None)
        if found is not None:
            found[1].cancel()

    def clear(self) -> None:
        """Drop all queues."""
        for broker_id in list(self._queues):
            self.remove(broker_id)

    def send(self, broker_id: int, request: ControlRequest) -> None:
        """Queue a request."""
        found = self._queues.get(broker_id)
        if found is not None:
            found[0].send_nowait(request)

    async def flush(self, broker_id: int) -> None:
        """Return when a broker has answered all that is queued for it now."""
        found = self._queues.get(broker_id)
        if found is not None:
            mark = trio.Event()
            found[0].send_nowait(mark)
            await mark.wait()

    async def _empty(
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
                logger.warning("broker %s was not reached: %s", broker_id, error)
                await trio.sleep(_RETRY_AFTER_SECONDS)
            except Exception:
                logger.exception("broker %s could not handle %s", broker_id, type(request).__name__)
                return
            else:
                self._answered(broker_id, request, response)
                return


def _release(receiver: trio.MemoryReceiveChannel[ControlRequest | trio.Event]) -> None:
    """Let go of who waits for a queue that is dropped."""
    while True:
        try:
            item = receiver.receive_nowait()
        except (trio.WouldBlock, trio.EndOfChannel):
            return
        if isinstance(item, trio.Event):
            item.set()
