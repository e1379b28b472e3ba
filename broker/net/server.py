"""The listeners, and the connections that they accept.

Owns binding, accepting and the set of open connections. Must not know requests.
Counterparts in Kafka: SocketServer and its Acceptor.

A listener accepts one connection after the other. Beyond a limit it waits with that connection: the kernel queues the
next ones, and other listeners go on.
"""

import errno
import logging
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import trio

from ottla.broker.config.connection_limits import ConnectionLimits
from ottla.broker.loop.clock import Clock, Offload
from ottla.broker.loop.turn import Turn
from ottla.broker.net.buffers import Buffers, RequestMemory
from ottla.broker.net.client_warnings import ClientWarnings
from ottla.broker.net.connection import Connection
from ottla.broker.net.connection_counts import ConnectionQuotas, TooManyConnections
from ottla.broker.net.outbox import Outbox
from ottla.broker.net.reply import Owed
from ottla.broker.net.session import ClientSession
from ottla.broker.net.transport import SocketTransport
from ottla.wire.codec import Chunk
from ottla.wire.config_def import ConfigError

logger = logging.getLogger("kafka.network.SocketServer")
acceptor_logger = logging.getLogger("kafka.network.DataPlaneAcceptor")
selector_logger = logging.getLogger("org.apache.kafka.common.network.Selector")

# The process has no descriptors or memory left: other connections must end before a new one can begin.
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_NO_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
_PAUSE_SECONDS: Final = 0.1
# The first four bytes of HTTP requests, read as the size of a frame.
_HTTP: Final = frozenset(
    int.from_bytes(each, "big")
    for each in (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ")
)
# The first two bytes of a TLS handshake: the type of its first record, and the major version 3.
_TLS: Final = 0x1603
# An acceptor's turn is bounded, as a connection's is.
_ACCEPT_AT_ONCE: Final = 16


# As `Dispatch` of a connection, with the session of its client.
SessionDispatch = Callable[[ClientSession, memoryview], "list[Chunk] | Owed | None"]


class AddressInUse(Exception):  # noqa: N818 - what it says
    """Another process listens on this address."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(f"listeners: {host or '*'}:{port} is in use by another process")
        self.host = host
        self.port = port


def listen(host: str, port: int, backlog: int) -> socket.socket:
    """Return a listening socket. Port 0 is any free one, no host is all addresses, a name is its first address."""
    if host:
        family, address = _resolve(host, port)
    else:
        family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
        address = (host, port)
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1 if host else 0)
        sock.bind(address)
        sock.listen(backlog)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise AddressInUse(host, port) from error
        raise
    return sock


class Server:
    """The open listeners and connections of one broker."""

    def __init__(
        self,
        dispatch: SessionDispatch,
        clock: Clock,
        offload: Offload,
        turn: Turn,
        *,
        max_frame: int,
        idle_seconds: float,
        send_buffer: int = -1,
        queued_bytes: int = -1,
        limits: ConnectionLimits = ConnectionLimits(),  # noqa: B008 - immutable
        give_up_files: Callable[[], bool] = lambda: False,
    ) -> None:
        """`give_up_files()` closes descriptors that other parts do not need, and returns whether there were any."""
        self._dispatch = dispatch
        self._give_up_files = give_up_files
        self._clock = clock
        self._offload = offload
        self._buffers = Buffers(max_frame, RequestMemory(queued_bytes) if queued_bytes > 0 else None)
        self._idle_seconds = idle_seconds
        self._send_buffer = send_buffer
        self._outbox = Outbox(turn)
        self._accepting = trio.CancelScope()
        self._connections: dict[Connection, str] = {}
        self._quotas = ConnectionQuotas(limits)
        self._opened = 0
        self._protocol_warnings = ClientWarnings(selector_logger)
        # Tasks that wait for the end of a connection, or for other limits.
        self._ended = trio.lowlevel.ParkingLot()

    @property
    def connection_count(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    async def run(self, listeners: Sequence[tuple[str, socket.socket]]) -> None:
        """Serve named listening sockets until cancelled, then close them."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._outbox.run)
                with self._accepting:
                    async with trio.open_nursery() as acceptors:
                        for name, sock in listeners:
                            acceptors.start_soon(self._accept, name, sock, nursery)
                _close(listeners)
        finally:
            _close(listeners)

    async def stop(self, grace_seconds: float) -> None:
        """Accept no more connections, send owed replies for `grace_seconds` at most, close all connections."""
        logger.info("Stopping: closing %d connections", len(self._connections))
        self._accepting.cancel()
        for connection in self._connections:
            connection.stop()
        with trio.move_on_after(grace_seconds):
            await self._until_closed()
        for connection in self._connections:
            connection.abort()
        await self._until_closed()
        logger.info("Stopped")

    def use_limits(self, limits: ConnectionLimits) -> None:
        """Use other limits for new connections."""
        self._quotas.use(limits)
        self._ended.unpark_all()

    async def _until_closed(self) -> None:
        while self._connections:
            await self._ended.park()

    async def _accept(self, name: str, listener: socket.socket, nursery: trio.Nursery) -> None:
        host, port = listener.getsockname()[:2]
        acceptor_logger.info("Awaiting connections of listener %s on %s:%d", name, host, port)
        while True:
            await trio.lowlevel.wait_readable(listener)
            try:
                for _ in range(_ACCEPT_AT_ONCE):
                    sock, address = listener.accept()
                    await self._admit(name, sock, (_without_mapping(address[0]), address[1]), nursery)
            except BlockingIOError:
                continue
            except OSError as error:
                if error.errno in _NO_DESCRIPTORS and self._give_up_files():
                    continue
                # Mostly the client went away before it was accepted.
                acceptor_logger.warning("Listener %s cannot accept a connection and goes on: %s", name, error)
                if error.errno in _EXHAUSTED:
                    await trio.sleep(_PAUSE_SECONDS)

    async def _admit(
        self, listener_name: str, sock: socket.socket, client: tuple[str, int], nursery: trio.Nursery
    ) -> None:
        """Serve a connection once the limits allow one more. Close it if its address has too many."""
        try:
            await self._wait_for_slot(listener_name)
            self._quotas.add(listener_name, client[0])
        except TooManyConnections as reason:
            logger.info("%s", reason)
            sock.close()
        except trio.Cancelled:
            sock.close()
            raise
        else:
            nursery.start_soon(self._serve_counted, listener_name, sock, client, nursery)

    async def _wait_for_slot(self, listener_name: str) -> None:
        quotas = self._quotas
        delay_ms = quotas.delay_ms(listener_name, 1000 * self._clock.monotonic())
        if delay_ms:
            await trio.sleep(delay_ms / 1000)
        while not quotas.has_slot(listener_name):
            await self._ended.park()
        # Only connections of the inter-broker listener come here while the broker is full.
        while quotas.is_full() and (victim := self._least_recently_used()) is not None:
            logger.info("Closing %s for another broker, because there are max.connections connections", victim.name)
            victim.abort()
            while victim in self._connections:
                await self._ended.park()

    def _least_recently_used(self) -> Connection | None:
        candidates = [each for each, name in self._connections.items() if not self._quotas.is_protected(name)]
        return min(candidates, key=lambda each: each.last_active, default=None)

    async def _serve_counted(
        self, listener_name: str, sock: socket.socket, client: tuple[str, int], nursery: trio.Nursery
    ) -> None:
        try:
            await self._serve(listener_name, sock, client, nursery)
        finally:
            self._quotas.remove(listener_name, client[0])
            self._ended.unpark_all()

    async def _serve(
        self, listener_name: str, sock: socket.socket, client: tuple[str, int], nursery: trio.Nursery
    ) -> None:
        if self._accepting.cancel_called:
            sock.close()
            return
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._send_buffer >= 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer)
            host, port = sock.getsockname()[:2]
        except OSError as gone:
            acceptor_logger.debug("A client of listener %s left before it was served: %s", listener_name, gone)
            sock.close()
            return
        self._opened += 1
        session = ClientSession(
            listener_name=listener_name,
            client_address=client[0],
            connection_id=f"{_without_mapping(host)}:{port}-{client[0]}:{client[1]}-{self._opened}",
        )
        connection = Connection(
            session.connection_id,
            SocketTransport(sock, self._offload),
            partial(self._dispatch, session),
            self._outbox,
            self._clock,
            self._buffers,
            nursery,
            idle_seconds=self._idle_seconds,
            on_no_frame=partial(self._warn_of_protocol, listener_name, client),
        )
        self._connections[connection] = listener_name
        try:
            await connection.run()
        finally:
            del self._connections[connection]

    def _warn_of_protocol(self, listener_name: str, client: tuple[str, int], size: int) -> None:
        host, port = client
        guess = _guess(size)
        message = "%s:%d is disconnected from listener %s, %s (Invalid receive, size = %d)"
        self._protocol_warnings.warn((host, guess), message, host, port, listener_name, guess, size)


def _guess(size: int) -> str:
    """Return the protocol that a client speaks if it announces a request of this size, and a hint for the operator."""
    if size in _HTTP:
        return "it speaks HTTP: is this a browser, a health check or a collector of metrics?"
    if size >> 16 == _TLS:
        return "it speaks TLS, and this listener does not: has the client security.protocol=SSL or SASL_SSL?"
    return "it does not speak Kafka's protocol"


def _without_mapping(address: str) -> str:
    """Return an address without the IPv6 prefix that a socket of both families puts before IPv4."""
    return address.removeprefix("::ffff:") if "." in address else address


def resolve_overrides(limits: ConnectionLimits) -> ConnectionLimits:
    """Return the limits with addresses instead of host names. This asks the resolver, and blocks."""
    found = {}
    for host, count in limits.per_ip_overrides.items():
        try:
            _, address = _resolve(host, 0)
        except OSError as error:
            raise ConfigError(f"max.connections.per.ip.overrides: {host}: {error.strerror}") from error
        found[str(address[0])] = count
    return limits._replace(per_ip_overrides=found)


def _resolve(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str | int, ...] | tuple[int, bytes]]:
    """Return the first address of a host, IPv4 before IPv6, or raise socket.gaierror."""
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # a label of the name is empty or longer than 63 characters
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known") from error
    family, _, _, _, address = min(infos, key=lambda info: info[0] != socket.AF_INET)
    return family, address


def _close(listeners: Sequence[tuple[str, socket.socket]]) -> None:
    for _, sock in listeners:
        if sock.fileno() >= 0:
            trio.lowlevel.notify_closing(sock)
            sock.close()
