"""The interface of the stores of cluster metadata: a tree of versioned znodes, as ZooKeeper's.

Owns operations, their results and errors, and what a session promises. Must not know which store is behind it, nor what
the znodes mean. Counterpart in Kafka: KafkaZkClient over ZooKeeperClient.

Promises of every store:
- A call that changes a znode returns when the change survives the death of every process. No session sees it earlier.
- A session sees the changes of all sessions in one order. A watch's event is delivered before any read of its session
  shows the change.
- A watch fires once. A watch that is set by a read sees every change after that read.
- Ephemeral znodes end with the session that created them.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol

ANY_VERSION: Final = -1


class StoreError(Exception):
    """An operation was not done. `operation` is its place in the transaction that failed with it."""

    operation: int = 0


class NoNodeError(StoreError):
    """The znode does not exist; for Create: its parent does not exist."""


class NodeExistsError(StoreError):
    """The znode exists already."""


class BadVersionError(StoreError):
    """The znode has another version than the operation names."""


class NotEmptyError(StoreError):
    """A znode with children cannot be deleted."""


class NoChildrenForEphemeralsError(StoreError):
    """An ephemeral znode cannot have children."""


class SessionExpiredError(StoreError):
    """The session is over, and its ephemeral znodes with it."""


class StoreFailedError(StoreError):
    """The store failed. The change may or may not be kept."""


class Stat(NamedTuple):
    """A znode's metadata, under ZooKeeper's names."""

    czxid: int
    mzxid: int
    pzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int


class EventType(Enum):
    """The type of an event."""

    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILD = "child"
    # Events of no znode: the session is over; a `LastingSession` has begun another one.
    EXPIRED = "expired"
    BEGUN = "begun"


class WatchEvent(NamedTuple):
    """An event: a watch fired, or the session itself changed; then `path` is empty."""

    type: EventType
    path: str


class Create(NamedTuple):
    """Create a znode. A sequential one gets ten digits appended to its path."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


class SetData(NamedTuple):
    """Replace a znode's data."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Delete a znode that has no children."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Fail the transaction unless the znode has this version."""

    path: str
    version: int


Operation = Create | SetData | Delete | Check


class Result(NamedTuple):
    """The path of an operation's znode (a sequential one: with its number), and its stat after Create and SetData."""

    path: str
    stat: Stat | None


Found = tuple[bytes, Stat]
OnEvent = Callable[[WatchEvent], None]


class Session(Protocol):
    """One client of the store. Its `on_event` is called on the loop, and must not call the session."""

    @property
    def session_id(self) -> int:
        """The owner of this session's ephemeral znodes."""
        ...

    async def get(self, path: str, *, watch: bool = False) -> Found:
        """Return data and stat. A watch sees the znode change or go; NoNodeError sets no watch."""
        ...

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[Found | None]:
        """Return data and stat of each znode; None for a znode that does not exist, which gets no watch."""
        ...

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        """Return the stat, None if the znode does not exist. A watch sees the znode come, change or go."""
        ...

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        """Return the names of the children. A watch sees children come or go, or the znode go."""
        ...

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> Result:
        """Create a znode."""
        ...

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace a znode's data."""
        ...

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a znode."""
        ...

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """Do all operations, or do none and raise the error of the first that fails."""
        ...

    async def multi_all(self, transactions: Sequence[Sequence[Operation]]) -> list[list[Result] | StoreError]:
        """Do each transaction as `multi` does, in their order, in one round trip or one commit.

        Return an outcome for each, because a transaction that fails does not stop the next one.
        """
        ...

    async def close(self) -> None:
        """End the session, and its ephemeral znodes with it."""
        ...


class ChangesByMulti:
    """A session's single changes, each as a transaction of one operation."""

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """Do all operations, or do none and raise the error of the first that fails."""
        (outcome,) = await self.multi_all([operations])
        if isinstance(outcome, StoreError):
            raise outcome
        return outcome

    async def multi_all(self, transactions: Sequence[Sequence[Operation]]) -> list[list[Result] | StoreError]:
        """Do each transaction as `multi` does; return an outcome for each."""
        raise NotImplementedError

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> Result:
        """Create a znode."""
        return (await self.multi([Create(path, data, ephemeral, sequential)]))[0]

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace a znode's data."""
        stat = (await self.multi([SetData(path, data, version)]))[0].stat
        assert stat is not None
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a znode."""
        await self.multi([Delete(path, version)])
