"""A broker's storage and replicas without its network, for tests."""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import pytest

from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.config.throttle import ReplicationQuota
from ottla.broker.fetch.sessions import FetchSessionCache
from ottla.broker.handlers import list_offsets
from ottla.broker.loop.clock import Clock, Offload
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.broker.replicas.log_dir_failures import LogDirFailures
from ottla.broker.replicas.manager import ReplicaManager
from ottla.broker.replicas.parts import ReplicaParts
from ottla.log.config import LogConfig
from ottla.log.manager import LogManager
from ottla.wire.api_keys import ApiKey
from ottla.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from ottla.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from ottla.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from ottla.wire.records.batch import Compression, NewRecord, build_batch
from ottla.wire.types import ZERO_UUID

R = TypeVar("R")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

BROKER = 0
EPOCH = 7
TOPIC = "orders"
NOW_MS = 1_700_000_000_000


async def inline(function: Callable[[*Ts], T], *args: *Ts) -> T:
    return function(*args)


def topic_id(topic: str) -> bytes:
    return topic.encode().ljust(16, b"\1")[:16]


def batch(*values: bytes | None, timestamp: int = NOW_MS, **options: Any) -> memoryview:
    records = [NewRecord(timestamp=timestamp, key=b"k", value=value) for value in values]
    return memoryview(build_batch(records, **options))


def big_batch() -> memoryview:
    """Small as it is sent, much as it is looked at."""
    return batch(bytes(1 << 20), compression=Compression.GZIP)


def context(key: int, version: int, client_id: str | None = "test") -> RequestContext:
    return RequestContext(key, version, client_id)


def replica_manager(
    parts: ReplicaParts,
    metadata: MetadataCache,
    topic_config: Callable[[str], Mapping[str, str]],
    log_defaults: LogConfig,
    *,
    leader_quota: ReplicationQuota | None = None,
    slice_clock: Callable[[], float] = time.perf_counter,
) -> ReplicaManager:
    """A manager of these parts that acts on failures of their log directories."""
    parts.logs.failures.listener = LogDirFailures(parts).failed
    return ReplicaManager(
        parts,
        metadata=metadata,
        topic_config=topic_config,
        log_defaults=log_defaults,
        replica_lag_time_max_ms=30_000,
        leader_quota=leader_quota or ReplicationQuota(),
        slice_clock=slice_clock,
    )


class House:
    """Owns what a node would; `tasks` are started by the test, in a nursery or by `run_tasks`."""

    def __init__(
        self, path: Path, *, more: Sequence[Path] = (), broker_id: int = BROKER, min_isr: int = 1, **topic_config: str
    ) -> None:
        """Its logs are in `path`, and in `more` log directories."""
        self.path = path
        self.directories = [path, *more]
        self.broker_id = broker_id
        self.epoch = EPOCH
        self.now_ms = NOW_MS
        self.clock = Clock(lambda: self.now_ms / 1000)
        self.metadata = MetadataCache()
        self.tasks: list[tuple[Callable[..., Awaitable[Any]], tuple[Any, ...]]] = []
        self.starts: Callable[..., None] = self.keep
        self.offloaded: list[Callable[..., Any]] = []
        self.worker: Offload = inline
        self.writer: Offload = self.offload
        self.configs: dict[str, Mapping[str, str]] = {}
        self.defaults = LogConfig.from_topic(
            {name.replace("_", "."): text for name, text in topic_config.items()}
            | {"min.insync.replicas": str(min_isr)}
        )
        self.leader_quota = ReplicationQuota()
        self.racks: dict[int, str] = {}
        self.open()

    def open(self) -> None:
        """As a start of the broker."""
        self.logs = LogManager(self.directories, broker_id=self.broker_id, cluster_id="c", default_config=self.defaults)
        self.logs.load(NOW_MS)
        self.parts = ReplicaParts(
            self.logs, self.clock, self.offload, self.write, self.start_soon, self.broker_id, lambda: self.epoch
        )
        self.replicas = replica_manager(
            self.parts,
            self.metadata,
            lambda topic: self.configs.get(topic, {}),
            self.defaults,
            leader_quota=self.leader_quota,
            slice_clock=lambda: 0.0,
        )
        ids = iter(range(1000, 9999))
        self.sessions = FetchSessionCache(3, self.parts.signal, lambda: next(ids))

    def start_soon(self, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        self.starts(function, *args)

    def keep(self, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        self.tasks.append((function, args))

    async def offload(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        self.offloaded.append(function)
        return await self.worker(function, *args)

    async def write(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        """As `offload`, for the writes of slow directories."""
        return await self.writer(function, *args)

    def list_offsets(
        self, request: ListOffsetsRequest, version: int
    ) -> ListOffsetsResponse | Deferred[ListOffsetsResponse]:
        return list_offsets.handle(
            request,
            context(ApiKey.LIST_OFFSETS, version),
            replicas=self.replicas,
            segment_checks=self.parts.segment_checks,
            start_soon=self.start_soon,
        )

    def now(self, reply: Deferred[R]) -> R:
        """What comes of a change of roles: here, where nothing else runs, its task has nothing to wait for."""
        function, args = self.tasks.pop()
        offloaded = len(self.offloaded)
        with pytest.raises(StopIteration):
            function(*args).__await__().__next__()
        del self.offloaded[offloaded:]
        return reply.response

    async def run_tasks(self) -> None:
        while self.tasks:
            function, args = self.tasks.pop(0)
            await function(*args)

    def close(self) -> None:
        self.logs.shutdown()

    def lead(self, topic: str = TOPIC, partitions: Iterable[int] = (0,), **given: Any) -> LeaderAndIsrResponse:
        """As the controller says it: first to the metadata cache, then to the replicas."""
        return self.now(self.replicas.become_leader_or_follower(self.request(topic, partitions, **given)))

    def request(
        self,
        topic: str = TOPIC,
        partitions: Iterable[int] = (0,),
        *,
        epoch: int = 0,
        isr: Sequence[int] = (BROKER,),
        replicas: Sequence[int] = (BROKER,),
        leader: int = BROKER,
        controller_epoch: int = 1,
        topic_id: bytes | None = None,
        is_new: bool = False,
    ) -> LeaderAndIsrRequest:
        """What the controller says, of which the metadata cache is told here."""
        given = globals()["topic_id"](topic) if topic_id is None else topic_id
        partitions = tuple(partitions)
        self.tell(topic, partitions, leader=leader, epoch=epoch, topic_id=given)
        states = [
            LeaderAndIsrPartitionState(
                partition_index=index,
                controller_epoch=controller_epoch,
                leader=leader,
                leader_epoch=epoch,
                isr=isr,
                partition_epoch=epoch,
                replicas=replicas,
                is_new=is_new,
            )
            for index in partitions
        ]
        return LeaderAndIsrRequest(
            controller_id=0,
            controller_epoch=controller_epoch,
            topic_states=[LeaderAndIsrTopicState(topic_name=topic, topic_id=given, partition_states=states)],
            live_leaders=(),
        )

    def tell(
        self,
        topic: str,
        partitions: Iterable[int],
        *,
        leader: int = BROKER,
        epoch: int = 0,
        topic_id: bytes = ZERO_UUID,
    ) -> None:
        """What all brokers know."""
        self.metadata.update(
            UpdateMetadataRequest(
                controller_id=0,
                controller_epoch=1,
                topic_states=[
                    UpdateMetadataTopicState(
                        topic_name=topic,
                        topic_id=topic_id,
                        partition_states=[
                            UpdateMetadataPartitionState(
                                partition_index=index,
                                controller_epoch=1,
                                leader=leader,
                                leader_epoch=epoch,
                                isr=[leader],
                                zk_version=epoch,
                                replicas=[leader],
                                offline_replicas=(),
                            )
                            for index in partitions
                        ],
                    )
                ],
                live_brokers=[
                    UpdateMetadataBroker(
                        id=broker,
                        rack=self.racks.get(broker, ""),
                        endpoints=[
                            UpdateMetadataEndpoint(
                                port=9000 + broker, host="h", listener="PLAINTEXT", security_protocol=0
                            )
                        ],
                    )
                    for broker in sorted({0, 1, *self.racks})
                ],
            )
        )
