"""kazoo's client as a session needs it: what the socket brings in its order, and watches that outlive a connection.

Owns what happens in kazoo's connection thread. Must not know tasks: what there is to say goes to the loop by `post`.
Counterpart: ClientCnxn of ZooKeeper's Java client. It relies on the inside of kazoo 2.11 in these places:

- kazoo hands answers and events to two threads, which loses their order. Here the connection thread posts both itself.
- kazoo forgets its watches when the connection breaks. Here they are kept and set again (SetWatches), before any other
  request of the new connection, as of the last transaction that was seen: what was missed fires then.
- kazoo begins a new session when one expires. Here it ends: what was meant for one session is never done in another.
- A request belongs to a connection. One that comes late, for a connection that is gone, is not sent in the next, where
  it would overtake those that were lost and are sent again.
"""

import contextlib
import logging
import select
import socket
import ssl
import threading
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

from kazoo.client import CLOSED_STATES, KazooClient
from kazoo.exceptions import (
    EXCEPTIONS,
    AuthFailedError,
    ConnectionDropped,
    ConnectionLoss,
    SessionClosedRequireSaslError,
    SessionExpiredError,
)
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import (
    CheckVersion,
    Create2,
    Delete,
    Exists,
    GetChildren,
    MultiHeader,
    SetData,
    Transaction,
    int_struct,
    long_struct,
    multiheader_struct,
    write_string,
)
from kazoo.protocol.states import EventType, KeeperState
from kazoo.retry import KazooRetry

logger = logging.getLogger("org.apache.zookeeper.ClientCnxn")

# The pipe that wakes the connection thread holds a byte for each request that is not sent yet, some 270 of them.
MAX_IN_FLIGHT: Final = 100
# As many bytes of paths as the Java client puts into one SetWatches; a server takes a mebibyte.
_SET_WATCHES_BYTES: Final = 128 * 1024

Post = Callable[..., None]
Done = Callable[[Any], None]


class _Waker:
    """The end of the pipe that wakes the connection thread. When it is full there is a byte for every request."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock

    def send(self, data: bytes) -> None:
        """Wake, without ever blocking: the loop calls this."""
        with contextlib.suppress(BlockingIOError):
            self._sock.send(data)

    def close(self) -> None:
        """Close the pipe."""
        self._sock.close()


class _Handler(SequentialThreadingHandler):
    """Calls back at once, in the thread that has something to say."""

    def __init__(self, tls: ssl.SSLContext | None, shares: int) -> None:
        super().__init__()
        self._tls = tls
        self._shares = shares

    def start(self) -> None:
        """Start no threads for callbacks."""

    def stop(self) -> None:
        """Stop none."""

    def dispatch_callback(self, callback: Any) -> None:
        """Call back."""
        callback.func(*callback.args)

    def select(self, read: list[Any], write: list[Any], _: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        """Wait for sockets."""
        poll = select.poll()
        for sock in read:
            poll.register(sock, select.POLLIN)
        for sock in write:
            poll.register(sock, select.POLLOUT)
        # kazoo would wait for a socket whose last bytes lie in the TLS layer already.
        ready = {sock.fileno() for sock in read if isinstance(sock, ssl.SSLSocket) and sock.pending()}
        ready.update(fd for fd, _ in poll.poll(0 if ready else timeout * 1000))
        return [sock for sock in read if sock.fileno() in ready], [sock for sock in write if sock.fileno() in ready]

    def create_socket_pair(self) -> tuple[socket.socket, _Waker]:
        """Make the pipe that wakes the connection thread."""
        read, write = socket.socketpair()
        return read, _Waker(write)

    def create_connection(
        self, address: tuple[str, int], hostname: str | None = None, *, timeout: float, **_: Any
    ) -> socket.socket:
        """Connect, with TLS by our own context: kazoo's trusts the system's authorities beside the given one."""
        sock = socket.create_connection(address, timeout / self._shares)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock if self._tls is None else self._tls.wrap_socket(sock, server_hostname=hostname)


class _Connection(ConnectionHandler):
    """kazoo's connection, used only when it is authenticated; one that breaks before that has not been refused."""

    def zk_loop(self) -> None:
        # An answer that makes no sense: kazoo has logged it, and told the client that the session is over.
        with contextlib.suppress(Exception):
            super().zk_loop()

    def _connect(self, host: str, address: str, port: int) -> tuple[float, float]:
        read_timeout_ms, connect_timeout_ms = super()._connect(host, address, port)
        # What the server grants, of which kazoo makes this.
        self.client.has_connected(session_timeout_ms=int(read_timeout_ms * 3 / 2))
        return read_timeout_ms, connect_timeout_ms

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        return super()._invoke(timeout * len(self.client.hosts) / self.client.shares, request, xid)

    def _authenticate_with_sasl(self, host: str, timeout: float) -> None:
        try:
            super()._authenticate_with_sasl(host, timeout)
        except AuthFailedError as error:
            if isinstance(error.__cause__, ConnectionDropped):
                raise error.__cause__ from None
            raise
        except SessionClosedRequireSaslError as error:
            raise AuthFailedError from error


class _AllWatchers:
    """Stands where kazoo keeps who watches what: every event goes to one place, which knows."""

    def __init__(self, fired: Callable[[Any], None]) -> None:
        self._fired = [fired]

    def pop(self, path: str, default: object) -> list[Callable[[Any], None]]:
        """Return who is told."""
        return self._fired

    def __getitem__(self, path: str) -> "_AllWatchers":
        return self

    def add(self, watcher: object) -> None:
        """Remember nothing."""


class Multi(namedtuple("Multi", "operations")):
    """A transaction whose creates answer with stats, which kazoo's own do not."""

    type = Transaction.type

    def serialize(self) -> bytes:
        """Encode the operations."""
        parts = [MultiHeader(each.type, False, -1).serialize() + each.serialize() for each in self.operations]
        return b"".join([*parts, multiheader_struct.pack(-1, True, -1)])

    @staticmethod
    def deserialize(buffer: bytes, offset: int) -> list[Any]:
        """Decode what each operation returned: path and stat, stat, True, or an exception."""
        results: list[Any] = []
        header, offset = MultiHeader.deserialize(buffer, offset)
        while not header.done:
            if header.type == Create2.type:
                result = path, _ = Create2.deserialize(buffer, offset)
                offset += int_struct.size + len(path.encode()) + _STAT_BYTES
            elif header.type == SetData.type:
                result = SetData.deserialize(buffer, offset)
                offset += _STAT_BYTES
            elif header.type in (Delete.type, CheckVersion.type):
                result = True
            else:
                code = int_struct.unpack_from(buffer, offset)[0]
                result = EXCEPTIONS[code](f"error {code}")
                offset += int_struct.size
            results.append(result)
            header, offset = MultiHeader.deserialize(buffer, offset)
        return results


_STAT_BYTES: Final = 68


class SetWatches(namedtuple("SetWatches", "zxid data exist child")):
    """Sets watches again, and fires those that have missed a change since a transaction."""

    type = 101

    def serialize(self) -> bytes:
        """Encode the paths."""
        parts = [long_struct.pack(self.zxid)]
        for paths in (self.data, self.exist, self.child):
            parts.append(int_struct.pack(len(paths)))
            parts += [write_string(path) for path in paths]
        return b"".join(parts)

    @staticmethod
    def deserialize(buffer: bytes, offset: int) -> bool:
        """Decode nothing: the answer is empty."""
        return True


class Answer:
    """Where kazoo puts what became of a request; it may do so twice, and the first counts."""

    __slots__ = ("_done", "_post", "_taken")

    def __init__(self, post: Post, done: Done, taken: Callable[[Any], None] | None = None) -> None:
        self._post = post
        self._done = done
        self._taken = taken

    def set(self, response: Any = None) -> None:
        """Take the response."""
        if self._taken is not None:
            self._taken(response)
        self._post(self._done, response)

    def set_exception(self, error: Exception) -> None:
        """Take the error."""
        self._post(self._done, error)


class Client(KazooClient):
    """One session, and what there is to say of it.

    `on_state` is posted with kazoo's state, a connection if there is one, and the session's id with it; `on_fired` with
    kazoo's type of an event and a path.
    """

    def __init__(
        self,
        hosts: str,
        *,
        session_timeout_ms: int,
        credentials: tuple[str, str] | None,
        tls: ssl.SSLContext | None,
        post: Post,
        on_state: Callable[[str, int | None, int], None],
        on_fired: Callable[[str, str], None],
    ) -> None:
        self._post = post
        self._on_state = on_state
        self._on_fired = on_fired
        # Held where a connection comes or goes, and where a request is queued for one.
        self._lock = threading.RLock()
        self._connections = 0
        self._current: int | None = None
        # Among how many attempts to connect the time is divided that a session has: as the Java client does, but with
        # time for a second attempt at a single host, because one that comes while the server starts may wait in vain.
        self.shares = max(hosts.count(",") + 1, 3)
        # Watches of znodes with whether they were there, and of children. Only the connection thread touches these.
        self._of_data: dict[str, bool] = {}
        self._of_children: set[str] = set()
        # The transaction before which nothing was missed, as long as not all watches are set again.
        self._seen_all_of: int | None = None
        sasl = None
        if credentials is not None:
            sasl = {"mechanism": "DIGEST-MD5", "username": credentials[0], "password": credentials[1]}
        handler = _Handler(tls, self.shares)
        retry = KazooRetry(max_tries=-1, delay=0.1, max_delay=1.0, sleep_func=handler.sleep_func)
        timeout = session_timeout_ms / 1000
        super().__init__(hosts, timeout, handler=handler, connection_retry=retry, logger=logger)
        self._connection = _Connection(self, self._conn_retry.copy(), logger=logger, sasl_options=sasl)

    def submit(self, request: Any, connection: int, done: Done) -> None:
        """Send a request over one connection; `done` is posted with its response or an exception."""
        taken = partial(self._watch, request) if getattr(request, "watcher", None) else None
        with self._lock:
            if connection == self._current:
                self._call(request, Answer(self._post, done, taken))
                return
        self._post(done, ConnectionLoss())

    def end(self) -> None:
        """End the session and the connection thread. Blocks until the server has answered, or is given up."""
        self.stop()
        # Where the session was over already, `stop` has done nothing.
        self._safe_close()
        self.close()

    def connection_has_ended(self) -> bool:
        """Say whether there is no connection and never will be."""
        return bool(self._connection.connection_stopped.is_set())

    # From here on everything runs in the connection thread.

    def fired(self, event: Any) -> None:
        """Tell of an event if there is a watch for it: kazoo tells of a deleted znode twice."""
        is_hit = False
        if event.type != EventType.CHILD:
            is_hit = self._of_data.pop(event.path, None) is not None
        if event.type in (EventType.CHILD, EventType.DELETED) and event.path in self._of_children:
            self._of_children.discard(event.path)
            is_hit = True
        if is_hit:
            self._post(self._on_fired, event.type, event.path)

    def _watch(self, request: Any, response: Any) -> None:
        if isinstance(request, GetChildren):
            self._of_children.add(request.path)
        else:
            self._of_data[request.path] = not (isinstance(request, Exists) and response is None)

    def _reset_watchers(self) -> None:
        self._data_watchers = self._child_watchers = _AllWatchers(self.fired)

    def _session_callback(self, state: str) -> None:
        if state == self._state:
            return
        with self._lock:
            self._current = None
            if state in CLOSED_STATES:
                # Or kazoo would go on with a new session.
                self._stopped.set()
            if state != KeeperState.CONNECTED:
                # Before the requests are told that are lost with the connection: they wait for the next one.
                self._post(self._on_state, state, None, 0)
            super()._session_callback(state)

    def has_connected(self, session_timeout_ms: int) -> None:
        """Begin to use a connection."""
        self._session_timeout = session_timeout_ms
        with self._lock:
            self._connections += 1
            self._current = self._connections
            self._set_watches()
            self._post(self._on_state, KeeperState.CONNECTED, self._current, self._session_id)

    def _set_watches(self) -> None:
        if not self._of_data and not self._of_children:
            return
        if self._seen_all_of is None:
            self._seen_all_of = self.last_zxid
        requests = list(set_watches(self._seen_all_of, self._of_data, self._of_children))
        for number, request in enumerate(requests):
            # Its own answer is no proof for those that were sent after it.
            is_last = number == len(requests) - 1
            self._queue.append((request, _WatchesSet(self._all_watches_are_set if is_last else lambda: None)))
            self._connection._write_sock.send(b"\0")

    def _all_watches_are_set(self) -> None:
        self._seen_all_of = None


class _WatchesSet:
    """Where kazoo puts what became of SetWatches."""

    def __init__(self, done: Callable[[], None]) -> None:
        self._done = done

    def set(self, response: Any = None) -> None:
        """Watches are set."""
        self._done()

    def set_exception(self, error: Exception) -> None:
        """End the session if the server refuses: it must not go on with watches that see nothing."""
        if not isinstance(error, ConnectionLoss | SessionExpiredError | AuthFailedError):
            raise SessionExpiredError(f"watches could not be set again: {error!r}")


def set_watches(zxid: int, of_data: dict[str, bool], of_children: Iterable[str]) -> Iterator[SetWatches]:
    """Return the requests that set these watches again, each of a size that a server takes."""
    kinds = [*((path, "data" if is_there else "exist") for path, is_there in of_data.items())]
    kinds += [(path, "child") for path in of_children]
    request, size = SetWatches(zxid, [], [], []), 0
    for path, kind in kinds:
        getattr(request, kind).append(path)
        size += len(path.encode()) + int_struct.size
        if size >= _SET_WATCHES_BYTES:
            yield request
            request, size = SetWatches(zxid, [], [], []), 0
    if size:
        yield request
