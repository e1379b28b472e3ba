"""The effects that a decision may ask for: append records, send a reply, set a timer, cancel one; for transactions also
send markers, take a producer id.

Owns these six, `Decision`, which collects them while one event is decided, and the errors of appends as clients of a
coordinator expect them. Must not know groups, the rules of transactions, or the code that carries the effects out.
Counterparts in Kafka: CoordinatorResult, and the callbacks that the classic coordinator passes around.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, NamedTuple

from ottla.wire.errors import ErrorCode
from ottla.wire.types import TopicPartition

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


class Producer(NamedTuple):
    """The producer of a transaction."""

    producer_id: int
    producer_epoch: int
    guard: Any = None
    """The log's own proof that the transaction was verified; the coordinator hands it on."""


class Append(NamedTuple):
    """Append the records in one batch. `then` decides the next event, once the batch is committed or has failed.

    With a producer, the batch is part of the producer's transaction.
    """

    records: Sequence[Record]
    then: "Callable[[Decision, ErrorCode], None]"
    producer: Producer | None = None


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


class Marker(NamedTuple):
    """The end of one transaction. `transaction_version` says by which rules a log checks the epoch."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int


class SendMarkers(NamedTuple):
    """Send the marker to the leaders of its partitions. `marked` decides the next event, once a partition has it."""

    marker: Marker
    marked: "Callable[[Decision, TopicPartition], None]"


class TakeProducerId(NamedTuple):
    """Get a producer id that was never used. `then` decides the next event."""

    then: "Callable[[Decision, int], None]"


Effect = Append | Reply | SetTimer | CancelTimer | SendMarkers | TakeProducerId


class Decision:
    """One event being decided: its time, and its effects so far, in their order."""

    __slots__ = ("effects", "now_ms")

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.effects: list[Effect] = []

    def append(
        self,
        records: Sequence[Record],
        then: "Callable[[Decision, ErrorCode], None]",
        producer: Producer | None = None,
    ) -> None:
        """Add an Append."""
        self.effects.append(Append(records, then, producer))

    def reply(self, send: Send, response: Any) -> None:
        """Add a Reply."""
        self.effects.append(Reply(send, response))

    def set_timer(self, key: Hashable, delay_ms: int) -> None:
        """Add a SetTimer."""
        self.effects.append(SetTimer(key, delay_ms))

    def cancel_timer(self, key: Hashable) -> None:
        """Add a CancelTimer."""
        self.effects.append(CancelTimer(key))

    def send_markers(self, marker: Marker, marked: "Callable[[Decision, TopicPartition], None]") -> None:
        """Add a SendMarkers."""
        self.effects.append(SendMarkers(marker, marked))

    def take_producer_id(self, then: "Callable[[Decision, int], None]") -> None:
        """Add a TakeProducerId."""
        self.effects.append(TakeProducerId(then))
