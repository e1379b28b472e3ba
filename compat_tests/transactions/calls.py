"""The calls that all stock clients with transactions have in tests, whatever their own are."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

TIMEOUT_MS = 60_000


class Read(NamedTuple):
    """A record that a member of a group has read."""

    partition: int
    offset: int
    value: str


class Producer(Protocol):
    """A transactional producer, which has taken its id over."""

    def begin(self) -> None:
        """Begin a transaction."""

    def send(self, topic: str, value: str, partition: int = 0) -> None:
        """Write a record, and wait until it is acknowledged."""

    def send_offsets(self, consumer: "Consumer", topic: str, offsets: Mapping[int, int]) -> None:
        """Commit offsets of the consumer's group with the transaction."""

    def commit(self) -> None:
        """Commit the transaction."""

    def abort(self) -> None:
        """Abort the transaction."""

    def close(self) -> None:
        """Free what it has; what happens to an open transaction is up to the client."""


class Consumer(Protocol):
    """A member of a group, which reads committed records from the group's offsets on."""

    def poll(self) -> list[Read]:
        """Return some next records; none if none came for a while."""
        ...

    def close(self) -> None:
        """Leave the group."""


class Client(Protocol):
    """A client library."""

    def producer(self, bootstrap: str, transactional_id: str, timeout_ms: int = TIMEOUT_MS) -> Producer:
        """Return a new producer that has taken over its id."""
        ...

    def consumer(self, bootstrap: str, group: str, topic: str) -> Consumer:
        """Return a new member of a group."""
        ...

    def read(self, bootstrap: str, topic: str, isolation: str, end: int) -> list[str]:
        """Return the values in partition 0 of a topic up to an offset (exclusive)."""
        ...

    def committed(self, bootstrap: str, group: str, topic: str) -> int:
        """Return a group's offset of partition 0, for a reader of committed records."""
        ...
