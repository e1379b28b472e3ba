"""The store of a cluster: a ZooKeeper ensemble, reached through kazoo.

Owns sessions: requests and responses, lost connections, the chroot, ACLs, the translation of kazoo's errors into the
store's. Must not know what the znodes mean, except which of them are sensitive.
Counterpart in Kafka: ZooKeeperClient, and the requests of KafkaZkClient.

Lost connections: a lost request is sent again over the next connection, until it is answered or the session is over,
as Kafka does (KafkaZkClient.retryRequestsUntilConnected). If ZooKeeper had done the first request, the second one
fails: the znode exists, or has another version. Kafka leaves that to each caller: the broker's registration checks the
owner of the znode, the controller reads /controller, a conditional update compares data, a topic's creator gets
NODEEXISTS. Here the session reads the znodes of such a transaction. The transaction counts as done if one transaction
that came after the call began wrote all their data, and if this session owns the ephemeral ones. Four cases remain:
- The same data that another client wrote at the same time counts as the session's own, unless it is ephemeral.
- A transaction whose znodes were changed since counts as failed.
- A sequential znode may be created twice.
- A delete that was done before the loss raises NoNodeError.
"""

import logging
import ssl
from collections.abc import Callable, Sequence, Set
from typing import Any, Final

import trio
from kazoo import exceptions
from kazoo.hosts import collect_hosts
from kazoo.protocol.serialization import CheckVersion, Create2, Delete, Exists, GetChildren, GetData, SetData
from kazoo.protocol.states import KeeperState
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from ottla.zk import store as zk
from ottla.zk.kazoo_client import Client, Multi
from ottla.zk.kazoo_inside import MAX_IN_FLIGHT
from ottla.zk.store import (
    ChangesByMulti,
    EventType,
    Found,
    NodeExistsError,
    NoNodeError,
    OnEvent,
    Operation,
    Result,
    SessionExpiredError,
    Stat,
    StoreError,
    StoreFailedError,
    WatchEvent,
)
from ottla.zk.tree import check_path
from ottla.zk.znodes import is_open, is_sensitive, parents_of

logger = logging.getLogger("kafka.zookeeper.ZooKeeperClient")

# How long `close` waits for the server's response.
_GOODBYE_S: Final = 5.0
_EPHEMERAL: Final = 1
_SEQUENTIAL: Final = 2

_ERRORS: Final = {
    exceptions.NoNodeError: NoNodeError,
    exceptions.NodeExistsError: NodeExistsError,
    exceptions.BadVersionError: zk.BadVersionError,
    exceptions.NotEmptyError: zk.NotEmptyError,
    exceptions.NoChildrenForEphemeralsError: zk.NoChildrenForEphemeralsError,
    exceptions.SessionExpiredError: SessionExpiredError,
    exceptions.ConnectionClosedError: SessionExpiredError,
    exceptions.AuthFailedError: SessionExpiredError,
}


class EnsembleStore:
    """A cluster's ZooKeeper: call `open`, then `session` for each client, then `close`."""

    def __init__(
        self,
        connect: str,
        *,
        session_timeout_ms: int = 18_000,
        connection_timeout_ms: int | None = None,
        max_in_flight_requests: int = 10,
        set_acl: bool = False,
        credentials: tuple[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Take the values of the keys `zookeeper.*`; `credentials` are username and password for DIGEST-MD5.

        ValueError: `connect` is not of the form host:port,host:port/chroot.
        """
        self.hosts, _, chroot = connect.partition("/")
        self.chroot = f"/{chroot}" if chroot else ""
        check_path(self.chroot or "/")
        collect_hosts(self.hosts)
        self.session_timeout_ms = session_timeout_ms
        self.connection_timeout_ms = session_timeout_ms if connection_timeout_ms is None else connection_timeout_ms
        self.max_in_flight_requests = min(max_in_flight_requests, MAX_IN_FLIGHT)
        self.set_acl = set_acl
        self.credentials = credentials
        self.tls = tls
        self._sessions: set[EnsembleSession] = set()

    async def open(self) -> None:
        """Create the chroot if it does not exist."""
        if not self.chroot:
            return
        session = EnsembleSession(self, "", lambda event: None)
        try:
            await session.connect()
            for path in parents_of([self.chroot]):
                if await session.exists(path) is None:
                    (outcome,) = await session.multi_all([[zk.Create(path)]])
                    # Brokers that start together create the same chroot.
                    if isinstance(outcome, StoreError) and not isinstance(outcome, NodeExistsError):
                        raise outcome
        finally:
            await session.close()

    async def close(self) -> None:
        """End all sessions."""
        async with trio.open_nursery() as nursery:
            for session in list(self._sessions):
                nursery.start_soon(session.close)

    async def session(self, on_event: OnEvent) -> "EnsembleSession":
        """Begin a session, whose watches call `on_event`; wait for its first connection.

        StoreFailedError: `connection_timeout_ms` passed without a connection, or the ensemble refuses the credentials.
        """
        session = EnsembleSession(self, self.chroot, on_event)
        try:
            await session.connect()
        except BaseException:
            await session.close()
            raise
        self._sessions.add(session)
        return session

    def forget(self, session: "EnsembleSession") -> None:
        """Remove a closed session."""
        self._sessions.discard(session)

    def acl(self, path: str) -> Sequence[ACL]:
        """Return the ACL of a new znode."""
        if not self.set_acl or is_open(path):
            return OPEN_ACL_UNSAFE  # type: ignore[no-any-return]
        if is_sensitive(path):
            return CREATOR_ALL_ACL  # type: ignore[no-any-return]
        return CREATOR_ALL_ACL + READ_ACL_UNSAFE  # type: ignore[no-any-return]


class _Call:
    """A request in flight; `outcome` is its response or exception."""

    __slots__ = ("_is_done", "outcome")

    def __init__(self) -> None:
        self._is_done = trio.Event()
        self.outcome: Any = None

    def end(self, outcome: object) -> None:
        self.outcome = outcome
        self._is_done.set()

    async def wait(self) -> Any:
        if not self._is_done.is_set():
            await self._is_done.wait()
        return self.outcome


class EnsembleSession(ChangesByMulti):
    """One client of the ensemble; see `ottla.zk.store.Session`.

    When the ensemble ends the session, `on_event` gets EventType.EXPIRED, and every call raises SessionExpiredError.
    The same happens if the ensemble refuses the credentials after a lost connection. The user then closes the session,
    and may begin another one.
    """

    def __init__(self, store: EnsembleStore, chroot: str, on_event: OnEvent) -> None:
        self._store = store
        self._chroot = chroot
        self._on_event = on_event
        self._token = trio.lowlevel.current_trio_token()
        self._in_flight = trio.Semaphore(store.max_in_flight_requests)
        self._calls: set[_Call] = set()
        self._connection: int | None = None
        # Set while there is a connection, and when the session is over.
        self._is_decided = trio.Event()
        self._end: str | None = None
        self._is_closed = False
        self.session_id = 0
        self.client = Client(
            store.hosts,
            session_timeout_ms=store.session_timeout_ms,
            credentials=store.credentials,
            tls=store.tls,
            post=self._post,
            on_state=self._took_state,
            on_fired=self._fired,
        )

    async def connect(self) -> None:
        """Wait for the first connection. StoreFailedError: none came within `connection_timeout_ms`."""
        logger.info("Initializing a new session to %s%s.", self._store.hosts, self._chroot)
        self.client.start()
        with trio.move_on_after(self._store.connection_timeout_ms / 1000):
            if await self._connected() is None:
                raise StoreFailedError(f"the session with {self._store.hosts} {self._end}")
            return
        raise StoreFailedError(f"Timed out waiting for connection to {self._store.hosts}, of zookeeper.connect")

    async def get(self, path: str, *, watch: bool = False) -> Found:
        """Return data and stat."""
        check_path(path)
        data, stat = await self._read(GetData(self._full(path), watch), path)
        return data or b"", _stat(stat)

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[Found | None]:
        """Return data and stat of each znode; None for a znode that does not exist, which gets no watch."""
        outcomes, _ = await self._send([GetData(self._full(path), watch) for path in paths])
        found: list[Found | None] = []
        for path, outcome in zip(paths, outcomes, strict=True):
            if isinstance(outcome, exceptions.NoNodeError):
                found.append(None)
            elif isinstance(outcome, Exception):
                raise _error(outcome, path)
            else:
                found.append((outcome[0] or b"", _stat(outcome[1])))
        return found

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        """Return the stat, None if the znode does not exist."""
        check_path(path)
        stat = await self._read(Exists(self._full(path), watch), path)
        return None if stat is None else _stat(stat)

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        """Return the names of the children."""
        check_path(path)
        return sorted(await self._read(GetChildren(self._full(path), watch), path))

    async def multi_all(self, transactions: Sequence[Sequence[Operation]]) -> list[list[Result] | StoreError]:
        """Do each transaction, with many in flight at once; return an outcome for each."""
        for operations in transactions:
            for operation in operations:
                check_path(operation.path)
        began = self.client.last_zxid
        requests = [Multi([self._request(each) for each in operations]) for operations in transactions]
        outcomes, was_lost = await self._send(requests)
        results: list[list[Result] | StoreError] = []
        for number, operations in enumerate(transactions):
            result = self._results(operations, outcomes[number])
            if number in was_lost and isinstance(result, StoreError) and not isinstance(result, SessionExpiredError):
                result = await self._done_before_the_loss(operations, began, result)
            results.append(result)
        return results

    async def close(self) -> None:
        """End the session, and its ephemeral znodes with it; without a connection they end when it expires."""
        if self._is_closed:
            return
        self._is_closed = True
        self._finish("was closed")
        self._store.forget(self)
        with trio.move_on_after(_GOODBYE_S, shield=True):
            await trio.to_thread.run_sync(self.client.end, abandon_on_cancel=True)

    # Requests

    def _full(self, path: str) -> str:
        return self._chroot + path if path != "/" else self._chroot or "/"

    def _request(self, operation: Operation) -> Any:
        path = self._full(operation.path)
        match operation:
            case zk.Create(_, data, ephemeral, sequential):
                flags = _EPHEMERAL * ephemeral | _SEQUENTIAL * sequential
                return Create2(path, data, self._store.acl(operation.path), flags)
            case zk.SetData(_, data, version):
                return SetData(path, data, version)
            case zk.Delete(_, version):
                return Delete(path, version)
            case zk.Check(_, version):
                return CheckVersion(path, version)

    async def _read(self, request: Any, path: str) -> Any:
        (outcome,), _ = await self._send([request])
        if isinstance(outcome, Exception):
            raise _error(outcome, path)
        return outcome

    async def _send(self, requests: Sequence[Any]) -> tuple[list[Any], Set[int]]:
        """Return each request's response or exception, and the numbers of requests that were lost and sent again."""
        outcomes: list[Any] = [None] * len(requests)
        was_lost: set[int] = set()
        waiting = list(range(len(requests)))
        while True:
            connection = await self._connected()
            if connection is None:
                for number in waiting:
                    outcomes[number] = exceptions.SessionExpiredError()
                return outcomes, was_lost
            calls = []
            for number in waiting:
                await self._in_flight.acquire()
                calls.append(self._submit(requests[number], connection))
            for number, call in zip(waiting, calls, strict=True):
                outcomes[number] = await call.wait()
            waiting = [number for number in waiting if isinstance(outcomes[number], exceptions.ConnectionLoss)]
            if not waiting:
                return outcomes, was_lost
            was_lost.update(waiting)

    async def _connected(self) -> int | None:
        """Wait for a connection and return its number; None if the session is over."""
        await trio.lowlevel.checkpoint()
        while self._connection is None and self._end is None:
            await self._is_decided.wait()
        return self._connection

    def _submit(self, request: Any, connection: int) -> _Call:
        call = _Call()
        self._calls.add(call)
        if self._end is None:
            self.client.submit(request, connection, lambda outcome: self._answered(call, outcome))
        else:
            self._answered(call, exceptions.SessionExpiredError())
        return call

    def _results(self, operations: Sequence[Operation], outcome: Any) -> list[Result] | StoreError:
        if isinstance(outcome, Exception):
            return _error(outcome, operations[0].path if operations else "")
        results = []
        for number, (operation, done) in enumerate(zip(operations, outcome, strict=True)):
            if isinstance(done, exceptions.RolledBackError):
                continue
            if isinstance(done, Exception):
                error = _error(done, operation.path)
                error.operation = number
                return error
            if isinstance(operation, zk.Create):
                results.append(Result(self._relative(done[0]), _stat(done[1])))
            else:
                results.append(Result(operation.path, _stat(done) if isinstance(operation, zk.SetData) else None))
        return results

    async def _done_before_the_loss(
        self, operations: Sequence[Operation], began: int, error: StoreError
    ) -> list[Result] | StoreError:
        """Return the results of a lost transaction that was done; otherwise the error of its second attempt."""
        if any(isinstance(each, zk.Create) and each.sequential for each in operations):
            return error
        written = {each.path: each for each in operations if isinstance(each, zk.Create | zk.SetData)}
        ephemeral = {each.path for each in operations if isinstance(each, zk.Create) and each.ephemeral}
        stats: dict[str, Stat] = {}
        try:
            found = await self.get_many(list(written))
        except StoreError as failure:
            return failure
        for path, znode in zip(written, found, strict=True):
            if znode is None or znode[0] != written[path].data:
                return error
            if path in ephemeral and znode[1].ephemeral_owner != self.session_id:
                return error
            stats[path] = znode[1]
        transactions = {stat.mzxid for stat in stats.values()}
        if len(transactions) != 1 or min(transactions) <= began:
            return error
        return [Result(each.path, stats.get(each.path)) for each in operations]

    # Calls from the connection thread

    def _post(self, function: Callable[..., None], *args: Any) -> None:
        try:
            self._token.run_sync_soon(function, *args)
        except trio.RunFinishedError:
            logger.debug("The loop has ended: a call from the connection thread is dropped.")

    def _answered(self, call: _Call, outcome: object) -> None:
        if call in self._calls:
            self._calls.discard(call)
            self._in_flight.release()
            call.end(outcome)

    def _fired(self, kind: str, path: str) -> None:
        if self._end is None:
            self._on_event(WatchEvent(EventType[kind], self._relative(path)))

    def _took_state(self, state: str, connection: int | None, session_id: int) -> None:
        if self._end is not None:
            return
        self._connection = connection
        if connection is not None:
            logger.info("Connected.")
            self.session_id = session_id
            self._is_decided.set()
        elif state in (KeeperState.EXPIRED_SESSION, KeeperState.AUTH_FAILED, KeeperState.CLOSED):
            logger.info("The session is over: %s.", state)
            had_begun = self.session_id != 0
            self._finish("has expired" if state == KeeperState.EXPIRED_SESSION else f"has ended with {state}")
            if had_begun:
                self._on_event(WatchEvent(EventType.EXPIRED, ""))
        elif self._is_decided.is_set():
            logger.info("The connection is lost.")
            self._is_decided = trio.Event()

    def _finish(self, how: str) -> None:
        if self._end is None:
            self._end = how
            self._connection = None
            self._is_decided.set()
            for call in list(self._calls):
                self._answered(call, exceptions.SessionExpiredError())

    def _relative(self, path: str) -> str:
        return path[len(self._chroot) :] or "/"


def _stat(stat: Any) -> Stat:
    return Stat(
        stat.czxid,
        stat.mzxid,
        stat.pzxid,
        stat.ctime,
        stat.mtime,
        stat.version,
        stat.cversion,
        stat.ephemeralOwner,
        stat.dataLength,
        stat.numChildren,
    )


def _error(error: Exception, path: str) -> StoreError:
    kind = _ERRORS.get(type(error))
    if kind is None:
        return StoreFailedError(f"{path}: {type(error).__name__} {error}".rstrip())
    return kind("the session is over" if kind is SessionExpiredError else path)
