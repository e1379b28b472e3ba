"""One broker: builds everything, starts it in order, and takes it down in order.

Owns the order, the identity of the broker and of its cluster, and the signals of the process. Must not know what its
parts do. Counterpart in Kafka: KafkaServer.

Start: the sockets listen and the directories are locked before anything is changed; the store opens, the logs are
loaded and recovered, the broker registers and is told its partitions, and only then are connections accepted.
Stop: no new connections, owed replies leave, the controller ends, logs are flushed and marked as cleanly closed, and
with the store's session the broker's ephemeral znodes go.
"""

import fcntl
import gc
import logging
import os
import random
import resource
import signal
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from types import ModuleType
from typing import Any, Final, NamedTuple

import trio

from ottla.broker.apis import Apis, ErrorResponse, Handler, build_apis
from ottla.broker.clock import Clock, Offload, thread_offload
from ottla.broker.config import BrokerConfig
from ottla.broker.controller.config_admin import ConfigAdmin
from ottla.broker.controller.config_changes import ConfigChanges
from ottla.broker.controller.event_loop import Controller
from ottla.broker.controller.peers import LocalPeer, Peer
from ottla.broker.controller.producer_ids import ProducerIds
from ottla.broker.controller.request_batch import ControlRequest
from ottla.broker.controller.topic_configs import TopicConfigs
from ottla.broker.fetch_session import FetchSessionCache
from ottla.broker.handlers import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    leader_and_isr,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_for_leader_epoch,
    produce,
    stop_replica,
    update_metadata,
)
from ottla.broker.housekeeping import Housekeeping
from ottla.broker.large_requests import LargeRequests
from ottla.broker.listeners import Listener
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.replica_manager import ReplicaManager
from ottla.broker.request_context import RequestContext
from ottla.broker.server import AddressInUse, Server, listen
from ottla.log.config import LogConfig
from ottla.log.manager import LogManager
from ottla.log.meta_properties import DirectoryLocks, read_meta_properties
from ottla.wire.api_keys import ApiKey
from ottla.wire.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.messages.stop_replica import StopReplicaRequest
from ottla.wire.messages.update_metadata import UpdateMetadataRequest
from ottla.wire.types import TopicPartition
from ottla.zk.bootstrap import generate_broker_id, prepare_tree, register_broker
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.store import WatchEvent
from ottla.zk.znodes import BrokerInfo, Endpoint, encode_uuid

__all__ = ["AddressInUse", "Node", "serve"]

logger = logging.getLogger(__name__)

STORE_FILE: Final = "ottla-metadata.db"
MAX_THREADS: Final = 8
# What replies that are owed may take to leave when the broker stops.
GRACE_SECONDS: Final = 2.0
# Room for open log files and connections; more may still be opened.
DESCRIPTORS: Final = 16_384
# A thread that computes gives the loop its turn after so long; Python's own 5 ms would be felt.
SWITCH_INTERVAL: Final = 0.0005


Sockets = Mapping[str, socket.socket]


class Identity(NamedTuple):
    """Which broker of which cluster this is."""

    broker_id: int
    cluster_id: str


class Node:
    """A broker, from `run` until `stop`."""

    def __init__(self, config: BrokerConfig, clock: Clock | None = None, offload: Offload | None = None) -> None:
        self._config = config
        self._clock = clock or Clock()
        self._offload = offload or thread_offload(MAX_THREADS)
        self._stopping = trio.Event()

    def stop(self) -> None:
        """Have `run` end, cleanly."""
        self._stopping.set()

    async def run(self, ready: Callable[[str], None]) -> None:
        """Serve; `ready` is told where clients find the broker."""
        config = self._config
        async with AsyncExitStack() as stack:
            sockets = _listen(config, stack)
            locks = DirectoryLocks(config.log_dirs)
            stack.callback(locks.release)
            store = EmbeddedStore(config.log_dirs[0] / STORE_FILE, self._offload, now_ms=self._clock.now_ms)
            await store.open()
            stack.push_async_callback(store.close)
            identity = await self._identify(store)
            logs = await self._load_logs(identity, locks)
            try:
                await self._run_broker(identity, store, logs, sockets, ready)
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
        logger.info("broker %s of cluster %s", broker_id, cluster_id)
        return Identity(broker_id, cluster_id)

    async def _load_logs(self, identity: Identity, locks: DirectoryLocks) -> LogManager:
        config = self._config
        logs = LogManager(
            config.log_dirs,
            broker_id=identity.broker_id,
            cluster_id=identity.cluster_id,
            default_config=LogConfig.from_broker(config.values),
            producer_id_expiration_ms=config.values["producer.id.expiration.ms"],
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
        sockets: Sockets,
        ready: Callable[[str], None],
    ) -> None:
        async with trio.open_nursery() as nursery:
            broker = _Broker(self._config, self._clock, self._offload, identity, store, logs, nursery)
            nursery.start_soon(self._clock.run)
            await broker.start(_endpoints(self._config, sockets))
            nursery.start_soon(broker.server.run, [(name, sock) for name, sock in sockets.items()])
            gc.collect()
            gc.freeze()
            ready(_bootstrap(self._config, sockets))
            await self._stopping.wait()
            logger.info("stopping")
            await broker.server.stop(GRACE_SECONDS)
            nursery.cancel_scope.cancel()
        await self._offload(_close, logs, broker.replicas.high_watermarks())
        await broker.session.close()
        logger.info("stopped")


class _Broker:
    """The parts of a broker with a loaded log, wired to each other."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        offload: Offload,
        identity: Identity,
        store: EmbeddedStore,
        logs: LogManager,
        nursery: trio.Nursery,
    ) -> None:
        self._config = config
        self._clock = clock
        self._identity = identity
        self._nursery = nursery
        self._epoch = -1
        self._log_defaults = LogConfig.from_broker(config.values)
        self._metadata = MetadataCache()
        self._controller = Controller(
            config, clock, self._metadata, broker_id=identity.broker_id, peers=lambda broker_id: self._peer
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
            log_defaults=self._log_defaults,
            replica_lag_time_max_ms=config.replica_lag_time_max_ms,
        )
        self._config_changes = ConfigChanges(self.session, clock, self._topic_configs, self.replicas.reconfigure)
        self._peer: Peer = LocalPeer(self._control_handlers())
        self._housekeeping = Housekeeping(
            logs,
            clock,
            offload,
            flush=self.replicas.flush,
            high_watermarks=self.replicas.high_watermarks,
            config=config.values,
        )
        self.server = Server(
            self._apis(),
            clock,
            offload,
            max_frame=config.socket_request_max_bytes,
            idle_seconds=_seconds(config.connections_max_idle_ms),
            send_buffer=config.socket_send_buffer_bytes,
        )

    async def start(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Register, and return when the controller has told this broker its partitions."""
        info = BrokerInfo(self._identity.broker_id, endpoints, self._config.broker_rack)
        self._epoch = await register_broker(self.session, info, self._clock.now_ms())
        await self._nursery.start(self._config_changes.run)
        await self._nursery.start(self._controller.run, self.session)
        self._nursery.start_soon(self._housekeeping.run)

    def _on_store_event(self, event: WatchEvent) -> None:
        self._config_changes.on_store_event(event)
        self._controller.on_store_event(event)

    def _start_soon(self, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        self._nursery.start_soon(function, *args)

    def _apis(self) -> Apis:
        """The handlers that clients reach, with what each works on."""
        config, metadata_cache, controller = self._config, self._metadata, self._controller
        sessions = FetchSessionCache(
            config.max_incremental_fetch_session_cache_slots, self.replicas.signal, lambda: random.randrange(1, 1 << 31)
        )
        producer_ids = ProducerIds(self.session, self._identity.broker_id, self._start_soon)
        config_admin = ConfigAdmin(
            self.session,
            self._start_soon,
            self._config_changes,
            metadata=metadata_cache,
            log_defaults=self._log_defaults,
            broker_id=self._identity.broker_id,
        )
        return build_apis(
            self._describing()
            | {
                ApiKey.ALTER_CONFIGS: _bind(alter_configs, config_admin=config_admin),
                ApiKey.INCREMENTAL_ALTER_CONFIGS: _bind(incremental_alter_configs, config_admin=config_admin),
                ApiKey.PRODUCE: _bind(produce, replicas=self.replicas, metadata=metadata_cache),
                ApiKey.FETCH: _bind(
                    fetch,
                    replicas=self.replicas,
                    sessions=sessions,
                    metadata=metadata_cache,
                    fetch_max_bytes=config.fetch_max_bytes,
                ),
                ApiKey.LIST_OFFSETS: _bind(list_offsets, replicas=self.replicas),
                ApiKey.METADATA: _bind(
                    metadata,
                    metadata=metadata_cache,
                    cluster_id=self._identity.cluster_id,
                    auto_create=controller.auto_create if config.auto_create_topics_enable else None,
                ),
                ApiKey.CREATE_PARTITIONS: _bind(create_partitions, controller=controller),
                ApiKey.CREATE_TOPICS: _bind(create_topics, controller=controller, log_defaults=self._log_defaults),
                ApiKey.DELETE_RECORDS: _bind(delete_records, replicas=self.replicas, metadata=metadata_cache),
                ApiKey.DELETE_TOPICS: _bind(
                    delete_topics,
                    controller=controller,
                    metadata=metadata_cache,
                    delete_topic_enable=config.delete_topic_enable,
                ),
                ApiKey.DESCRIBE_CONFIGS: _bind(
                    describe_configs,
                    metadata=metadata_cache,
                    topic_configs=self._topic_configs,
                    config=config,
                    log_defaults=self._log_defaults,
                    broker_id=self._identity.broker_id,
                ),
                ApiKey.INIT_PRODUCER_ID: _bind(
                    init_producer_id,
                    producer_ids=producer_ids,
                    transaction_max_timeout_ms=config.transaction_max_timeout_ms,
                ),
            },
            LargeRequests(self.replicas.offload, self._start_soon),
        )

    def _describing(self) -> dict[ApiKey, tuple[Handler, ErrorResponse | None]]:
        """The handlers that only tell what there is."""
        return {
            ApiKey.FIND_COORDINATOR: _bind(find_coordinator),
            ApiKey.OFFSET_FOR_LEADER_EPOCH: _bind(offset_for_leader_epoch, replicas=self.replicas),
            ApiKey.DESCRIBE_LOG_DIRS: _bind(describe_log_dirs, replicas=self.replicas),
            ApiKey.LIST_PARTITION_REASSIGNMENTS: _bind(list_partition_reassignments, controller=self._controller),
            ApiKey.DESCRIBE_CLUSTER: _bind(
                describe_cluster, metadata=self._metadata, cluster_id=self._identity.cluster_id
            ),
            ApiKey.DESCRIBE_PRODUCERS: _bind(describe_producers, replicas=self.replicas, metadata=self._metadata),
            ApiKey.DESCRIBE_TOPIC_PARTITIONS: _bind(
                describe_topic_partitions,
                metadata=self._metadata,
                max_partitions=self._config.max_request_partition_size_limit,
            ),
        }

    def _control_handlers(self) -> dict[type[ControlRequest], Callable[[Any], Any]]:
        """The handlers that only the controller reaches."""
        own = {"replicas": self.replicas, "broker_epoch": lambda: self._epoch}
        bound: dict[type[ControlRequest], tuple[Handler, ErrorResponse]] = {
            LeaderAndIsrRequest: _bind(leader_and_isr, **own, topic_configs=self._topic_configs),
            UpdateMetadataRequest: _bind(
                update_metadata,
                **own,
                topic_configs=self._topic_configs,
                metadata=self._metadata,
                changed=self._controller.metadata_changed,
            ),
            StopReplicaRequest: _bind(stop_replica, **own),
        }
        return {kind: partial(_call_locally, handler) for kind, (handler, _) in bound.items()}


def _bind(module: ModuleType, **collaborators: object) -> tuple[Handler, ErrorResponse]:
    """A handler with what it works on. Checked where it is first called: by its own tests, and by the node's."""
    handler: Handler = partial(module.handle, **collaborators) if collaborators else module.handle
    return handler, module.error_response


def _call_locally(handler: Handler, request: ControlRequest) -> Any:
    return handler(request, RequestContext(request.api_key, request.versions.highest, "controller"))


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


def serve(config: BrokerConfig, *, ready: Callable[[str], None]) -> None:
    """Run a broker in this process until SIGTERM or SIGINT; a second signal ends the process at once."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    _grow_descriptor_table()
    try:
        trio.run(_serve_until_signal, config, ready)
    except BaseExceptionGroup as group:
        raise _only_error(group) from None


def _grow_descriptor_table() -> None:
    """Have room for all descriptors from the start.

    The kernel doubles the table when it is full, and a process that has threads stands still for 10 ms each time.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        limit = DESCRIPTORS
    fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    highest = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, min(limit, DESCRIPTORS) - 1)
    os.close(fd)
    os.close(highest)


async def _serve_until_signal(config: BrokerConfig, ready: Callable[[str], None]) -> None:
    node = Node(config)
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_stop_at_signal, node, signals)
            await node.run(ready)
            nursery.cancel_scope.cancel()


async def _stop_at_signal(node: Node, signals: AsyncIterator[int]) -> None:
    async for number in signals:
        logger.info("%s: stopping", signal.Signals(number).name)
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_DFL)
        node.stop()


def _only_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What a nursery raised, if it was one thing."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
