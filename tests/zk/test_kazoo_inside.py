"""One test for each name inside kazoo that `ottla.zk.kazoo_inside` relies on, against a scripted server."""

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss, SessionExpiredError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import GetChildren, GetData
from kazoo.protocol.states import EventType, KeeperState

from ottla.zk.kazoo_inside import HookedClient

PATIENCE_S = 120
# So long that kazoo's own waiting for a response to Connect would exceed PATIENCE_S.
SESSION_TIMEOUT_MS = 600_000
GRANTED_MS = 40_000
SESSION_ID = 77
CLOSE = -11
GET_CHILDREN = 8
GET_DATA = 4
SASL = 102
OK = 0
SASL_REQUIRED = -124


class Server:
    """A server of one connection at a time, whose steps a test calls."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(PATIENCE_S)
        self._opened: list[socket.socket] = []
        self.hosts = f"127.0.0.1:{self._listener.getsockname()[1]}"
        # The session timeout that the last Connect asked for.
        self.asked_timeout_ms = 0

    def accept(self) -> None:
        """Take the next connection and its Connect."""
        self._connection, _ = self._listener.accept()
        self._opened.append(self._connection)
        self._connection.settimeout(PATIENCE_S)
        self.asked_timeout_ms = struct.unpack_from(">iqi", self._frame())[2]

    def greet(self, granted_ms: int = GRANTED_MS) -> None:
        """Answer Connect; 0 ms: the session has expired."""
        self._send(struct.pack(">iiqi16s?", 0, granted_ms, SESSION_ID, 16, b"p" * 16, False))

    def request(self) -> tuple[int, int, bytes]:
        """Return the next request's xid, type and content."""
        frame = self._frame()
        xid, kind = struct.unpack_from(">ii", frame)
        return xid, kind, frame[8:]

    def answer(self, xid: int, error: int = OK, content: bytes = b"") -> None:
        self._send(struct.pack(">iqi", xid, 5, error) + content)

    def fire(self, kind: int, path: bytes) -> None:
        self.answer(-1, OK, struct.pack(">iii", kind, 3, len(path)) + path)

    def drop(self) -> None:
        """Break all connections."""
        for connection in self._opened:
            connection.close()

    def close(self) -> None:
        self.drop()
        self._listener.close()

    def _send(self, frame: bytes) -> None:
        self._connection.sendall(struct.pack(">i", len(frame)) + frame)

    def _frame(self) -> bytes:
        (length,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            received = self._connection.recv(count - len(data))
            if not received:
                raise EOFError
            data += received
        return data


class Log:
    """The arguments of all calls of hooks and results, in their order."""

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self.threads: set[threading.Thread] = set()
        self._changed = threading.Condition()

    def add(self, entry: Any) -> None:
        with self._changed:
            self.entries.append(entry)
            self.threads.add(threading.current_thread())
            self._changed.notify_all()

    def wait_for(self, entry: Any) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: entry in self.entries, PATIENCE_S), self.entries


class Result:
    """A result that logs what it is set to."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def set(self, response: Any = None) -> None:
        self._log.add(response)

    def set_exception(self, error: Exception) -> None:
        self._log.add(type(error))


class Refusing(Result):
    """A result that raises instead of taking an error."""

    def set_exception(self, error: Exception) -> None:
        raise SessionExpiredError


def anonymous(protocol: int) -> ssl.SSLContext:
    """Return a TLS context that needs no certificates."""
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("aNULL:@SECLEVEL=0")
    return context


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def log() -> Log:
    return Log()


Begin = Callable[..., HookedClient]


@pytest.fixture
def begin(server: Server, log: Log) -> Iterator[Begin]:
    """Begins sessions, which end with the test."""
    clients = []

    def begin(attempts: int = 3, credentials: tuple[str, str] | None = None) -> HookedClient:
        client = HookedClient(
            server.hosts,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            attempts=attempts,
            credentials=credentials,
            tls=None,
            on_state=log.add,
            on_connected=lambda: log.add("connected"),
            on_event=lambda kind, path: log.add((kind, path)),
        )
        client.start_async()
        clients.append(client)
        server.accept()
        return client

    yield begin
    # Without a server each connection thread tries to connect until `end` stops it.
    server.close()
    for client in clients:
        client.end()


@pytest.fixture
def connected(begin: Begin, server: Server, log: Log) -> HookedClient:
    client = begin()
    server.greet()
    log.wait_for("connected")
    return client


# KazooClient


def test_kazoo_starts_the_connection_in__connection(connected: HookedClient, log: Log) -> None:
    assert log.entries == [KeeperState.CONNECTING, KeeperState.CONNECTED, "connected"]
    assert log.threads == {connected._connection._connection_routine}


def test_kazoo_calls__session_callback_before_the_requests_fail_that_are_lost(
    connected: HookedClient, server: Server, log: Log
) -> None:
    connected.call(GetChildren("/a", False), Result(log))
    server.request()
    server.drop()
    log.wait_for(ConnectionLoss)
    assert log.entries[3:] == [KeeperState.CONNECTING, ConnectionLoss]


def test_kazoo_begins_no_session_once__stopped_is_set(begin: Begin, server: Server, log: Log) -> None:
    client = begin()
    server.greet(granted_ms=0)
    log.wait_for(KeeperState.CLOSED)
    client._connection.stop(PATIENCE_S)
    assert log.entries == [KeeperState.CONNECTING, KeeperState.EXPIRED_SESSION, KeeperState.CLOSED]


def test_kazoo_asks_for_the_timeout_in__session_timeout(connected: HookedClient, server: Server) -> None:
    assert server.asked_timeout_ms == SESSION_TIMEOUT_MS
    server.drop()
    server.accept()
    assert server.asked_timeout_ms == GRANTED_MS


def test__call_sends_a_request_and_sets_its_result(connected: HookedClient, server: Server, log: Log) -> None:
    connected.call(GetChildren("/a", False), Result(log))
    xid, kind, content = server.request()
    assert (kind, content) == (GET_CHILDREN, b"\0\0\0\x02/a\0")
    server.answer(xid, content=struct.pack(">ii1s", 1, 1, b"b"))
    log.wait_for(["b"])
    assert connected.last_zxid == 5


def test__safe_close_waits_for_the_connection_thread(begin: Begin, server: Server, log: Log) -> None:
    client = begin()
    server.greet(granted_ms=0)
    log.wait_for(KeeperState.EXPIRED_SESSION)
    thread = client._connection._connection_routine
    client.end()
    assert not thread.is_alive()


# ConnectionHandler


def test_zk_loop_ends_the_session_when_a_response_makes_no_sense(
    connected: HookedClient, server: Server, log: Log
) -> None:
    connected.call(GetChildren("/a", False), Result(log))
    xid, _, _ = server.request()
    server.answer(xid + 1)
    log.wait_for(KeeperState.CLOSED)


def test__connect_returns_two_thirds_of_the_timeout_that_the_server_grants(connected: HookedClient) -> None:
    assert connected._session_timeout == GRANTED_MS


def test__connect_does_not_return_before_the_connection_is_authenticated(
    begin: Begin, server: Server, log: Log
) -> None:
    begin(credentials=("broker", "password"))
    server.greet()
    assert server.request()[1] == SASL
    assert log.entries == [KeeperState.CONNECTING, KeeperState.CONNECTED]


def test__invoke_gives_up_a_silent_server_in_time_for_another_attempt(begin: Begin, server: Server) -> None:
    begin(attempts=600)
    # While the first connection is still open.
    server.accept()


def test__authenticate_with_sasl_takes_a_broken_connection_for_no_refusal(
    begin: Begin, server: Server, log: Log
) -> None:
    begin(credentials=("broker", "password"))
    server.greet()
    assert server.request()[1] == SASL
    server.drop()
    server.accept()
    assert KeeperState.AUTH_FAILED not in log.entries


def test__authenticate_with_sasl_takes_a_server_that_requires_sasl_for_a_refusal(
    begin: Begin, server: Server, log: Log
) -> None:
    begin(credentials=("broker", "password"))
    server.greet()
    xid, _, _ = server.request()
    server.answer(xid, SASL_REQUIRED)
    log.wait_for(KeeperState.AUTH_FAILED)


def test__read_watch_event_is_called_between_the_responses(connected: HookedClient, server: Server, log: Log) -> None:
    for _ in range(2):
        connected.call(GetChildren("/a", False), Result(log))
    server.answer(server.request()[0], content=struct.pack(">ii1s", 1, 1, b"1"))
    server.fire(3, b"/a")
    server.fire(-1, b"/a")
    server.answer(server.request()[0], content=struct.pack(">ii1s", 1, 1, b"2"))
    log.wait_for(["2"])
    assert log.entries[3:] == [["1"], (EventType.CHANGED, "/a"), ["2"]]


def test_connection_stopped_is_set_when_the_thread_has_ended(begin: Begin, server: Server, log: Log) -> None:
    client = begin()
    server.greet()
    log.wait_for("connected")
    assert not client.connection_has_ended()
    server.drop()
    server.accept()
    server.greet(granted_ms=0)
    log.wait_for(KeeperState.CLOSED)
    assert client.connection_has_ended()


# Requests and results


def test_kazoo_remembers_no_watcher_that_is_hidden(connected: HookedClient, server: Server, log: Log) -> None:
    connected.call(GetData("/a", True), Result(log))
    xid, kind, content = server.request()
    assert (kind, content) == (GET_DATA, b"\0\0\0\x02/a\x01")
    server.answer(xid, content=struct.pack(">i", -1) + bytes(68))
    connected.call(GetChildren("/a", True), Result(log))
    xid, _, _ = server.request()
    server.answer(xid, content=struct.pack(">i", 0))
    log.wait_for([])
    assert not connected._data_watchers
    assert not connected._child_watchers


def test_set_exception_of_a_result_may_end_the_session(connected: HookedClient, server: Server, log: Log) -> None:
    connected.call(GetChildren("/a", False), Refusing(log))
    server.answer(server.request()[0], error=-6)
    log.wait_for(KeeperState.EXPIRED_SESSION)


# SequentialThreadingHandler


def test_kazoo_starts_no_threads_but_the_connection(
    begin: Begin, server: Server, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    spawn = SequentialThreadingHandler.spawn

    def spy(handler: Any, function: Any, *args: Any) -> Any:
        started.append(function.__name__)
        return spawn(handler, function, *args)

    monkeypatch.setattr(SequentialThreadingHandler, "spawn", spy)
    begin()
    server.greet()
    log.wait_for("connected")
    assert started == ["zk_loop"]


def test_kazoo_waits_for_sockets_by_select(connected: HookedClient) -> None:
    here, there = socket.socketpair()
    with here, there:
        assert connected.handler.select([here], [], [], 0) == ([], [])
        assert connected.handler.select([here], [there], [], 0) == ([], [there])
        there.send(b"x")
        assert connected.handler.select([here], [], [], PATIENCE_S) == ([here], [])


def test_select_returns_a_socket_whose_bytes_are_in_the_tls_layer(connected: HookedClient) -> None:
    here, there = socket.socketpair()

    def greet() -> None:
        with anonymous(ssl.PROTOCOL_TLS_SERVER).wrap_socket(there, server_side=True) as sock:
            sock.sendall(b"xy")

    greeting = threading.Thread(target=greet)
    greeting.start()
    with anonymous(ssl.PROTOCOL_TLS_CLIENT).wrap_socket(here) as sock:
        assert sock.recv(1) == b"x"
        assert connected.handler.select([sock], [], [], PATIENCE_S) == ([sock], [])
        greeting.join()


def test_create_socket_pair_makes_a_pipe_whose_send_never_blocks(connected: HookedClient) -> None:
    read, write = connected.handler.create_socket_pair()
    for _ in range(10_000):
        write.send(b"\0")
    write.close()
    read.close()


def test_kazoo_calls_create_connection_with_the_timeout_of_the_session(
    begin: Begin, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeouts = []
    create = socket.create_connection

    def spy(address: Any, timeout: float) -> socket.socket:
        timeouts.append(timeout)
        return create(address, timeout)

    monkeypatch.setattr(socket, "create_connection", spy)
    begin(attempts=4)
    assert timeouts == [SESSION_TIMEOUT_MS / 1000 / 4]
