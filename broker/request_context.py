"""What a handler is told about a request, and the reply that it may owe.

Owns `RequestContext` (who asks for what, through which door), `ClientSession` (what all requests of a connection
share), `Deferred` (a reply that comes later) and `CloseConnection` (the answer that is no answer). Must not know
sockets, trio or any message: whoever completes a deferred does not know who waits for it.
Counterparts in Kafka: RequestContext, DelayedOperation.
"""

import logging
from collections.abc import Callable
from typing import Final, Generic, TypeVar

R = TypeVar("R")
S = TypeVar("S")

logger = logging.getLogger("kafka.server.KafkaApis")

ANONYMOUS: Final = "User:ANONYMOUS"


class CloseConnection(Exception):  # noqa: N818 - not an error of ours
    """Raised by a handler where Kafka answers by closing, as for a failed Produce with acks=0."""


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


class Deferred(Generic[R]):
    """A reply that is owed; None, once it is known, means that there is none.

    `applied`: the request's effect is done and only its reply waits (acks=all), so that further requests of the
    connection may be handled before it leaves. Otherwise the connection is muted until then, but `repeatable` lets pass
    what directly follows in the same turn and asks for the same: their effects come together, and in order.
    """

    __slots__ = ("_closed", "_on_close", "_response", "_then", "applied", "done", "on_abandon", "repeatable")

    def __init__(
        self, applied: bool, on_abandon: Callable[[], None] | None = None, *, repeatable: bool = False
    ) -> None:
        self.applied = applied
        self.repeatable = repeatable
        self.done = False
        self.on_abandon = on_abandon
        self._response: R | None = None
        self._closed: CloseConnection | None = None
        self._then: Callable[[R], None] | None = None
        self._on_close: Callable[[CloseConnection], None] | None = None

    @property
    def response(self) -> R:
        """The reply; only of one that is done. Raises the reason for closing where that is the outcome."""
        if self._closed is not None:
            raise self._closed
        if not self.done:
            raise RuntimeError("this deferred has no response yet")
        return self._response  # type: ignore[return-value]

    def complete(self, response: R) -> None:
        """Give the reply. What ends it first wins, later calls are ignored."""
        if self.done:
            return
        self._response = response
        then = self._then
        self._end()
        if then is not None:
            then(response)

    def close(self, reason: CloseConnection) -> None:
        """Close the connection instead of a reply."""
        if self.done:
            return
        self._closed = reason
        on_close = self._on_close
        self._end()
        if on_close is not None:
            on_close(reason)

    def abandon(self) -> None:
        """Nobody waits any more: tells whoever would complete it, so that nothing stays parked."""
        if self.done:
            return
        self._closed = CloseConnection("nobody waits any more")
        on_abandon = self.on_abandon
        self._end()
        if on_abandon is not None:
            on_abandon()

    def then(self, callback: Callable[[R], None], on_close: Callable[[CloseConnection], None] | None = None) -> None:
        """Have the one waiter called when this is done, at once if it is."""
        if not self.done:
            self._then = callback
            self._on_close = on_close
        elif self._closed is None:
            callback(self._response)  # type: ignore[arg-type]
        elif on_close is not None:
            on_close(self._closed)

    def map(self, change: Callable[[R], S]) -> "Deferred[S]":
        """Return a Deferred that completes with `change(response)`; wait on that one. A bug in `change` closes it."""
        changed: Deferred[S] = Deferred(self.applied, self.abandon, repeatable=self.repeatable)

        def complete(response: R) -> None:
            try:
                result = change(response)
            except CloseConnection as reason:
                changed.close(reason)
            except Exception as error:
                logger.exception("A bug: there is no reply")
                changed.close(CloseConnection(f"there is no reply: {error!r}"))
            else:
                changed.complete(result)

        self.then(complete, changed.close)
        return changed

    def _end(self) -> None:
        self.done = True
        self.on_abandon = self._then = self._on_close = None
