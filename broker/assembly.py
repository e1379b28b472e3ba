"""The parts of a broker with loaded logs, wired to each other.

Owns which object gets which others, all subscriptions, the registration, and the connections to other brokers. Must not
know how a broker starts and stops as a whole. Counterpart in Kafka: the members of KafkaServer.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, NamedTuple

import trio

from ottla.broker.bindings import Parts, client_handlers, control_handlers, controller_handlers, transaction_handlers
from ottla.broker.cluster.broker_configs import BrokerConfigs
from ottla.broker.cluster.config_notifications import ConfigChanges
from ottla.broker.cluster.controlled_shutdown import hand_over
from ottla.broker.cluster.controller_channel import ControllerChannel
from ottla.broker.cluster.log_dir_notice import OfflineNotice
from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.cluster.producer_ids import ProducerIds
from ottla.broker.cluster.topic_configs import TopicConfigs
from ottla.broker.config.broker_config import BrokerConfig
from ottla.broker.config.connection_limits import CONNECTION_CONFIG, ConnectionLimits
from ottla.broker.config.dynamic import DynamicConfig
from ottla.broker.config.protocol_versions import protocol_versions
from ottla.broker.config.throttle import FOLLOWER_RATE, LEADER_RATE, MOVE_RATE, THROTTLE_CONFIG, ReplicationQuota
from ottla.broker.controller.actions import UNCLEAN_KEY
from ottla.broker.controller.broker_queues import LocalPeer, RemotePeer
from ottla.broker.controller.broker_queues import Peer as ControlPeer
from ottla.broker.controller.controller import Controller
from ottla.broker.groups.coordinator import group_coordinator, group_loader
from ottla.broker.loop.clock import Clock, Offload
from ottla.broker.net.broker_client import Connect, Peer
from ottla.broker.net.server import Server, resolve_overrides
from ottla.broker.replicas.log_dir_failures import LogDirFailures
from ottla.broker.replicas.manager import ReplicaManager
from ottla.broker.replicas.parts import ReplicaParts
from ottla.broker.replication.fetchers import ReplicaFetchers
from ottla.broker.replication.isr_proposals import IsrChanges
from ottla.broker.replication.log_dir_moves import LogDirMoves
from ottla.broker.requests.authorizer import Access
from ottla.broker.requests.dispatch import build_apis
from ottla.broker.requests.large_requests import LargeRequests
from ottla.broker.transactions.brokers import Brokers
from ottla.broker.transactions.parts import Transactions
from ottla.broker.upkeep.compaction import CLEANER_KEYS, Cleaning
from ottla.broker.upkeep.schedule import Housekeeping
from ottla.log.config import BROKER_LOG_CONFIG
from ottla.log.manager import LogManager
from ottla.wire.api_keys import ApiKey
from ottla.zk.bootstrap import register_broker, update_registration
from ottla.zk.lasting import LastingSession
from ottla.zk.store import EventType, OnEvent, Session, SessionExpiredError, WatchEvent
from ottla.zk.znodes import BrokerInfo, Endpoint

logger = logging.getLogger("kafka.server.KafkaServer")

# Added to the session timeout, because a server may end the session of an earlier life of this broker late.
_SPARE_PATIENCE_SECONDS: Final = 5.0
# The largest response to a fetch of a follower.
MAX_REPLY: Final = 0x7FFFFFFF

BeginSession = Callable[[OnEvent], Awaitable[Session]]


class Identity(NamedTuple):
    """The ids of the broker and of its cluster."""

    broker_id: int
    cluster_id: str


class Assembly:
    """The parts of one broker."""

    def __init__(
        self,
        dynamic: DynamicConfig,
        clock: Clock,
        offload: Offload,
        validate: Offload,
        append_offload: Offload,
        access: Access,
        identity: Identity,
        begin: BeginSession,
        logs: LogManager,
        limits: ConnectionLimits,
        nursery: trio.Nursery,
        connect: Connect,
    ) -> None:
        # For keys that do not change while the broker runs.
        self._config = config = dynamic.static
        self._dynamic = dynamic
        self._clock = clock
        self._offload = offload
        self._identity = identity
        self._nursery = nursery
        self._connect = connect
        self._epoch = -1
        self._endpoints: tuple[Endpoint, ...] = ()
        self._metadata = MetadataCache()
        broker_id, peers = identity.broker_id, self._peer_for_controller
        self._controller = Controller(dynamic, clock, self._metadata, broker_id=broker_id, peers=peers)
        self._leader_quota, self._follower_quota = _quota(config), _quota(config)
        self._move_quota = _quota(config, "alter.log.dirs.")
        self.session = LastingSession(begin, self._on_store_event)
        self._topic_configs = TopicConfigs(self.session, self._start_soon)
        self._parts = ReplicaParts(
            logs, clock, offload, append_offload, self._start_soon, identity.broker_id, lambda: self._epoch
        )
        self.replicas = self._replica_manager()
        self.groups = group_coordinator(config.values, self.replicas, self._parts, self._metadata)
        self.transactions = self._transactions()
        broker_configs = BrokerConfigs(self.session, identity.broker_id, dynamic)
        self._config_changes = ConfigChanges(
            self.session, clock, self._topic_configs, broker_configs, self.replicas.reconfigure
        )
        self._housekeeping = Housekeeping(
            self._parts,
            high_watermarks=self.replicas.high_watermarks,
            config=lambda: dynamic.current.values,
        )
        self._moves = LogDirMoves(self.replicas, self._parts, self._move_quota, self._housekeeping.checkpoint)
        parts = self._handler_parts(access, validate)
        self._own_peer = LocalPeer(control_handlers(parts))
        self._own_transactions = LocalPeer(transaction_handlers(parts))
        self._followers = self._replica_fetchers()
        self._to_controller = ControllerChannel(
            identity.broker_id, self._metadata, LocalPeer(controller_handlers(parts)), self._peer_to_controller
        )
        self._isr_changes = IsrChanges(self._parts, self._to_controller.ask, max_lag_ms=config.replica_lag_time_max_ms)
        self._offline_notice = OfflineNotice(self.session, identity.broker_id)
        self._cleaning = Cleaning(self._parts, lambda: dynamic.current.values)
        self.server = self._server(parts, limits)
        self._subscribe()

    def _subscribe(self) -> None:
        """Make all subscriptions to changes, in the order in which the listeners are called."""
        self._parts.logs.failures.listener = LogDirFailures(self._parts).failed
        group_partitions = group_loader(self._config.values, self._parts, self.groups)
        events = self._parts.events
        for event in (events.leading, events.following):
            event.subscribe(self._moves.go_on)
            event.subscribe(self._followers.follow)
        events.leading.subscribe(group_partitions.load)
        events.following.subscribe(group_partitions.unload)
        events.leading.subscribe(self.transactions.loader.load)
        for event in (events.following, events.stopped):
            event.subscribe(self.transactions.markers.unload)
            event.subscribe(self.transactions.loader.unload)
        events.stopped.subscribe(self._followers.unfollow)
        events.stopped.subscribe(group_partitions.unload)
        events.log_replaced.subscribe(self._followers.follow)
        events.isr_proposed.subscribe(self._isr_changes.propose)
        events.offline.subscribe(self._offline_notice.replica_failed)
        self._dynamic.subscribe(CONNECTION_CONFIG, self._limit_connections)
        self._dynamic.subscribe(BROKER_LOG_CONFIG, self.replicas.broker_reconfigured)
        self._dynamic.subscribe([UNCLEAN_KEY], self._controller.unclean_election_changed)
        self._dynamic.subscribe(["num.replica.fetchers"], self._followers.reconfigured)
        self._dynamic.subscribe(THROTTLE_CONFIG, self._throttle)
        self._dynamic.subscribe(CLEANER_KEYS, self._cleaning.reconfigured)

    async def start(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Register, and return when the controller has sent this broker its partitions."""
        await self._throttle(self._dynamic.current)
        self._endpoints = endpoints
        await self._nursery.start(self.session.run)
        await self._register()
        await self._nursery.start(self._config_changes.run)
        self._nursery.start_soon(self.groups.run)
        self._nursery.start_soon(self.transactions.run)
        self._nursery.start_soon(self._offline_notice.run)
        await self._nursery.start(self._controller.run, self.session)
        self._nursery.start_soon(self._isr_changes.run)
        self._nursery.start_soon(self._housekeeping.run)
        self._nursery.start_soon(self._cleaning.run)

    async def leave(self) -> None:
        """Move leadership to other brokers, if there are any, and resign from the rest."""
        if len(self._metadata.brokers) > 1:
            await hand_over(self._to_controller.ask, self._identity.broker_id, self._epoch, self._config.values)
        self.replicas.step_down()
        self.groups.runtime.shut_down()
        self.transactions.coordinator.runtime.shut_down()

    async def advertise(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Register other endpoints; the controller sends them to all brokers."""
        self._endpoints = endpoints
        await update_registration(self.session, self._info(), self._clock.now_ms())

    async def _register(self) -> None:
        patience_s = 2 * self._config.values["zookeeper.session.timeout.ms"] / 1000 + _SPARE_PATIENCE_SECONDS
        self._epoch = await register_broker(self.session, self._info(), self._clock.now_ms(), patience_s)

    def _transactions(self) -> Transactions:
        producer_ids = ProducerIds(self.session, self._identity.broker_id, self._start_soon)
        return Transactions(self._dynamic, self.replicas, self._parts, self._metadata, producer_ids, self._brokers)

    def _replica_manager(self) -> ReplicaManager:
        return ReplicaManager(
            self._parts,
            metadata=self._metadata,
            topic_config=self._topic_configs.get,
            log_defaults=self._dynamic.log_defaults,
            replica_lag_time_max_ms=self._config.replica_lag_time_max_ms,
            leader_quota=self._leader_quota,
        )

    # Other brokers

    def _peer_for_controller(self, broker_id: int) -> ControlPeer:
        if broker_id == self._identity.broker_id:
            return self._own_peer
        where = partial(self._controller.address, broker_id)
        return RemotePeer(where, self._offload, self._config, self._identity.broker_id, self._connect)

    def _replica_fetchers(self) -> ReplicaFetchers:
        versions = protocol_versions(self._config.inter_broker_protocol_version)
        return ReplicaFetchers(
            self._parts,
            self._peer_for_fetching,
            self._config,
            quota=self._follower_quota,
            fetch_version=versions[ApiKey.FETCH],
            list_offsets_version=versions[ApiKey.LIST_OFFSETS],
        )

    def _peer_for_fetching(self, broker_id: int) -> Peer:
        client_id = f"broker-{self._identity.broker_id}-fetcher"
        return self._peer(broker_id, client_id, self._config.replica_socket_timeout_ms, MAX_REPLY)

    def _brokers(self, purpose: str, lowest: int, highest: int) -> Brokers:
        config = self._config
        client_id = f"broker-{self._identity.broker_id}-{purpose}"
        timeout_ms, max_frame = config.controller_socket_timeout_ms, config.socket_request_max_bytes
        return Brokers(
            self._identity.broker_id,
            lambda request: self._own_transactions.send(request),
            lambda broker_id: self._peer(broker_id, client_id, timeout_ms, max_frame),
            lowest=lowest,
            highest=highest,
        )

    def _peer_to_controller(self, broker_id: int) -> Peer:
        config = self._config
        client_id = str(self._identity.broker_id)
        return self._peer(broker_id, client_id, config.controller_socket_timeout_ms, config.socket_request_max_bytes)

    def _peer(self, broker_id: int, client_id: str, timeout_ms: int, max_frame: int) -> Peer:
        where = partial(self._address, broker_id)
        return Peer(
            where,
            self._offload,
            client_id=client_id,
            request_timeout_ms=timeout_ms,
            max_frame=max_frame,
            connect=self._connect,
        )

    def _address(self, broker_id: int) -> tuple[str, int] | None:
        """Return the address of a broker for other brokers, from the metadata."""
        node = self._metadata.node(broker_id, self._config.inter_broker_listener_name)
        return None if node is None else (node.host, node.port)

    def _handler_parts(self, access: Access, validate: Offload) -> Parts:
        return Parts(
            cluster_id=self._identity.cluster_id,
            dynamic=self._dynamic,
            access=access,
            session=self.session,
            metadata=self._metadata,
            controller=self._controller,
            topic_configs=self._topic_configs,
            config_changes=self._config_changes,
            replicas=self.replicas,
            replica_parts=self._parts,
            groups=self.groups,
            transactions=self.transactions,
            moves=self._moves,
            validate=validate,
        )

    def _server(self, parts: Parts, limits: ConnectionLimits) -> Server:
        config = self._config
        large_requests = LargeRequests(self._offload, self._start_soon)
        apis = build_apis(client_handlers(parts), parts.access, large_requests)
        return Server(
            apis.dispatch,
            self._clock,
            self._offload,
            self._parts.turn,
            max_frame=config.socket_request_max_bytes,
            idle_seconds=_seconds(config.connections_max_idle_ms),
            send_buffer=config.socket_send_buffer_bytes,
            queued_bytes=config.values["queued.max.request.bytes"],
            limits=limits,
            give_up_files=self._parts.logs.files.give_up,
        )

    async def _limit_connections(self, config: BrokerConfig) -> None:
        self.server.use_limits(await self._offload(resolve_overrides, config.connection_limits))

    async def _throttle(self, config: BrokerConfig) -> None:
        self._leader_quota.bytes_per_second = self._dynamic.never_static(LEADER_RATE)
        self._follower_quota.bytes_per_second = self._dynamic.never_static(FOLLOWER_RATE)
        self._move_quota.bytes_per_second = self._dynamic.never_static(MOVE_RATE)

    def _info(self) -> BrokerInfo:
        return BrokerInfo(self._identity.broker_id, self._endpoints, self._config.broker_rack)

    def _on_store_event(self, event: WatchEvent) -> None:
        if event.type is EventType.BEGUN:
            self._start_soon(self._return, event)
        else:
            self._pass_on(event)

    def _pass_on(self, event: WatchEvent) -> None:
        self._config_changes.on_store_event(event)
        self._controller.on_store_event(event)

    async def _return(self, event: WatchEvent) -> None:
        """Register again in a new session, before anything else is done in it."""
        try:
            await self._register()
        except SessionExpiredError as error:
            logger.warning(
                "[KafkaServer id=%d] not registered, the next session retries: %s", self._identity.broker_id, error
            )
        else:
            self._pass_on(event)

    def _start_soon(self, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        self._nursery.start_soon(function, *args)


def _seconds(milliseconds: int) -> float:
    return milliseconds / 1000 if milliseconds >= 0 else float("inf")


def _quota(config: BrokerConfig, whose: str = "") -> ReplicationQuota:
    window_s = config.values[f"{whose}replication.quota.window.size.seconds"]
    return ReplicationQuota(config.values[f"{whose}replication.quota.window.num"], 1000 * window_s)
