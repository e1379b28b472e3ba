"""A response that comes later, and the answer that is none.

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
