"""Three brokers that a test can end and start, each a process of its own, on a real ZooKeeper."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._metadata import ClusterMetadata, PartitionMetadata
from confluent_kafka.cimpl import NewTopic

from compat_tests.support.zookeeper import running
from ottla import Broker

PATIENCE_S = 60.0
IDS = (0, 1, 2)
SESSION_TIMEOUT_MS = 2_000


class Cluster:
    """The brokers by their ids, with their metadata and their output."""

    def __init__(self, connect: str, **overrides: Any) -> None:
        settings = {
            "zookeeper_connect": f"{connect}/ottla",
            "zookeeper_session_timeout_ms": SESSION_TIMEOUT_MS,
            "min_insync_replicas": 2,
            "replica_lag_time_max_ms": 5_000,
            "controlled_shutdown_retry_backoff_ms": 500,
            **overrides,
        }
        self.brokers = [Broker(broker_id=each, **settings) for each in IDS]

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(each.bootstrap for each in self.brokers)

    def admin(self) -> AdminClient:
        """An admin client of the running brokers."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def create(self, topic: str, partitions: int = 1) -> None:
        """Create a topic with a replica on each broker, and wait until all are in sync."""
        admin = self.admin()
        wanted = NewTopic(topic, partitions, len(IDS))
        admin.create_topics([wanted], operation_timeout=10)[topic].result(PATIENCE_S)
        self.wait_until_in_sync(topic)

    def wait_until(self, what: Callable[[ClusterMetadata], bool]) -> ClusterMetadata:
        """Wait until the metadata from some broker fits; return the metadata."""
        admin = self.admin()
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(confluent_kafka.KafkaException):
                found = admin.list_topics(timeout=5)
                if what(found):
                    return found
            assert time.monotonic() < deadline, self.output()
            time.sleep(0.05)

    def wait_for(self, topic: str, what: Callable[[PartitionMetadata], bool]) -> PartitionMetadata:
        """Wait until partition 0 of a topic fits a condition."""

        def is_so(found: ClusterMetadata) -> bool:
            partitions = found.topics[topic].partitions if topic in found.topics else {}
            return 0 in partitions and what(partitions[0])

        return self.wait_until(is_so).topics[topic].partitions[0]

    def wait_until_in_sync(self, topic: str) -> None:
        """Wait until each broker is in sync in all partitions of a topic."""
        self.wait_until(
            lambda found: (
                topic in found.topics
                and all(
                    sorted(each.isrs) == [*IDS] and each.leader in IDS
                    for each in found.topics[topic].partitions.values()
                )
            )
        )

    def output(self) -> str:
        """Return the last output of each broker."""
        return "\n\n".join(each.output[-2000:] for each in self.brokers)

    def logs(self, topic: str, partition: int = 0) -> list[bytes]:
        """Return the log of a partition on each broker."""
        return [
            b"".join(file.read_bytes() for file in sorted((each.folder / "data").glob(f"{topic}-{partition}/*.log")))
            for each in self.brokers
        ]


@contextlib.contextmanager
def three_brokers(folder: Path, **overrides: Any) -> Iterator[Cluster]:
    """Run three brokers during a `with` block."""
    with running(folder, ["tickTime=200"]) as zookeeper, contextlib.ExitStack() as stack:
        cluster = Cluster(zookeeper.connect, **overrides)
        for each in cluster.brokers:
            stack.enter_context(each)
        yield cluster
