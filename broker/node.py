"""One broker: starts all parts in order, and stops them in order.

Owns the order, and the ids of the broker and of its cluster. Must not know what the parts do.
Counterpart in Kafka: KafkaServer.

Start: the sockets listen and the directories are locked before anything is changed. Then the store opens, the logs are
loaded and recovered, the broker registers and gets its partitions, and only then connections are accepted.
Stop: leadership moves away, no connection is accepted any more, deferred responses are sent, the controller ends, logs
are flushed and marked as cleanly closed, and with the store's session the broker's ephemeral znodes go.
"""

import errno
import gc
import logging
import os
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import trio

from ottla.broker.assembly import Assembly, BeginSession, Identity
from ottla.broker.cluster.broker_configs import BrokerConfigs
from ottla.broker.config.broker_config import BrokerConfig
from ottla.broker.config.connection_limits import ConnectionLimits
from ottla.broker.config.dynamic import DynamicConfig
from ottla.broker.config.listeners import Listener
from ottla.broker.controller.store import ClusterStore
from ottla.broker.loop.clock import Clock, Offload, thread_offload
from ottla.broker.net.broker_client import Connect, open_socket
from ottla.broker.net.server import AddressInUse, listen, resolve_overrides
from ottla.broker.requests.authorizer import Access, Authorizer
from ottla.broker.upkeep.stray_logs import find_strays
from ottla.log.manager import LogManager
from ottla.log.state.directory_failures import NoLogDirectoryError, metadata_failed
from ottla.log.state.meta_properties import DirectoryLocks, read_meta_properties
from ottla.wire.config_def import ConfigError
from ottla.wire.uuids import uuid_text
from ottla.zk.bootstrap import generate_broker_id, prepare_tree
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.journal import JournalFailedError
from ottla.zk.znodes import Endpoint

__all__ = ["AddressInUse", "Node"]

logger = logging.getLogger("kafka.server.KafkaServer")

STORE_FILE: Final = "ottla-metadata.db"
MAX_THREADS: Final = 8
# Threads that validate batches: the loop needs a processor too, and each batch may take 128 MiB, a window of zstd.
VALIDATIONS: Final = max(1, min(MAX_THREADS, os.cpu_count() or 1) // 2)
# Threads that write to logs in slow directories, and do nothing else.
SLOW_WRITES: Final = 16
# The time for deferred responses to be sent when the broker stops.
GRACE_SECONDS: Final = 2.0


Sockets = Mapping[str, socket.socket]


class Node:
    """A broker, from `run` until `stop`."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock | None = None,
        offload: Offload | None = None,
        authorizer: Authorizer | None = None,
        begin: BeginSession | None = None,
        connect: Connect = open_socket,
    ) -> None:
        """Without an authorizer every request is allowed.

        `begin` begins sessions of a store that brokers of one cluster share, `connect` connects them to each other.
        """
        self._config = config
        self._begin_session = begin
        self._connect = connect
        self._access = Access(authorizer)
        self._clock = clock or Clock()
        self._offload = offload or thread_offload(MAX_THREADS)
        self._validate = offload or thread_offload(VALIDATIONS)
        self._append_offload = offload or thread_offload(SLOW_WRITES)
        self._stopping = trio.Event()
        self._own_store: EmbeddedStore | None = None
        self._asking_store = trio.CancelScope()

    @property
    def _has_own_store(self) -> bool:
        """Whether the cluster's metadata is kept in a log directory of this broker."""
        return self._begin_session is None and not self._config.values["zookeeper.connect"]

    def stop(self) -> None:
        """End `run` cleanly, and at once while it waits for a store that cannot be reached."""
        self._stopping.set()
        self._asking_store.cancel()

    async def run(self, ready: Callable[[str], None]) -> None:
        """Serve until `stop`; `ready(bootstrap)` is called with the broker's address."""
        config = self._config
        logger.info("starting")
        async with AsyncExitStack() as stack:
            sockets = _listen(config, stack)
            locks = DirectoryLocks(config.log_dirs)
            stack.callback(locks.release)
            if self._has_own_store:
                _check_metadata_directory(config, locks.directories)
            found = None
            with self._asking_store:
                found = await self._ask_store(locks.directories, stack)
            if found is None:
                logger.info("stopped before the store was reached")
                return
            begin, identity, dynamic, limits = found
            logs = await self._load_logs(identity, locks, dynamic)
            try:
                if self._own_store is not None:
                    await self._find_strays(begin, logs)
                await self._run_broker(identity, begin, logs, dynamic, sockets, limits, ready, stack)
            except BaseException:
                # As after a kill: the next start recovers the segments that were not flushed.
                logs.abandon()
                raise

    async def _open_store(self, stack: AsyncExitStack) -> BeginSession:
        if not self._has_own_store:
            return await open_ensemble(self._config, self._offload, stack)
        self._own_store = await open_own_store(self._config, self._offload, self._clock.now_ms, stack)
        return self._own_store.begin

    async def _ask_store(
        self, directories: Sequence[Path], stack: AsyncExitStack
    ) -> tuple[BeginSession, Identity, DynamicConfig, ConnectionLimits]:
        """Open the store, and read the ids and the dynamic configs of this broker from it."""
        begin = self._begin_session or await self._open_store(stack)
        identity = await self._identify(directories, begin)
        dynamic = await self._read_dynamic_configs(identity, begin)
        return begin, identity, dynamic, await self._offload(resolve_overrides, dynamic.current.connection_limits)

    async def _identify(self, directories: Sequence[Path], begin: BeginSession) -> Identity:
        """Return the ids of broker and cluster: from the configuration, the directories, or the store."""
        config = self._config
        found = next(filter(None, map(read_meta_properties, directories)), {})
        # A ZooKeeper without a cluster id is not the one that this broker's cluster is kept in.
        own_cluster_id = None if config.values["zookeeper.connect"] else found.get("cluster.id")
        session = await begin(lambda event: None)
        cluster_id = await prepare_tree(session, own_cluster_id or uuid_text(uuid.uuid4().bytes))
        stored = found.get("broker.id", "")
        broker_id = config.broker_id if config.broker_id >= 0 else int(stored) if stored.isdecimal() else -1
        if broker_id < 0:
            broker_id = await generate_broker_id(session, config.reserved_broker_max_id)
        await session.close()
        logger.info("Cluster ID = %s", cluster_id)
        return Identity(broker_id, cluster_id)

    async def _read_dynamic_configs(self, identity: Identity, begin: BeginSession) -> DynamicConfig:
        dynamic = DynamicConfig(self._config)
        session = await begin(lambda event: None)
        await BrokerConfigs(session, identity.broker_id, dynamic).refresh()
        await session.close()
        return dynamic

    async def _load_logs(self, identity: Identity, locks: DirectoryLocks, dynamic: DynamicConfig) -> LogManager:
        config = self._config
        logs = LogManager(
            config.log_dirs,
            broker_id=identity.broker_id,
            cluster_id=identity.cluster_id,
            default_config=dynamic.log_defaults,
            producer_id_expiration_ms=dynamic.current.values["producer.id.expiration.ms"],
            locks=locks,
        )
        if self._has_own_store:
            logs.failures.vital = config.log_dirs[0]
        try:
            processes = dynamic.current.values["num.recovery.threads.per.data.dir"]
            await self._offload(logs.load, self._clock.now_ms(), processes)
        except BaseException:
            logs.abandon()
            raise
        return logs

    async def _find_strays(self, begin: BeginSession, logs: LogManager) -> None:
        session = await begin(lambda event: None)
        await find_strays(ClusterStore(session), logs, self._config.log_dirs[0] / STORE_FILE)
        await session.close()

    async def _run_broker(
        self,
        identity: Identity,
        begin: BeginSession,
        logs: LogManager,
        dynamic: DynamicConfig,
        sockets: Sockets,
        limits: ConnectionLimits,
        ready: Callable[[str], None],
        stack: AsyncExitStack,
    ) -> None:
        async with trio.open_nursery() as nursery:
            broker = Assembly(
                dynamic,
                self._clock,
                self._offload,
                self._validate,
                self._append_offload,
                self._access,
                identity,
                begin,
                logs,
                limits,
                nursery,
                self._connect,
            )
            # However this ends, the broker's ephemeral znodes in a shared store must not outlive it.
            stack.push_async_callback(broker.session.close)
            nursery.start_soon(self._clock.run)
            if self._own_store is not None:
                nursery.start_soon(run_store, self._own_store, self._config.log_dirs[0])
            await broker.start(_endpoints(dynamic.current, sockets))

            async def advertise(config: BrokerConfig) -> None:
                await broker.advertise(_endpoints(config, sockets))

            dynamic.subscribe(["advertised.listeners"], advertise)
            nursery.start_soon(broker.server.run, [(name, sock) for name, sock in sockets.items()])
            gc.collect()
            gc.freeze()
            logger.info("[KafkaServer id=%d] started", identity.broker_id)
            ready(_bootstrap(dynamic.current, sockets))
            await self._stopping.wait()
            logger.info("[KafkaServer id=%d] shutting down", identity.broker_id)
            await broker.leave()
            await broker.server.stop(GRACE_SECONDS)
            nursery.cancel_scope.cancel()
        await self._offload(logs.shutdown, broker.replicas.high_watermarks())
        await broker.session.close()
        logger.info("[KafkaServer id=%d] shut down completed", identity.broker_id)


async def open_store(
    config: BrokerConfig, offload: Offload, now_ms: Callable[[], int], stack: AsyncExitStack
) -> BeginSession:
    """Open the store of a configuration, until the stack ends."""
    if config.values["zookeeper.connect"]:
        return await open_ensemble(config, offload, stack)
    return (await open_own_store(config, offload, now_ms, stack)).begin


async def open_ensemble(config: BrokerConfig, offload: Offload, stack: AsyncExitStack) -> BeginSession:
    """Connect to the ZooKeeper that a configuration names, until the stack ends."""
    from ottla.zk.ensemble import EnsembleStore  # slow to import, and not needed without a ZooKeeper
    from ottla.zk.security import read_security

    values = config.values
    security = await offload(read_security, values, config.system_properties)
    try:
        ensemble = EnsembleStore(
            values["zookeeper.connect"],
            session_timeout_ms=values["zookeeper.session.timeout.ms"],
            connection_timeout_ms=values["zookeeper.connection.timeout.ms"],
            max_in_flight_requests=values["zookeeper.max.in.flight.requests"],
            set_acl=security.set_acl,
            credentials=security.credentials,
            tls=security.tls,
        )
    except ValueError as error:
        raise ConfigError(f"zookeeper.connect: {error}") from error
    await ensemble.open()
    stack.push_async_callback(ensemble.close)
    return ensemble.session


async def open_own_store(
    config: BrokerConfig, offload: Offload, now_ms: Callable[[], int], stack: AsyncExitStack
) -> EmbeddedStore:
    """Open the store in the first log directory, until the stack ends."""
    store = EmbeddedStore(config.log_dirs[0] / STORE_FILE, offload, now_ms=now_ms)
    await store.open()
    stack.push_async_callback(store.close)
    return store


async def run_store(store: EmbeddedStore, directory: Path) -> None:
    """Run a store; NoLogDirectoryError once its disk has failed."""
    try:
        await store.run()
    except JournalFailedError as error:
        raise metadata_failed(directory) from error


def _listen(config: BrokerConfig, stack: AsyncExitStack) -> Sockets:
    sockets = {}
    for listener in config.listeners:
        try:
            sock = listen(listener.host, listener.port, config.socket_listen_backlog_size)
        except OSError as error:
            raise ConfigError(f"listeners: {_why_not(listener, error)}") from error
        stack.callback(sock.close)
        sockets[listener.name] = sock
    return sockets


def _why_not(listener: Listener, error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return f"the host name {listener.host} cannot be resolved: {error.strerror}"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{listener.host} is no address of this machine"
    return f"{listener.host or '*'}:{listener.port}: {error.strerror}"


def _endpoints(config: BrokerConfig, sockets: Sockets) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(each.name, *_advertised(each, sockets)) for each in config.advertised_listeners)


def _advertised(listener: Listener, sockets: Sockets) -> tuple[str, int]:
    """Return the address of a listener: an empty host means this machine, port 0 the port that was bound."""
    return listener.host or socket.getfqdn(), listener.port or sockets[listener.name].getsockname()[1]


def _bootstrap(config: BrokerConfig, sockets: Sockets) -> str:
    host, port = _advertised(config.advertised_listeners[0], sockets)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _check_metadata_directory(config: BrokerConfig, directories: Sequence[Path]) -> None:
    """Raise NoLogDirectoryError if the directory of the embedded store cannot be used."""
    first = config.log_dirs[0]
    if first not in directories:
        raise NoLogDirectoryError(f"Shutdown broker because the metadata log dir {first} cannot be used")
