"""Three brokers on one ZooKeeper: replication, a dead leader, a dead controller, and many partitions.

Owns clusters of Apache Kafka 3.9.2, the last release with ZooKeeper, and of Ottla, with equal settings.
"""

import contextlib
import os
import random
import re
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeVar, cast

from benchmarks.measuring import WARM_UP_SECONDS, unique
from compat_tests.support.brokers import Broker, Kafka39, Ottla, measured_tool
from compat_tests.support.clients import create_topic
from compat_tests.support.zookeeper import running as running_zookeeper
from ottla.wire.codec import decode_response, encode_request
from ottla.wire.errors import DecodeError
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.records.batch import NewRecord, build_batch
from ottla.wire.schema import Request

SYSTEMS: Final = (Kafka39, Ottla)
MB = 1e6
REPLICAS: Final = 3
METADATA_VERSION: Final = 9
PRODUCE_VERSION: Final = 9
PATIENCE_S: Final = 120.0
SESSION_TIMEOUT_MS: Final = 3000
# ZooKeeper rounds session timeouts up to a multiple of its tick, which is two seconds by default.
TICK_MS: Final = 200
FAILOVERS: Final = 5
POLL_S: Final = 0.005
MANY: Final = 1000
TOPICS_OF_MANY: Final = 3
SETTINGS: Final = (
    f"zookeeper.session.timeout.ms={SESSION_TIMEOUT_MS}",
    "offsets.topic.replication.factor=3",
    "min.insync.replicas=2",
    "auto.leader.rebalance.enable=false",
)
Response = TypeVar("Response", MetadataResponse, ProduceResponse)


class Row(NamedTuple):
    """A row of the table."""

    name: str
    unit: str
    bar: float
    higher_is_better: bool = False


PERFORMANCE = Row("ProducerPerformance, acks=all, 300,000 x 1 KB", "records/s", 1.0, higher_is_better=True)
MEMORY = Row("resident memory of the three brokers after it", "MB", 0.3)
FAILOVER = Row("kill -9 of a leader to the next acknowledged write", "s", 1.0)
CREATION = Row("creating 1,000 partitions", "s", 1.0)
CONTROLLER = Row("kill -9 of the controller to leaders of all of 3,000 partitions", "s", 1.0)
ROWS = (PERFORMANCE, MEMORY, FAILOVER, CREATION, CONTROLLER)


class Cluster:
    """Three brokers, each a process of its own."""

    def __init__(self, system: type[Broker], folder: Path, connect: str) -> None:
        self.brokers: dict[int, Broker] = {}
        for broker_id in range(1, REPLICAS + 1):
            data = folder / str(broker_id)
            data.mkdir()
            settings = [f"broker.id={broker_id}", f"zookeeper.connect={connect}", *SETTINGS]
            self.brokers[broker_id] = system(data, settings)
            self.brokers[broker_id].start()
        self.wait_for(lambda: len(self.metadata([]).brokers) == REPLICAS)

    @property
    def bootstrap(self) -> str:
        """Return the addresses for clients."""
        return ",".join(each.bootstrap for each in self.brokers.values())

    def stop(self) -> None:
        """End all brokers."""
        for each in self.brokers.values():
            each.stop()

    def metadata(self, topics: list[str], without: int | None = None) -> MetadataResponse:
        """Return the metadata of one of the brokers."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic) for topic in topics])
        return self._ask(min(self.brokers.keys() - {without}), request, METADATA_VERSION, MetadataResponse)

    def produce(self, broker_id: int, topic: str, batch: bytes) -> bool:
        """Write to partition 0 with acks=all; return whether the write was acknowledged."""
        data = PartitionProduceData(index=0, records=batch)
        sent = ProduceRequest(
            acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
        )
        response = self._ask(broker_id, sent, PRODUCE_VERSION, ProduceResponse)
        return response.responses[0].partition_responses[0].error_code == 0

    def _ask(self, broker_id: int, request: Request, version: int, kind: type[Response]) -> Response:
        frame = encode_request(version, 7, "bench", request)
        with socket.create_connection(("127.0.0.1", self.brokers[broker_id].port), PATIENCE_S) as client:
            client.sendall(frame)
            stream = client.makefile("rb")
            reply = stream.read(int.from_bytes(stream.read(4), "big"))
        return cast(Response, decode_response(memoryview(reply), type(request), version)[1])

    def wait_for(self, what: Callable[[], bool]) -> None:
        """Wait until `what` returns True."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(OSError, DecodeError):
                if what():
                    return
            if time.monotonic() > deadline:
                raise RuntimeError("\n".join(each.output()[-2000:] for each in self.brokers.values()))
            time.sleep(POLL_S)

    def in_sync(self, topics: list[str]) -> bool:
        """Whether all replicas of all partitions are in sync."""
        found = self.metadata(topics).topics
        return all(len(p.isr_nodes) == REPLICAS for topic in found for p in topic.partitions)

    def resident_bytes(self) -> int:
        """Return the resident memory of all brokers."""
        return sum(each.resident_bytes() for each in self.brokers.values())


def measure(system: type[Broker]) -> Iterator[tuple[Row, float]]:
    """Yield the figures of all rows, on one fresh cluster whose brokers are warm before the first row."""
    with (
        tempfile.TemporaryDirectory(prefix="cluster-", ignore_cleanup_errors=True) as made,
        contextlib.ExitStack() as stack,
    ):
        folder = Path(made)
        ticks = [f"tickTime={TICK_MS}", f"minSessionTimeout={2 * TICK_MS}"]
        zookeeper = stack.enter_context(running_zookeeper(folder / "zookeeper", ticks, jvm=()))
        cluster = Cluster(system, folder, zookeeper.connect)
        stack.callback(cluster.stop)
        began = time.perf_counter()
        while time.perf_counter() - began < WARM_UP_SECONDS:
            _performance(cluster)
        os.sync()
        yield PERFORMANCE, _performance(cluster)
        yield MEMORY, cluster.resident_bytes() / MB
        yield FAILOVER, statistics.median(_failover(cluster) for _ in range(FAILOVERS))
        began = time.perf_counter()
        _create(cluster, 0)
        yield CREATION, time.perf_counter() - began
        for number in range(1, TOPICS_OF_MANY):
            _create(cluster, number)
        yield CONTROLLER, _controller_failover(cluster)


def _create(cluster: Cluster, number: int) -> None:
    create_topic(cluster.bootstrap, f"many-{number}", MANY, patience_s=PATIENCE_S, replicas=REPLICAS)


def _performance(cluster: Cluster) -> float:
    topic = unique("perf")
    create_topic(cluster.bootstrap, topic, 6, replicas=REPLICAS)
    count = 300_000
    printed = measured_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", str(count), "--record-size", "1024", "--throughput", "-1"),
        *("--bootstrap-server", cluster.bootstrap, "--command-property", "acks=all"),
        timeout_s=300,
    )
    rates: list[str] = re.findall(rf"^{count} records sent, ([\d.]+) records/sec", printed, re.MULTILINE)
    return float(rates[-1])


def _failover(cluster: Cluster) -> float:
    """Kill the leader of a partition; return the seconds until a write to the next one is acknowledged."""
    topic = f"failover-{time.monotonic_ns()}"
    create_topic(cluster.bootstrap, topic, replicas=REPLICAS)
    batch = bytes(build_batch([NewRecord(value=b"x" * 100, timestamp=time.time_ns() // 1_000_000)]))

    def leader(without: int | None = None) -> int:
        return cluster.metadata([topic], without).topics[0].partitions[0].leader_id

    cluster.wait_for(lambda: cluster.in_sync([topic]) and cluster.produce(leader(), topic, batch))
    # Random, because the time of detection depends on the moment within the broker's session.
    time.sleep(random.uniform(0.0, SESSION_TIMEOUT_MS / 1000))
    dead = leader()
    cluster.brokers[dead].kill()
    began = time.perf_counter()
    cluster.wait_for(lambda: (now := leader(dead)) not in (-1, dead) and cluster.produce(now, topic, batch))
    took = time.perf_counter() - began
    cluster.brokers[dead].start()
    cluster.wait_for(lambda: cluster.in_sync([topic]))
    return took


def _controller_failover(cluster: Cluster) -> float:
    """Kill the controller; return the seconds until all partitions that it led have new leaders."""
    topics = [f"many-{number}" for number in range(TOPICS_OF_MANY)]
    cluster.wait_for(lambda: cluster.in_sync(topics))
    dead = cluster.metadata([]).controller_id
    cluster.brokers[dead].kill()
    began = time.perf_counter()

    def is_over() -> bool:
        found = cluster.metadata(topics, dead)
        leaders = {p.leader_id for topic in found.topics for p in topic.partitions}
        return found.controller_id not in (-1, dead) and not leaders & {-1, dead}

    cluster.wait_for(is_over)
    return time.perf_counter() - began
