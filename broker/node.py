"""One broker: builds everything, starts it in order, and takes it down in order.

Owns the order, the identity of the broker and of its cluster, and the signals of the process. Must not know what its
parts do. Counterpart in Kafka: KafkaServer.

Start: the sockets listen and the directories are locked before anything is changed; the store opens, the logs are
loaded and recovered, the broker registers and is told its partitions, and only then are connections accepted.
Stop: no new connections, owed replies leave, the controller ends, logs are flushed and marked as cleanly closed, and
with the store's session the broker's ephemeral znodes go.
"""

import gc
import logging
import os
import socket
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final, NamedTuple

import trio

from ottla.broker.apis import build_apis
from ottla.broker.authorizer import Access, Authorizer
from ottla.broker.bindings import Parts, client_handlers, control_handlers
from ottla.broker.clock import Clock, Offload, thread_offload
from ottla.broker.config import BrokerConfig
from ottla.broker.connection_limits import CONNECTION_CONFIG, ConnectionLimits
from ottla.broker.controller.broker_configs import BrokerConfigs
from ottla.broker.controller.config_changes import ConfigChanges
from ottla.broker.controller.event_loop import Controller
from ottla.broker.controller.peers import LocalPeer, Peer
from ottla.broker.controller.steps import UNCLEAN_KEY
from ottla.broker.controller.topic_configs import TopicConfigs
from ottla.broker.dynamic_config import DynamicConfig
from ottla.broker.group_partitions import group_coordinator
from ottla.broker.housekeeping import Housekeeping
from ottla.broker.large_requests import LargeRequests
from ottla.broker.listeners import Listener
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.replica_manager import ReplicaManager
from ottla.broker.server import AddressInUse, Server, listen, resolve_overrides
from ottla.log.config import BROKER_LOG_CONFIG
from ottla.log.manager import LogManager
from ottla.log.meta_properties import DirectoryLocks, read_meta_properties
from ottla.wire.types import TopicPartition
from ottla.zk.bootstrap import generate_broker_id, prepare_tree, register_broker, update_registration
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.store import WatchEvent
from ottla.zk.znodes import BrokerInfo, Endpoint, encode_uuid

__all__ = ["AddressInUse", "Node"]

logger = logging.getLogger("kafka.server.KafkaServer")

STORE_FILE: Final = "ottla-metadata.db"
MAX_THREADS: Final = 8
# How many batches are validated off the loop at a time: the loop needs a processor too, and each may take 128 MiB, a
# window of zstd.
VALIDATIONS: Final = max(1, min(MAX_THREADS, os.cpu_count() or 1) // 2)
# What replies that are owed may take to leave when the broker stops.
GRACE_SECONDS: Final = 2.0


Sockets = Mapping[str, socket.socket]


class Identity(NamedTuple):
    """Which broker of which cluster this is."""

    broker_id: int
    cluster_id: str


class Node:
    """A broker, from `run` until `stop`."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock | None = None,
        offload: Offload | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        """Without an authorizer everybody may do everything."""
        self._config = config
        self._access = Access(authorizer)
        self._clock = clock or Clock()
        self._offload = offload or thread_offload(MAX_THREADS)
        self._validate = offload or thread_offload(VALIDATIONS)
        self._stopping = trio.Event()

    def stop(self) -> None:
        """Have `run` end, cleanly."""
        self._stopping.set()

    async def run(self, ready: Callable[[str], None]) -> None:
        """Serve; `ready` is told where clients find the broker."""
        config = self._config
        logger.info("starting")
        async with AsyncExitStack() as stack:
            sockets = _listen(config, stack)
            locks = DirectoryLocks(config.log_dirs)
            stack.callback(locks.release)
            store = EmbeddedStore(config.log_dirs[0] / STORE_FILE, self._offload, now_ms=self._clock.now_ms)
            await store.open()
            stack.push_async_callback(store.close)
            identity = await self._identify(store)
            dynamic = await self._read_dynamic_configs(identity, store)
            limits = await self._offload(resolve_overrides, dynamic.current.connection_limits)
            logs = await self._load_logs(identity, locks, dynamic)
            try:
                await self._run_broker(identity, store, logs, dynamic, sockets, limits, ready)
            except BaseException:
                # As after a kill: the next start looks through what was not flushed.
                logs.abandon()
                raise

    async def _identify(self, store: EmbeddedStore) -> Identity:
        """Find out who this is: from the configuration, the directories, or the store, which may have to decide."""
        config = self._config
        found = next(filter(None, map(read_meta_properties, config.log_dirs)), {})
        session = store.session(lambda event: None)
        cluster_id = await prepare_tree(session, found.get("cluster.id") or encode_uuid(uuid.uuid4().bytes))
        broker_id = config.broker_id if config.broker_id >= 0 else int(found.get("broker.id", -1))
        if broker_id < 0:
            broker_id = await generate_broker_id(session, config.reserved_broker_max_id)
        await session.close()
        logger.info("Cluster ID = %s", cluster_id)
        return Identity(broker_id, cluster_id)

    async def _read_dynamic_configs(self, identity: Identity, store: EmbeddedStore) -> DynamicConfig:
        dynamic = DynamicConfig(self._config)
        session = store.session(lambda event: None)
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
        try:
            await self._offload(logs.load, self._clock.now_ms())
        except BaseException:
            logs.abandon()
            raise
        return logs

    async def _run_broker(
        self,
        identity: Identity,
        store: EmbeddedStore,
        logs: LogManager,
        dynamic: DynamicConfig,
        sockets: Sockets,
        limits: ConnectionLimits,
        ready: Callable[[str], None],
    ) -> None:
        async with trio.open_nursery() as nursery:
            broker = _Broker(
                dynamic,
                self._clock,
                self._offload,
                self._validate,
                self._access,
                identity,
                store,
                logs,
                limits,
                nursery,
            )
            nursery.start_soon(self._clock.run)
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
            broker.groups.shut_down()
            await broker.server.stop(GRACE_SECONDS)
            nursery.cancel_scope.cancel()
        await self._offload(_close, logs, broker.replicas.high_watermarks())
        await broker.session.close()
        logger.info("[KafkaServer id=%d] shut down completed", identity.broker_id)


class _Broker:
    """The parts of a broker with a loaded log, wired to each other."""

    def __init__(
        self,
        dynamic: DynamicConfig,
        clock: Clock,
        offload: Offload,
        validate: Offload,
        access: Access,
        identity: Identity,
        store: EmbeddedStore,
        logs: LogManager,
        limits: ConnectionLimits,
        nursery: trio.Nursery,
    ) -> None:
        # What no key changes while the broker runs is read once, from here.
        self._config = config = dynamic.static
        self._dynamic = dynamic
        self._clock = clock
        self._offload = offload
        self._identity = identity
        self._nursery = nursery
        self._epoch = -1
        self._metadata = MetadataCache()
        self._controller = Controller(
            dynamic, clock, self._metadata, broker_id=identity.broker_id, peers=lambda broker_id: self._peer
        )
        self.session = store.session(self._on_store_event)
        self._topic_configs = TopicConfigs(self.session, self._start_soon)
        self.replicas = ReplicaManager(
            logs,
            clock,
            offload,
            self._start_soon,
            broker_id=identity.broker_id,
            metadata=self._metadata,
            topic_config=self._topic_configs.get,
            log_defaults=dynamic.log_defaults,
            replica_lag_time_max_ms=config.replica_lag_time_max_ms,
        )
        self.groups = group_coordinator(config.values, self.replicas, self._metadata)
        broker_configs = BrokerConfigs(self.session, identity.broker_id, dynamic)
        self._config_changes = ConfigChanges(
            self.session, clock, self._topic_configs, broker_configs, self.replicas.reconfigure
        )
        parts = self._parts(access, validate)
        self._peer: Peer = LocalPeer(control_handlers(parts, lambda: self._epoch))
        self._housekeeping = Housekeeping(
            logs,
            clock,
            offload,
            flush=self.replicas.flush,
            high_watermarks=self.replicas.high_watermarks,
            config=lambda: dynamic.current.values,
        )
        self.server = self._server(parts, limits)
        dynamic.subscribe(CONNECTION_CONFIG, self._limit_connections)
        dynamic.subscribe(BROKER_LOG_CONFIG, self.replicas.broker_reconfigured)
        dynamic.subscribe([UNCLEAN_KEY], self._controller.unclean_election_changed)

    async def start(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Register, and return when the controller has told this broker its partitions."""
        self._epoch = await register_broker(self.session, self._info(endpoints), self._clock.now_ms())
        await self._nursery.start(self._config_changes.run)
        await self._nursery.start(self.groups.run)
        await self._nursery.start(self._controller.run, self.session)
        self._nursery.start_soon(self._housekeeping.run)

    async def advertise(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Be found elsewhere from now on; the controller tells all brokers."""
        await update_registration(self.session, self._info(endpoints), self._clock.now_ms())

    def _parts(self, access: Access, validate: Offload) -> Parts:
        return Parts(
            broker_id=self._identity.broker_id,
            cluster_id=self._identity.cluster_id,
            dynamic=self._dynamic,
            access=access,
            session=self.session,
            metadata=self._metadata,
            controller=self._controller,
            topic_configs=self._topic_configs,
            config_changes=self._config_changes,
            replicas=self.replicas,
            groups=self.groups,
            validate=validate,
            start_soon=self._start_soon,
        )

    def _server(self, parts: Parts, limits: ConnectionLimits) -> Server:
        config = self._config
        return Server(
            build_apis(client_handlers(parts), parts.access, LargeRequests(self.replicas.offload, self._start_soon)),
            self._clock,
            self._offload,
            self.replicas.turn,
            max_frame=config.socket_request_max_bytes,
            idle_seconds=_seconds(config.connections_max_idle_ms),
            send_buffer=config.socket_send_buffer_bytes,
            queued_bytes=config.values["queued.max.request.bytes"],
            limits=limits,
        )

    async def _limit_connections(self, config: BrokerConfig) -> None:
        self.server.use_limits(await self._offload(resolve_overrides, config.connection_limits))

    def _info(self, endpoints: tuple[Endpoint, ...]) -> BrokerInfo:
        return BrokerInfo(self._identity.broker_id, endpoints, self._config.broker_rack)

    def _on_store_event(self, event: WatchEvent) -> None:
        self._config_changes.on_store_event(event)
        self._controller.on_store_event(event)

    def _start_soon(self, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        self._nursery.start_soon(function, *args)


def _listen(config: BrokerConfig, stack: AsyncExitStack) -> Sockets:
    sockets = {}
    for listener in config.listeners:
        sock = listen(listener.host, listener.port, config.socket_listen_backlog_size)
        stack.callback(sock.close)
        sockets[listener.name] = sock
    return sockets


def _endpoints(config: BrokerConfig, sockets: Sockets) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(each.name, *_advertised(each, sockets)) for each in config.advertised_listeners)


def _advertised(listener: Listener, sockets: Sockets) -> tuple[str, int]:
    """Where clients find a listener: a host that was left out is this machine, a port 0 the one that was free."""
    return listener.host or socket.getfqdn(), listener.port or sockets[listener.name].getsockname()[1]


def _bootstrap(config: BrokerConfig, sockets: Sockets) -> str:
    host, port = _advertised(config.advertised_listeners[0], sockets)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _seconds(milliseconds: int) -> float:
    return milliseconds / 1000 if milliseconds >= 0 else float("inf")


def _close(logs: LogManager, high_watermarks: Mapping[TopicPartition, int]) -> None:
    logs.write_high_watermarks(high_watermarks)
    logs.shutdown()
