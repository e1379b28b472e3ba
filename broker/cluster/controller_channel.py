"""Sends this broker's requests to the controller.

Owns the connection to the controller that the metadata names. Must not know the requests, nor send one twice: callers
may after an OSError. Counterpart in Kafka: NodeToControllerChannelManager.
"""

from collections.abc import Callable
from typing import Protocol

from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.wire.errors import ErrorCode
from ottla.wire.schema import Request, Response


class LocalController(Protocol):
    """The controller in this broker."""

    async def send(self, request: Request) -> Response:
        """Return the response."""
        ...


class RemoteController(Protocol):
    """A connection to the controller in another broker."""

    async def ask_newest(self, request: Request) -> Response:
        """Return the response, in the newest version that both sides know; OSError if there is none."""
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...


class ControllerChannel:
    """Requests to the controller, wherever it is."""

    def __init__(
        self,
        broker_id: int,
        metadata: MetadataCache,
        local: LocalController,
        remote: Callable[[int], RemoteController],
    ) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._local = local
        self._remote = remote
        self._connected: tuple[int, RemoteController] | None = None

    async def ask(self, request: Request) -> Response:
        """Return the controller's response; OSError if there is none, or the broker asked is no controller any more."""
        controller_id = self._metadata.controller_id
        if controller_id is None:
            raise ConnectionError("this broker knows no controller")
        if controller_id == self._broker_id:
            response = await self._local.send(request)
        else:
            response = await (await self._connection(controller_id)).ask_newest(request)
        if getattr(response, "error_code", ErrorCode.NONE) == ErrorCode.NOT_CONTROLLER:
            raise ConnectionError(f"broker {controller_id} is not the controller any more")
        return response

    async def _connection(self, controller_id: int) -> RemoteController:
        if self._connected is None or self._connected[0] != controller_id:
            await self.close()
            self._connected = controller_id, self._remote(controller_id)
        return self._connected[1]

    async def close(self) -> None:
        """Close the connection, if there is one."""
        connected, self._connected = self._connected, None
        if connected is not None:
            await connected[1].close()
