"""The effects that a decision may ask for: append records, send a reply, set a timer, cancel one.

Owns these four, `Decision`, which collects them while one event is decided, and the errors of appends as clients of a
coordinator expect them. Must not know groups, transactions, or the code that carries the effects out. Counterparts in
Kafka: CoordinatorResult, and the callbacks that the classic coordinator passes around.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, NamedTuple

from ottla.wire.errors import ErrorCode

Send = Callable[[Any], None]
"""Takes the response to one request. The code that holds it must call it exactly once."""
Record = tuple[bytes, bytes | None]
"""Key and value; the value None makes a tombstone."""

COORDINATOR_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""The error of an append, and the error that clients of a coordinator expect in its place."""


class Caller(NamedTuple):
    """The client of a request: its id, its address as Java prints it ("/127.0.0.1"), the version of the request."""

    client_id: str
    client_host: str
    api_version: int


class Append(NamedTuple):
    """Append the records in one batch. `then` decides the next event, once the batch is committed or has failed."""

    records: Sequence[Record]
    then: "Callable[[Decision, ErrorCode], None]"


class Reply(NamedTuple):
    """Send the response to a request."""

    send: Send
    response: Any


class SetTimer(NamedTuple):
    """Call `timer_fired(key)` in so many milliseconds. A timer that is set already is moved."""

    key: Hashable
    delay_ms: int


class CancelTimer(NamedTuple):
    """Cancel a timer. Harmless for a timer that is not set."""

    key: Hashable


Effect = Append | Reply | SetTimer | CancelTimer


class Decision:
    """One event being decided: its time, and its effects so far, in their order."""

    __slots__ = ("effects", "now_ms")

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.effects: list[Effect] = []

    def append(self, records: Sequence[Record], then: "Callable[[Decision, ErrorCode], None]") -> None:
        """Add an Append."""
        self.effects.append(Append(records, then))

    def reply(self, send: Send, response: Any) -> None:
        """Add a Reply."""
        self.effects.append(Reply(send, response))

    def set_timer(self, key: Hashable, delay_ms: int) -> None:
        """Add a SetTimer."""
        self.effects.append(SetTimer(key, delay_ms))

    def cancel_timer(self, key: Hashable) -> None:
        """Add a CancelTimer."""
        self.effects.append(CancelTimer(key))
