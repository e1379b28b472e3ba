"""What a decision asks to be done: append, reply, set a timer, cancel one.

Owns these words, and `Decision`, which gathers them while one event is decided. It must not know groups, nor who
carries the effects out. Counterparts in Kafka: CoordinatorResult, and the callbacks that its classic
coordinator passes around.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ottla.coordinator.config import GroupConfig
from ottla.wire.errors import ErrorCode

# Takes a response. Whoever holds one owes exactly one call.
Send = Callable[[Any], None]
Record = tuple[bytes, bytes | None]


class Caller(NamedTuple):
    """Who asks: client id, address as Java prints it ("/127.0.0.1"), and the version of the request."""

    client_id: str
    client_host: str
    api_version: int


class TimerKey(NamedTuple):
    """Names a timer; setting one that is set moves it. `member_id` is empty for a timer of the whole group."""

    kind: str
    group_id: str
    member_id: str = ""


class Append(NamedTuple):
    """Append records, value None for a tombstone, in one batch. `then` decides on, once it is committed or failed."""

    records: Sequence[Record]
    then: "Callable[[Decision, ErrorCode], None]"


class Reply(NamedTuple):
    """Answer a request."""

    send: Send
    response: Any


class SetTimer(NamedTuple):
    """Come back in so many milliseconds."""

    key: TimerKey
    delay_ms: int


class CancelTimer(NamedTuple):
    """Do not come back. Harmless for a timer that is not set."""

    key: TimerKey


Effect = Append | Reply | SetTimer | CancelTimer


class Decision:
    """One event being decided: the time it happens at, the configuration, and the effects so far, in their order."""

    __slots__ = ("config", "effects", "now_ms")

    def __init__(self, config: GroupConfig, now_ms: int) -> None:
        self.config = config
        self.now_ms = now_ms
        self.effects: list[Effect] = []

    def append(self, records: Sequence[Record], then: "Callable[[Decision, ErrorCode], None]") -> None:
        """Add an Append."""
        self.effects.append(Append(records, then))

    def reply(self, send: Send, response: Any) -> None:
        """Add a Reply."""
        self.effects.append(Reply(send, response))

    def set_timer(self, key: TimerKey, delay_ms: int) -> None:
        """Add a SetTimer."""
        self.effects.append(SetTimer(key, delay_ms))

    def cancel_timer(self, key: TimerKey) -> None:
        """Add a CancelTimer."""
        self.effects.append(CancelTimer(key))
