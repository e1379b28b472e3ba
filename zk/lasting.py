"""A session that begins another session whenever one expires.

Owns the current session. Must not know what the znodes mean, nor which store it is.
Counterparts in Kafka: ZooKeeperClient.reinitialize, KafkaZkClient.retryRequestsUntilConnected.

`on_event` gets EXPIRED when the watches and the ephemeral znodes are gone, and BEGUN when another session can set and
create them again. In between every call waits. A read that an expiry interrupts is done again. A change raises
SessionExpiredError instead, because the store may have done it.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import trio

from ottla.zk.store import (
    ChangesByMulti,
    EventType,
    Found,
    OnEvent,
    Operation,
    Result,
    Session,
    SessionExpiredError,
    Stat,
    StoreError,
    WatchEvent,
)

logger = logging.getLogger("kafka.zookeeper.ZooKeeperClient")

T = TypeVar("T")

_RETRY_AFTER_SECONDS: Final = 1.0


class LastingSession(ChangesByMulti):
    """See `ottla.zk.store.Session`; start `run` once before any other call."""

    def __init__(self, begin: Callable[[OnEvent], Awaitable[Session]], on_event: OnEvent) -> None:
        self._begin = begin
        self._on_event = on_event
        self._session: Session | None = None
        self._has_begun = trio.Event()
        self._has_expired = trio.Event()
        self._is_closed = False

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Begin a session, and another whenever it expires. StoreError: the first session did not begin."""
        self._session = await self._begin(self._took)
        self._has_begun.set()
        task_status.started()
        while True:
            await self._has_expired.wait()
            self._has_expired = trio.Event()
            expired, self._session = self._session, None
            self._has_begun = trio.Event()
            if expired is not None:
                await expired.close()
            self._session = await self._begin_again()
            self._has_begun.set()
            self._on_event(WatchEvent(EventType.BEGUN, ""))

    async def _begin_again(self) -> Session:
        while True:
            try:
                return await self._begin(self._took)
            except StoreError as error:
                logger.warning("No new session: %s. The next attempt comes in %.0f s.", error, _RETRY_AFTER_SECONDS)
                await trio.sleep(_RETRY_AFTER_SECONDS)

    def _took(self, event: WatchEvent) -> None:
        self._on_event(event)
        if event.type is EventType.EXPIRED:
            self._has_expired.set()

    async def _present(self) -> Session:
        while self._session is None or self._has_expired.is_set():
            if self._is_closed:
                raise SessionExpiredError("the session was closed")
            if self._session is None:
                await self._has_begun.wait()
            else:
                await trio.lowlevel.checkpoint()
        return self._session

    async def _read(self, call: Callable[[Session], Awaitable[T]]) -> T:
        while True:
            session = await self._present()
            try:
                return await call(session)
            except SessionExpiredError:
                if self._is_closed:
                    raise
                await trio.lowlevel.checkpoint()

    @property
    def session_id(self) -> int:
        """The owner of this session's ephemeral znodes."""
        return 0 if self._session is None else self._session.session_id

    async def get(self, path: str, *, watch: bool = False) -> Found:
        """Return data and stat."""
        return await self._read(lambda session: session.get(path, watch=watch))

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[Found | None]:
        """Return data and stat of each znode; None for a znode that does not exist, which gets no watch."""
        return await self._read(lambda session: session.get_many(paths, watch=watch))

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        """Return the stat, None if the znode does not exist."""
        return await self._read(lambda session: session.exists(path, watch=watch))

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        """Return the names of the children."""
        return await self._read(lambda session: session.children(path, watch=watch))

    async def multi_all(self, transactions: Sequence[Sequence[Operation]]) -> list[list[Result] | StoreError]:
        """Do each transaction; return an outcome for each."""
        return await (await self._present()).multi_all(transactions)

    async def close(self) -> None:
        """End the session, and its ephemeral znodes with it."""
        self._is_closed = True
        session, self._session = self._session, None
        self._has_begun.set()
        if session is not None:
            await session.close()
