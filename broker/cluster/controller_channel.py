"""The way from this broker to whoever is the controller.

Owns who that is, as far as this broker was told, and the connection to it. Must not know what is asked, nor ask again:
whoever gets an OSError may. Counterpart in Kafka: NodeToControllerChannelManager.
"""

from collections.abc import Callable
from typing import Protocol

from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.wire.errors import ErrorCode
from ottla.wire.schema import Request, Response


class LocalController(Protocol):
    """The controller of this broker itself."""

    async def send(self, request: Request) -> Response:
        """Have the request handled."""
        ...


class RemoteController(Protocol):
    """A connection to the controller of another broker."""

    async def ask_newest(self, request: Request) -> Response:
        """Return the answer, in the newest version that both sides understand; OSError if there is none."""
        ...

    async def close(self) -> None:
        """Ask nothing any more."""
        ...


class ControllerChannel:
    """Asks the controller."""

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
        """Return the controller's answer; OSError if there is none, or if the one that was asked is not it any more."""
        controller_id = self._metadata.controller_id
        if controller_id is None:
            raise ConnectionError("no controller is known")
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
        """Let go of the connection."""
        connected, self._connected = self._connected, None
        if connected is not None:
            await connected[1].close()
