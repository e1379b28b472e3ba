"""The client behind a request: who asks, from where, and through which listener.

Owns `ClientSession` (what all requests of a connection share) and `RequestContext` (what a handler is told about one
request). Must not know sockets or any message. Counterpart in Kafka: RequestContext.
"""

from typing import Final

ANONYMOUS: Final = "User:ANONYMOUS"


class RequestContext:
    """Who asks for what. Equal requests of one connection share one context: nobody may change it."""

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
    """What is known of a connection's client, whatever it asks."""

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
        """The context of a request; mostly that of the request before it, since clients repeat themselves."""
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
