"""The client behind a request: its principal, its address and its listener.

Owns `ClientSession` (shared by all requests of a connection) and `RequestContext` (passed to a handler with one
request). Must not know sockets or any message. Counterpart in Kafka: RequestContext.
"""

from typing import Final

ANONYMOUS: Final = "User:ANONYMOUS"


class RequestContext:
    """The client, API and version of a request. Never changed, because equal requests of a connection share it."""

    __slots__ = (
        "api_key",
        "api_version",
        "client_address",
        "client_id",
        "connection_id",
        "listener_name",
        "principal",
    )

    def __init__(
        self,
        api_key: int,
        api_version: int,
        client_id: str | None = None,
        *,
        listener_name: str = "PLAINTEXT",
        principal: str = ANONYMOUS,
        client_address: str = "",
        connection_id: str = "",
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.client_id = client_id
        self.listener_name = listener_name
        self.principal = principal
        self.client_address = client_address
        self.connection_id = connection_id

    def __repr__(self) -> str:
        return (
            f"RequestContext(api_key={self.api_key}, api_version={self.api_version}, client_id={self.client_id!r}, "
            f"listener_name={self.listener_name!r}, principal={self.principal!r}, connection_id={self.connection_id!r})"
        )


class ClientSession:
    """The client of a connection."""

    __slots__ = ("_last", "client_address", "connection_id", "listener_name", "principal")

    def __init__(
        self,
        *,
        listener_name: str = "PLAINTEXT",
        principal: str = ANONYMOUS,
        client_address: str = "",
        connection_id: str = "",
    ) -> None:
        self.listener_name = listener_name
        self.principal = principal
        self.client_address = client_address
        self.connection_id = connection_id
        self._last = self._new_context(-1, -1, None)

    def context(self, api_key: int, api_version: int, client_id: str | None) -> RequestContext:
        """Return the context of a request: the last one again, if API, version and client id are the same."""
        last = self._last
        if last.api_key != api_key or last.api_version != api_version or last.client_id != client_id:
            last = self._last = self._new_context(api_key, api_version, client_id)
        return last

    def _new_context(self, api_key: int, api_version: int, client_id: str | None) -> RequestContext:
        return RequestContext(
            api_key,
            api_version,
            client_id,
            listener_name=self.listener_name,
            principal=self.principal,
            client_address=self.client_address,
            connection_id=self.connection_id,
        )
