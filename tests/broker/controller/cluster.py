"""Brokers without their network, on one loop and one store, for tests."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio
import trio.testing

from ottla.broker.cluster.broker_configs import BrokerConfigs
from ottla.broker.cluster.config_alteration import ConfigAdmin
from ottla.broker.cluster.config_notifications import ConfigChanges
from ottla.broker.cluster.log_dir_notice import OfflineNotice
from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.cluster.topic_configs import TopicConfigs
from ottla.broker.config.broker_config import BrokerConfig
from ottla.broker.config.dynamic import DynamicConfig
from ottla.broker.controller.actions import UNCLEAN_KEY
from ottla.broker.controller.broker_queues import LocalPeer, Peer
from ottla.broker.controller.controller import Controller
from ottla.broker.controller.request_batch import ControlRequest
from ottla.broker.handlers import leader_and_isr, stop_replica, update_metadata
from ottla.broker.loop.clock import Clock, Offload
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.broker.replicas.parts import ReplicaParts
from ottla.log.config import BROKER_LOG_CONFIG
from ottla.log.manager import LogManager
from ottla.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig
from ottla.wire.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.messages.stop_replica import StopReplicaRequest
from ottla.wire.messages.update_metadata import UpdateMetadataRequest
from ottla.wire.schema import Request
from ottla.zk.bootstrap import prepare_tree, register_broker
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.store import StoreError, WatchEvent
from ottla.zk.znodes import BrokerInfo, Endpoint
from tests.broker.support.hosted import replica_manager
from tests.zk.stores import inline

NOW_MS = 1_700_000_000_000
LONG_MS = 60_000


def topic(name: str, partitions: int = 1, replication_factor: int = 1, **configs: str | None) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=(),
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


def assigned_topic(name: str, *replicas: tuple[int, ...]) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=each) for index, each in enumerate(replicas)
        ],
        configs=(),
    )


async def wait_for(reply: "Deferred[Any] | Any") -> Any:
    """Return the response, once it is there."""
    if not isinstance(reply, Deferred):
        return reply
    if not reply.done:
        is_done = trio.Event()
        reply.then(lambda _: is_done.set())
        with trio.fail_after(120):
            await is_done.wait()
    return reply.response


async def settle() -> None:
    """Wait until all tasks are blocked."""
    await trio.testing.wait_all_tasks_blocked()


class Broker:
    """One broker; `told` are the requests that controllers sent it."""

    more: Sequence[str] = ()
    """The suffixes of its other log directories."""

    def __init__(self, cluster: "Cluster", broker_id: int, nursery: trio.Nursery) -> None:
        self.broker_id = broker_id
        self.cluster = cluster
        self.told: list[ControlRequest] = []
        self.epoch = -1
        self._nursery = nursery
        directory = cluster.directory / f"broker-{broker_id}"
        directory.mkdir(exist_ok=True)
        self.config = BrokerConfig(cluster.configs | {"broker.id": str(broker_id), "log.dirs": str(directory)})
        self.dynamic = DynamicConfig(self.config)
        self.metadata = MetadataCache()
        directories = [directory, *(directory.with_name(f"{directory.name}-{name}") for name in self.more)]
        defaults = self.dynamic.log_defaults
        self.logs = LogManager(directories, broker_id=broker_id, cluster_id="c", default_config=defaults)
        self.logs.load(NOW_MS)
        self.controller = Controller(
            self.dynamic,
            cluster.clock,
            self.metadata,
            broker_id=broker_id,
            peers=self.peer_of,
            random_below=lambda _: 0,
        )
        self.session = cluster.store.session(self._on_store_event)
        self.topic_configs = TopicConfigs(self.session, self._start_soon)
        self.parts = ReplicaParts(
            self.logs, cluster.clock, inline, inline, self._start_soon, broker_id, lambda: self.epoch
        )
        self.replicas = replica_manager(self.parts, self.metadata, self.topic_configs.get, defaults)
        self.offline_notice = OfflineNotice(self.session, broker_id)
        self.parts.events.offline.subscribe(self.offline_notice.replica_failed)
        self.config_changes = ConfigChanges(
            self.session,
            cluster.clock,
            self.topic_configs,
            BrokerConfigs(self.session, broker_id, self.dynamic),
            self.replicas.reconfigure,
        )
        self.dynamic.subscribe(BROKER_LOG_CONFIG, self.replicas.broker_reconfigured)
        self.dynamic.subscribe([UNCLEAN_KEY], self.controller.unclean_election_changed)
        self.config_admin = ConfigAdmin(
            self.session,
            self._start_soon,
            self.config_changes,
            metadata=self.metadata,
            dynamic=self.dynamic,
            broker_id=broker_id,
        )
        self.peer = LocalPeer(self._handlers())

    def peer_of(self, broker_id: int) -> Peer:
        """The connection of this broker's controller to a broker."""
        return self.cluster.brokers[broker_id].peer

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint("PLAINTEXT", f"host{self.broker_id}", 9092)

    def bound(self) -> dict[type[ControlRequest], Callable[..., Any]]:
        own: dict[str, Any] = {"replicas": self.replicas, "fence": self.parts.fence}
        update = partial(
            update_metadata.handle,
            metadata=self.metadata,
            topic_configs=self.topic_configs,
            changed=self.controller.metadata_changed,
            fence=self.parts.fence,
        )
        return {
            LeaderAndIsrRequest: partial(leader_and_isr.handle, topic_configs=self.topic_configs, **own),
            UpdateMetadataRequest: update,
            StopReplicaRequest: partial(stop_replica.handle, **own),
        }

    def _handlers(self) -> dict[type[Request], Callable[[Any], Any]]:
        return {kind: self._tell(handler, kind.versions.highest) for kind, handler in self.bound().items()}

    def _on_store_event(self, event: WatchEvent) -> None:
        self.config_changes.on_store_event(event)
        self.controller.on_store_event(event)

    def _start_soon(self, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        self._nursery.start_soon(function, *args)

    def _tell(self, handler: Callable[..., Any], version: int) -> Callable[[ControlRequest], Any]:
        def handle(request: ControlRequest) -> Any:
            self.told.append(request)
            # As on the wire, only encoded fields arrive.
            request = type(request).decode(request.encode(version), version)
            return handler(request, RequestContext(request.api_key, version))

        return handle

    def told_of_kind(self, kind: type[ControlRequest]) -> list[Any]:
        return [request for request in self.told if type(request) is kind]

    async def start(self) -> None:
        info = BrokerInfo(self.broker_id, (self.endpoint,))
        self.epoch = await register_broker(self.session, info, NOW_MS)
        await self._nursery.start(self.config_changes.run)
        await self._nursery.start(self.controller.run, self.session)
        self._nursery.start_soon(self.offline_notice.run)


class Cluster:
    """Brokers by id."""

    def __init__(self, directory: Path, configs: dict[str, str], kind: type[Broker], offload: Offload) -> None:
        self.directory = directory
        self.configs = configs
        self.kind = kind
        self.clock = Clock(lambda: NOW_MS / 1000)
        self.brokers: dict[int, Broker] = {}
        self.store = EmbeddedStore(directory / "store.db", offload, now_ms=lambda: NOW_MS)
        self._scopes: dict[int, trio.CancelScope] = {}
        self.nursery: trio.Nursery

    async def start_broker(self, broker_id: int) -> Broker:
        return await self.nursery.start(self._run_broker, broker_id)  # type: ignore[no-any-return]

    async def _run_broker(self, broker_id: int, task_status: trio.TaskStatus[Broker]) -> None:
        async with trio.open_nursery() as nursery:
            self._scopes[broker_id] = nursery.cancel_scope
            broker = self.brokers[broker_id] = self.kind(self, broker_id, nursery)
            await broker.start()
            task_status.started(broker)
            await trio.sleep_forever()

    async def kill_broker(self, broker_id: int) -> None:
        """Kill a broker; its session ends at once."""
        self._scopes[broker_id].cancel()
        await settle()
        broker = self.brokers.pop(broker_id)
        broker.logs.abandon()
        await broker.session.close()
        await settle()

    async def data(self, path: str) -> bytes | None:
        session = self.store.session(lambda event: None)
        try:
            return (await session.get(path))[0]
        except StoreError:
            return None
        finally:
            await session.close()


@asynccontextmanager
async def running(
    directory: Path, *broker_ids: int, kind: type[Broker] = Broker, offload: Offload = inline, **configs: str
) -> AsyncIterator[Cluster]:
    """Run a cluster until the test ends."""
    cluster = Cluster(directory, {key.replace("_", "."): value for key, value in configs.items()}, kind, offload)
    await cluster.store.open()
    session = cluster.store.session(lambda event: None)
    await prepare_tree(session, "cluster-id")
    await session.close()
    async with trio.open_nursery() as cluster.nursery:
        cluster.nursery.start_soon(cluster.clock.run)
        try:
            for broker_id in broker_ids:
                await cluster.start_broker(broker_id)
            yield cluster
        finally:
            cluster.nursery.cancel_scope.cancel()
            for broker in cluster.brokers.values():
                broker.logs.abandon()
    await cluster.store.close()
