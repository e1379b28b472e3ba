"""The store of a broker without ZooKeeper: the tree in memory, and a journal that is written off the loop.

Owns sessions, watches and the group commit: the next commit writes all transactions that came during the last one.
Must not know what the znodes mean. Brokers on one loop can share a store; each has its own session, and may have an
`EmbeddedLink` that can be cut. Counterpart: a ZooKeeper ensemble of one server.

The store fails once: after a write that the disk refuses, no transaction is done and `run` raises. Then the process
ends, and its next start reads the journal.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeVar, TypeVarTuple

import trio

from ottla.zk.journal import Journal, Row, row_of
from ottla.zk.store import (
    ChangesByMulti,
    Delete,
    EventType,
    Found,
    NoNodeError,
    OnEvent,
    Operation,
    Result,
    Session,
    SessionExpiredError,
    Stat,
    StoreError,
    StoreFailedError,
    WatchEvent,
)
from ottla.zk.tree import Draft, Tree, check_path

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


logger = logging.getLogger("org.apache.kafka.server.fault.ProcessTerminatingFaultHandler")

# About a millisecond of the loop.
_STEPS_AT_ONCE: Final = 100
# A copy of the database file, without its -wal, lacks at most the changes of so long.
_CHECKPOINT_AFTER_SECONDS: Final = 1.0


class Offload(Protocol):
    """`await offload(function, *args)` calls a blocking function off the loop."""

    def __call__(self, function: Callable[[*Ts], T], *args: *Ts) -> Awaitable[T]:
        """Return the function's result."""
        ...


class _Transaction:
    """The operations of one call, and their outcomes."""

    __slots__ = ("outcomes", "session_id", "steps")

    def __init__(self, session_id: int, steps: Sequence[Sequence[Operation]]) -> None:
        self.session_id = session_id
        self.steps = steps
        self.outcomes: list[list[Result] | StoreError] | None = None


class EmbeddedStore:
    """The store: call `open`, then `session` for each client, then `close`."""

    def __init__(self, path: Path, offload: Offload, *, now_ms: Callable[[], int] | None = None) -> None:
        self._journal = Journal(path)
        self._offload = offload
        self._now_ms = now_ms or (lambda: time.time_ns() // 1_000_000)
        self._tree = Tree()
        self._queue: list[_Transaction] = []
        self._writing = trio.Lock()
        self._sessions: dict[int, EmbeddedSession] = {}
        self._sessions_begun = 0
        self._failure: StoreFailedError | None = StoreFailedError("the store is not open")
        self._was_written = trio.Event()
        self._has_failed = trio.Event()

    async def open(self) -> None:
        """Open the journal and read the tree."""
        self._tree = await self._offload(self._journal.open)
        self._failure = None

    async def run(self) -> None:
        """Checkpoint the journal after changes. JournalFailedError: the disk refused a write."""
        while not self._has_failed.is_set():
            await self._was_written.wait()
            self._was_written = trio.Event()
            with trio.move_on_after(_CHECKPOINT_AFTER_SECONDS):
                await self._has_failed.wait()
            async with self._writing:
                if self._failure is None:
                    try:
                        await self._offload(self._journal.checkpoint)
                    except StoreFailedError as error:
                        self._fail(error)
        assert self._failure is not None
        raise self._failure

    def _fail(self, error: StoreFailedError) -> None:
        logger.error("Encountered fatal fault: %s. The process ends; its next start reads the file", error)
        self._failure = error
        self._has_failed.set()
        self._was_written.set()

    async def close(self) -> None:
        """End all sessions and close the journal. Nothing is written, because the journal has no ephemeral znodes."""
        with trio.CancelScope(shield=True):
            async with self._writing:
                self._failure = StoreFailedError("the store is closed")
                for session in list(self._sessions.values()):
                    self._forget(session)
                await self._offload(self._journal.close)

    def session(self, on_event: OnEvent) -> "EmbeddedSession":
        """Begin a session, whose watches call `on_event`."""
        self._sessions_begun += 1
        # Ids are above those of an earlier process, because a broker recognises its own ephemeral znodes by them.
        session = EmbeddedSession(self, (self._tree.zxid << 16) + self._sessions_begun, on_event)
        self._sessions[session.session_id] = session
        return session

    async def begin(self, on_event: OnEvent) -> Session:
        """Begin a session, as `EnsembleStore.session` does."""
        await trio.lowlevel.checkpoint()
        return self.session(on_event)

    @property
    def tree(self) -> Tree:
        """The committed znodes."""
        return self._tree

    async def write(self, session_id: int, steps: Sequence[Sequence[Operation]]) -> list[list[Result] | StoreError]:
        """Do transactions; return their outcomes when they are on disk and their events are delivered."""
        transaction = _Transaction(session_id, steps)
        self._queue.append(transaction)
        with trio.CancelScope(shield=True):
            async with self._writing:
                # The first task that holds the lock writes for all tasks that wait.
                if transaction.outcomes is None:
                    await self._write_queue()
        assert transaction.outcomes is not None
        return transaction.outcomes

    async def end(self, session: "EmbeddedSession") -> None:
        """End one session: drop its watches, then delete its ephemeral znodes."""
        self._forget(session)
        if self._failure is None:
            owned = sorted(self._tree.owned_by(session.session_id), key=len, reverse=True)
            if owned:
                await self.write(0, [[Delete(path) for path in owned]])

    async def expire(self, session: "EmbeddedSession") -> None:
        """End one session as an ensemble does after the session timeout."""
        await self.end(session)
        session.has_expired()

    def _forget(self, session: "EmbeddedSession") -> None:
        session.is_closed = True
        self._sessions.pop(session.session_id, None)

    async def _write_queue(self) -> None:
        queue, self._queue = self._queue, []
        draft = Draft(self._tree, self._now_ms())
        outcomes = [await self._apply(draft, transaction) for transaction in queue]
        if draft.changes:
            try:
                await self._offload(self._journal.commit, *self._rows(draft))
            except StoreFailedError as error:
                self._fail(error)
                outcomes = [[error] * len(transaction.steps) for transaction in queue]
            else:
                self._tree.take(draft)
                self._deliver(draft.events)
                self._was_written.set()
        for transaction, outcome in zip(queue, outcomes, strict=True):
            transaction.outcomes = outcome

    async def _apply(self, draft: Draft, transaction: _Transaction) -> list[list[Result] | StoreError]:
        session_id = transaction.session_id
        failure: StoreError | None = self._failure
        if failure is None and session_id and session_id not in self._sessions:
            failure = SessionExpiredError(f"session {session_id} is over")
        if failure is not None:
            return [failure] * len(transaction.steps)
        outcomes: list[list[Result] | StoreError] = []
        for number, operations in enumerate(transaction.steps, 1):
            if not number % _STEPS_AT_ONCE:
                # The tree does not change meanwhile, because this task holds the lock.
                await trio.lowlevel.checkpoint()
            try:
                outcomes.append(draft.apply(operations, session_id))
            except StoreError as error:
                outcomes.append(error)
        return outcomes

    def _rows(self, draft: Draft) -> tuple[list[Row], list[str], int]:
        changed, deleted = [], []
        for path, node in draft.changes.items():
            if node is not None and not node.ephemeral_owner:
                changed.append(row_of(path, node))
            elif path in self._tree.nodes and not self._tree.nodes[path].ephemeral_owner:
                deleted.append(path)
        return changed, deleted, draft.zxid

    def _deliver(self, events: Sequence[WatchEvent]) -> None:
        for session in list(self._sessions.values()):
            session.watches.deliver(events, session.tell)


class _Watches:
    """The watches of one session."""

    __slots__ = ("of_children", "of_data")

    def __init__(self) -> None:
        self.of_data: set[str] = set()
        self.of_children: set[str] = set()

    def deliver(self, events: Sequence[WatchEvent], on_event: OnEvent) -> None:
        """Call `on_event` for each watched event; once, even if a deleted znode has two watches."""
        for event in events:
            sees_it = False
            if event.type is not EventType.CHILD and event.path in self.of_data:
                self.of_data.discard(event.path)
                sees_it = True
            if event.type in (EventType.CHILD, EventType.DELETED) and event.path in self.of_children:
                self.of_children.discard(event.path)
                sees_it = True
            if sees_it:
                on_event(event)


class EmbeddedSession(ChangesByMulti):
    """One client of the embedded store; see `ottla.zk.store.Session`.

    While it is cut off, its calls wait and it gets no event, not even EXPIRED: as a client that reaches no server of an
    ensemble.
    """

    def __init__(self, store: EmbeddedStore, session_id: int, on_event: OnEvent) -> None:
        self._store = store
        self.session_id = session_id
        self.on_event = on_event
        self.watches = _Watches()
        # `is_closed`: the store has ended the session. `_has_left`: its user has closed it, maybe while it was cut off.
        self.is_closed = False
        self._has_left = False
        # While the session is cut off: the event that `mend` sets, and the watch events that were not delivered.
        self._mended: trio.Event | None = None
        self._missed: list[WatchEvent] = []

    def tell(self, event: WatchEvent) -> None:
        """Deliver an event, at once or after `mend`."""
        if self._mended is not None:
            self._missed.append(event)
        else:
            self.on_event(event)

    def has_expired(self) -> None:
        """Deliver EXPIRED in place of all events that were missed."""
        self._missed = []
        self.tell(WatchEvent(EventType.EXPIRED, ""))

    def cut(self) -> trio.Event:
        """Cut the session off from its store; return the event that `mend` sets."""
        if self._mended is None:
            self._mended = trio.Event()
        return self._mended

    def mend(self) -> None:
        """Reconnect the session to its store, unless it was closed meanwhile."""
        mended, missed = self._mended, self._missed
        if mended is None or self._has_left:
            return
        self._mended, self._missed = None, []
        for event in missed:
            self.on_event(event)
        mended.set()

    def is_cut_by(self, cut: trio.Event) -> bool:
        """Return whether the session has been cut off since `cut` returned this event."""
        return self._mended is cut

    async def _is_reached(self) -> bool:
        """Wait until the session is not cut off; return whether it is still open."""
        while self._mended is not None and not self._has_left:
            await self._mended.wait()
        return not (self.is_closed or self._has_left)

    def _expired(self) -> SessionExpiredError:
        return SessionExpiredError(f"session {self.session_id} is over")

    async def _committed(self, path: str) -> Tree:
        check_path(path)
        await trio.lowlevel.checkpoint()
        if not await self._is_reached():
            raise self._expired()
        return self._store.tree

    async def get(self, path: str, *, watch: bool = False) -> Found:
        """Return data and stat."""
        node = (await self._committed(path)).nodes.get(path)
        if node is None:
            raise NoNodeError(path)
        if watch:
            self.watches.of_data.add(path)
        return node.data, node.stat

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[Found | None]:
        """Return data and stat of each znode; None for a znode that does not exist, which gets no watch."""
        nodes = (await self._committed("/")).nodes
        if watch:
            self.watches.of_data.update(path for path in paths if path in nodes)
        return [None if (node := nodes.get(path)) is None else (node.data, node.stat) for path in paths]

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        """Return the stat, None if the znode does not exist."""
        node = (await self._committed(path)).nodes.get(path)
        if watch:
            self.watches.of_data.add(path)
        return None if node is None else node.stat

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        """Return the names of the children."""
        tree = await self._committed(path)
        if path not in tree.nodes:
            raise NoNodeError(path)
        if watch:
            self.watches.of_children.add(path)
        return sorted(tree.children.get(path, ()))

    async def multi_all(self, transactions: Sequence[Sequence[Operation]]) -> list[list[Result] | StoreError]:
        """Do each transaction, with one commit for all; return an outcome for each."""
        for operations in transactions:
            for operation in operations:
                check_path(operation.path)
        await self._is_reached()
        outcomes = await self._store.write(self.session_id, transactions)
        # The transactions may be done, but a session that was cut off meanwhile gets the outcome later, or never.
        return outcomes if await self._is_reached() else [self._expired()] * len(transactions)

    async def close(self) -> None:
        """End the session, and its ephemeral znodes with it; while it is cut off, these end when it expires."""
        self._has_left = True
        if self._mended is not None:
            self._mended.set()
        elif not self.is_closed:
            await self._store.end(self)


class EmbeddedLink:
    """A connection to an embedded store that can be cut and mended, as a broker's network to its ensemble."""

    def __init__(self, store: EmbeddedStore, session_timeout_ms: int) -> None:
        self._store = store
        self._timeout_seconds = session_timeout_ms / 1000
        self._sessions: list[EmbeddedSession] = []
        self._mended: trio.Event | None = None

    async def begin(self, on_event: OnEvent) -> Session:
        """Begin a session. StoreFailedError: the link stayed cut for the session timeout."""
        await trio.lowlevel.checkpoint()
        with trio.move_on_after(self._timeout_seconds):
            while self._mended is not None:
                await self._mended.wait()
            session = self._store.session(on_event)
            self._sessions = [*(each for each in self._sessions if not each.is_closed), session]
            return session
        raise StoreFailedError("Timed out waiting for connection to the store")

    async def cut(self) -> None:
        """Cut the link. After the session timeout expire the sessions that were not mended, and return."""
        self._mended = self._mended or trio.Event()
        cut = [(session, session.cut()) for session in self._sessions]
        await trio.sleep(self._timeout_seconds)
        for session, mended in cut:
            if not session.is_closed and session.is_cut_by(mended):
                await self._store.expire(session)

    def mend(self) -> None:
        """Mend the link."""
        mended, self._mended = self._mended, None
        for session in self._sessions:
            session.mend()
        if mended is not None:
            mended.set()
