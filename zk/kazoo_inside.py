"""kazoo's inside: everything that Ottla uses of kazoo 2.11 beyond kazoo's public interface.

Owns the connection thread and its sockets. Must not know watches, nor the loop. Counterpart: ClientCnxn's SendThread in
ZooKeeper's Java client. tests/zk/test_kazoo_inside.py tests each name below, so that another kazoo fails there first.

KazooClient:
- `_connection`: replaced, because the constructor takes no class for the connection.
- `_session_callback`: overridden, because a public listener is called after lost requests have failed.
- `_stopped`: set when the session is over, because otherwise kazoo begins a new session.
- `_session_timeout`: set to the timeout that the server granted, because no public method sets it.
- `_call`: sends a request. The public methods have no SetWatches and no Create2 in a transaction, and their results
  arrive in a thread of their own, which loses the order of responses and events.
- `_safe_close`: joins the connection thread, because `stop` does nothing once `_stopped` is set.

ConnectionHandler, which is not public itself:
- `zk_loop`: overridden, because an exception that ends the connection thread would be printed.
- `_connect`: overridden, because the public state is CONNECTED before the connection is authenticated.
- `_invoke`: overridden, because kazoo waits for the response to Connect as long as the only host's session lasts.
- `_authenticate_with_sasl`: overridden, because kazoo takes a connection that breaks for a refusal, and not vice versa.
- `_read_watch_event`: overridden, because kazoo hands events to another thread than responses.
- `connection_stopped`: read, because no public method says whether the connection thread has ended.

Requests and results:
- `watcher`: hidden from kazoo, because kazoo forgets its own watchers when the connection breaks.
- `set_exception` of a result: may raise SessionExpiredError, which ends the session.

SequentialThreadingHandler, public but without a promise of its calls:
- `start`: overridden, because the threads that it starts have no work.
- `select`: overridden, because kazoo's waits for a socket whose last bytes are in the TLS layer already.
- `create_socket_pair`: overridden, because `_call` must not block when the pipe is full.
- `create_connection`: overridden, because kazoo's TLS trusts the system's authorities beside the given one.
"""

import contextlib
import logging
import select
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final

from kazoo.client import CLOSED_STATES, KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionDropped, SessionClosedRequireSaslError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Watch
from kazoo.protocol.states import EVENT_TYPE_MAP, EventType
from kazoo.retry import KazooRetry

logger = logging.getLogger("org.apache.zookeeper.ClientCnxn")

# The pipe that wakes the connection thread holds a byte for each request that is not sent yet, some 270 of them.
MAX_IN_FLIGHT: Final = 100


class _Waker:
    """The writing end of the pipe that wakes the connection thread. A full pipe has a byte for every request."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock

    def send(self, data: bytes) -> None:
        """Wake the connection thread without blocking, because the loop calls this."""
        with contextlib.suppress(BlockingIOError):
            self._sock.send(data)

    def close(self) -> None:
        """Close this end of the pipe."""
        self._sock.close()


class _Handler(SequentialThreadingHandler):
    """kazoo's sockets, without the threads for callbacks."""

    def __init__(self, tls: ssl.SSLContext | None, attempts: int) -> None:
        super().__init__()
        self._tls = tls
        self._attempts = attempts

    def start(self) -> None:
        """Start no threads."""

    def select(self, read: list[Any], write: list[Any], _: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        """Wait for sockets; return those that are readable and those that are writable."""
        poll = select.poll()
        for sock in read:
            poll.register(sock, select.POLLIN)
        for sock in write:
            poll.register(sock, select.POLLOUT)
        ready = {sock.fileno() for sock in read if isinstance(sock, ssl.SSLSocket) and sock.pending()}
        ready.update(fd for fd, _ in poll.poll(0 if ready else timeout * 1000))
        return [sock for sock in read if sock.fileno() in ready], [sock for sock in write if sock.fileno() in ready]

    def create_socket_pair(self) -> tuple[socket.socket, _Waker]:
        """Return the two ends of the pipe that wakes the connection thread."""
        read, write = socket.socketpair()
        return read, _Waker(write)

    def create_connection(
        self, address: tuple[str, int], hostname: str | None = None, *, timeout: float, **_: Any
    ) -> socket.socket:
        """Return a connected socket, with TLS by our own context."""
        sock = socket.create_connection(address, timeout / self._attempts)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock if self._tls is None else self._tls.wrap_socket(sock, server_hostname=hostname)


class _Connection(ConnectionHandler):
    """kazoo's connection thread, which calls the hooks of its `HookedClient`."""

    def zk_loop(self) -> None:
        # kazoo has logged the exception and closed the session.
        with contextlib.suppress(Exception):
            super().zk_loop()

    def _connect(self, host: str, address: str, port: int) -> tuple[float, float]:
        read_timeout_ms, connect_timeout_ms = super()._connect(host, address, port)
        # kazoo computes its read timeout as two thirds of the timeout that the server granted.
        self.client.connected_for(session_timeout_ms=int(read_timeout_ms * 3 / 2))
        return read_timeout_ms, connect_timeout_ms

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        return super()._invoke(timeout * len(self.client.hosts) / self.client.attempts, request, xid)

    def _authenticate_with_sasl(self, host: str, timeout: float) -> None:
        try:
            super()._authenticate_with_sasl(host, timeout)
        except AuthFailedError as error:
            if isinstance(error.__cause__, ConnectionDropped):
                raise error.__cause__ from None
            raise
        except SessionClosedRequireSaslError as error:
            raise AuthFailedError from error

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        event, _ = Watch.deserialize(buffer, offset)
        kind = EVENT_TYPE_MAP.get(event.type, EventType.NONE)
        if kind != EventType.NONE:
            self.client.on_event(kind, event.path)


class _WatcherHidden:
    """A read whose watch is sent to the server, but not remembered by kazoo: it has no attribute `watcher`."""

    def __init__(self, request: Any) -> None:
        self._request = request
        self.type = request.type
        self.serialize = request.serialize
        self.deserialize = request.deserialize

    def __repr__(self) -> str:
        return repr(self._request)


class HookedClient(KazooClient):
    """One session that calls hooks in kazoo's connection thread.

    `on_state(state)`: kazoo's state changes; the requests that it loses have not failed yet.
    `on_connected()`: the connection is authenticated; a request that is sent here is its first.
    `on_event(kind, path)`: the server sent a watch event.
    """

    def __init__(
        self,
        hosts: str,
        *,
        session_timeout_ms: int,
        attempts: int,
        credentials: tuple[str, str] | None,
        tls: ssl.SSLContext | None,
        on_state: Callable[[str], None],
        on_connected: Callable[[], None],
        on_event: Callable[[str, str], None],
    ) -> None:
        # The number of attempts to connect for which a session's timeout has time.
        self.attempts = attempts
        self.on_event = on_event
        self._on_state = on_state
        self._on_connected = on_connected
        sasl = None
        if credentials is not None:
            sasl = {"mechanism": "DIGEST-MD5", "username": credentials[0], "password": credentials[1]}
        handler = _Handler(tls, attempts)
        retry = KazooRetry(max_tries=-1, delay=0.1, max_delay=1.0, sleep_func=handler.sleep_func)
        super().__init__(hosts, session_timeout_ms / 1000, handler=handler, connection_retry=retry, logger=logger)
        self._connection = _Connection(self, retry.copy(), logger=logger, sasl_options=sasl)

    def call(self, request: Any, result: Any) -> None:
        """Send a request. kazoo calls `result.set` or `result.set_exception`, the latter maybe twice."""
        self._call(_WatcherHidden(request) if getattr(request, "watcher", False) else request, result)

    def end(self) -> None:
        """End the session and the connection thread. Blocks until the server has answered, or is given up."""
        # It does nothing when the session is over.
        self.stop()
        self._safe_close()
        self.close()

    def connection_has_ended(self) -> bool:
        """Return whether the connection thread has ended."""
        return bool(self._connection.connection_stopped.is_set())

    def connected_for(self, session_timeout_ms: int) -> None:
        """Take the session timeout that the server granted, and call `on_connected`."""
        self._session_timeout = session_timeout_ms
        self._on_connected()

    def _session_callback(self, state: str) -> None:
        if state == self.client_state:
            return
        if state in CLOSED_STATES:
            self._stopped.set()
        self._on_state(state)
        super()._session_callback(state)
