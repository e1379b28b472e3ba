"""Responses that come later, and closing the connection instead of a response.

Owns `Deferred` (a response that comes later) and `CloseConnection` (Kafka closes instead of answering). Must not know
sockets, trio or any message: the code that completes a deferred does not know which code waits for it.
Counterpart in Kafka: DelayedOperation.
"""

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

R = TypeVar("R")
S = TypeVar("S")

logger = logging.getLogger("kafka.server.KafkaApis")


class CloseConnection(Exception):  # noqa: N818 - not an error of ours
    """Raised by a handler where Kafka answers by closing, as for a failed Produce with acks=0."""


class Deferred(Generic[R]):
    """A response that comes later. None means: send nothing (acks=0).

    `applied`: the request has taken effect and only its response waits (acks=all). The connection may handle further
    requests meanwhile; otherwise it is muted until the response is sent. `repeatable` lets requests of the same kind
    pass that follow directly in the same turn, because their effects come together and in order.
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
        """Return the response once it is there; raise CloseConnection if the connection is closed instead."""
        if self._closed is not None:
            raise self._closed
        if not self.done:
            raise RuntimeError("this deferred has no response yet")
        return self._response  # type: ignore[return-value]

    def complete(self, response: R) -> None:
        """Complete with a response. Only the first call of `complete`, `close` or `abandon` counts."""
        if self.done:
            return
        self._response = response
        then = self._then
        self._end()
        if then is not None:
            then(response)

    def close(self, reason: CloseConnection) -> None:
        """Close the connection instead of sending a response."""
        if self.done:
            return
        self._closed = reason
        on_close = self._on_close
        self._end()
        if on_close is not None:
            on_close(reason)

    def abandon(self) -> None:
        """Give the response up and call `on_abandon`, so that the code that would complete this forgets it."""
        if self.done:
            return
        self._closed = CloseConnection("the response was given up")
        on_abandon = self.on_abandon
        self._end()
        if on_abandon is not None:
            on_abandon()

    def then(self, callback: Callable[[R], None], on_close: Callable[[CloseConnection], None] | None = None) -> None:
        """Set the only callbacks, called when this is done; at once if it is done already."""
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
                logger.exception("A bug: the response could not be made; its connection is closed")
                changed.close(CloseConnection(f"the response could not be made: {error!r}"))
            else:
                changed.complete(result)

        self.then(complete, changed.close)
        return changed

    def _end(self) -> None:
        self.done = True
        self.on_abandon = self._then = self._on_close = None
