"""The interface behind which cluster metadata is kept: a tree of versioned znodes, as ZooKeeper's.

Owns operations, their results and errors, and what a session promises. Must not know which store is behind it, nor what
the znodes mean. Counterpart in Kafka: KafkaZkClient over ZooKeeperClient.

Promises of every store:
- A change is answered when it will survive the death of every process. What is not yet that safe, nobody sees.
- A session sees the changes of all sessions in one order. A watch's event is delivered before any read of its session
  can show the change.
- Watches fire once. A watch that is set by a read sees every change after that read.
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
    """There is no such znode, or, for a new one, no parent."""


class NodeExistsError(StoreError):
    """There is such a znode already."""


class BadVersionError(StoreError):
    """The znode was changed since the version that the operation asks for."""


class NotEmptyError(StoreError):
    """A znode with children cannot be deleted."""


class NoChildrenForEphemeralsError(StoreError):
    """An ephemeral znode cannot have children."""


class SessionExpiredError(StoreError):
    """The session is over, and its ephemeral znodes with it."""


class StoreFailedError(StoreError):
    """The store cannot keep what it is given; it may or may not have kept this change."""


class Stat(NamedTuple):
    """What is known of a znode beside its data, under ZooKeeper's names."""

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
    """What a watch has seen."""

    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILD = "child"
    # Not of a znode: the session is over; of a session that lasts, another one has begun.
    EXPIRED = "expired"
    BEGUN = "begun"


class WatchEvent(NamedTuple):
    """A watch has fired."""

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
    """Let the transaction fail unless the znode has this version."""

    path: str
    version: int


Operation = Create | SetData | Delete | Check


class Result(NamedTuple):
    """What an operation has done: the path (of a sequential znode: with its number), and its stat, if it has one."""

    path: str
    stat: Stat | None


Found = tuple[bytes, Stat]
OnEvent = Callable[[WatchEvent], None]


class Session(Protocol):
    """One client of the store. `on_event` is called on the loop, and must not call the session back."""

    @property
    def session_id(self) -> int:
        """The owner of this session's ephemeral znodes."""
        ...

    async def get(self, path: str, *, watch: bool = False) -> Found:
        """Return data and stat. A watch sees the znode change or go; NoNodeError sets none."""
        ...

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[Found | None]:
        """Return data and stat of each, None for those that are not there: these get no watch."""
        ...

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        """Return the stat, if there is such a znode. A watch sees it come, change or go."""
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
        """Do all of the operations, or raise the error of the first that cannot be done and do none."""
        ...

    async def multi_all(self, transactions: Sequence[Sequence[Operation]]) -> list[list[Result] | StoreError]:
        """Do each transaction as `multi` does, one after the other, for the price of one.

        Each has its own outcome: one that fails does not keep the next from being done.
        """
        ...

    async def close(self) -> None:
        """End the session, and its ephemeral znodes with it."""
        ...


class ChangesByMulti:
    """The single changes of a session, done as transactions of one operation."""

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """Do all of the operations, or raise the error of the first that cannot be done and do none."""
        (outcome,) = await self.multi_all([operations])
        if isinstance(outcome, StoreError):
            raise outcome
        return outcome

    async def multi_all(self, transactions: Sequence[Sequence[Operation]]) -> list[list[Result] | StoreError]:
        """Do each transaction as `multi` does."""
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
