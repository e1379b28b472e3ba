"""One broker of Apache Kafka 3.9.2 and one of Ottla are a cluster: whoever controls it, leads, follows, ends or dies.

An idempotent producer writes with acks=all all the time.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from compat_tests.brokers import Broker, Kafka39, Ottla
from compat_tests.writing import Writer, read_all
from compat_tests.zookeeper import running

# Its types do not tell what it exports.
librdkafka: Any = confluent_kafka
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
PATIENCE_S = 60.0
KAFKA = 1
OTTLA = 2
BOTH = {KAFKA, OTTLA}
# Two topics of one partition: each broker is to lead one of them.
REPLICAS = {"of-kafka": [KAFKA, OTTLA], "of-ottla": [OTTLA, KAFKA]}
SETTINGS = (
    "zookeeper.session.timeout.ms=2000",
    "replica.lag.time.max.ms=2000",
    "controlled.shutdown.retry.backoff.ms=300",
    "offsets.topic.replication.factor=2",
    "offsets.topic.num.partitions=2",
)


class Known(NamedTuple):
    """What some broker knows of the cluster."""

    controller: int
    brokers: set[int]
    leader: int
    in_sync: set[int]


class Mixed:
    """A cluster of two: Kafka is broker 1, Ottla broker 2."""

    def __init__(self, data: Path, connect: str) -> None:
        settings = [f"zookeeper.connect={connect}/mixed", *SETTINGS]
        self.brokers: dict[int, Broker] = {}
        for broker_id, kind in ((KAFKA, Kafka39), (OTTLA, Ottla)):
            folder = data / kind.__name__
            folder.mkdir()
            self.brokers[broker_id] = kind(folder, [f"broker.id={broker_id}", *settings])
        self.bootstrap = ",".join(each.bootstrap for each in self.brokers.values())

    def admin(self) -> AdminClient:
        """A client that has to find out who the controller is."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def create_topics(self) -> None:
        """Create the topics and wait until all replicas are in sync."""
        new = [NewTopic(topic, 1, replica_assignment=[replicas]) for topic, replicas in REPLICAS.items()]
        admin = self.admin()
        for each in admin.create_topics(new, operation_timeout=10).values():
            each.result(PATIENCE_S)
        self.wait_for(lambda topic, known: known.leader == REPLICAS[topic][0] and known.in_sync == BOTH)

    def elect_preferred_leaders(self) -> None:
        """Have each broker lead its topic again."""
        admin = self.admin()
        errors = admin.elect_leaders(librdkafka.ElectionType.PREFERRED, None).result(PATIENCE_S)
        assert set(errors.values()) == {None}, errors
        self.wait_for(lambda topic, known: known.leader == REPLICAS[topic][0] and known.in_sync == BOTH)

    def wait_for(self, what: Callable[[str, Known], bool]) -> None:
        """Wait until all brokers that run agree that it is so with each topic."""
        deadline = time.monotonic() + PATIENCE_S
        for broker in self.brokers.values():
            for topic in REPLICAS:
                known = None
                while broker.process.poll() is None:
                    with contextlib.suppress(confluent_kafka.KafkaException, LookupError):
                        known = known_by(broker, topic)
                        if what(topic, known):
                            break
                    assert time.monotonic() < deadline, f"{broker.name}: {topic}: {known}\n{self.output()}"
                    time.sleep(0.05)

    def logs(self, topic: str) -> list[bytes]:
        """What each broker has of a topic."""
        return [
            b"".join(file.read_bytes() for file in sorted((each.data / "log").glob(f"{topic}-0/*.log")))
            for each in self.brokers.values()
        ]

    def output(self) -> str:
        return "\n\n".join(each.output()[-3000:] for each in self.brokers.values())


def known_by(broker: Broker, topic: str) -> Known:
    """What a broker knows."""
    found = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0}).list_topics(topic, timeout=10)
    partition = found.topics[topic].partitions[0]
    return Known(found.controller_id, set(found.brokers), partition.leader, set(partition.isrs))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Mixed]:
    with running(tmp_path / "zookeeper", ["tickTime=200"]) as zookeeper, contextlib.ExitStack() as stack:
        cluster = Mixed(tmp_path, zookeeper.connect)
        for each in cluster.brokers.values():
            stack.callback(each.stop)
        yield cluster


def start_all(cluster: Mixed, controller: int) -> None:
    """Start both, the controller first."""
    for each in (controller, (BOTH - {controller}).pop()):
        cluster.brokers[each].start()
    cluster.create_topics()
    cluster.wait_for(lambda topic, known: known.controller == controller and known.brokers == BOTH)


def check(cluster: Mixed, writers: list[Writer]) -> None:
    """Whatever has happened: what was acknowledged is there once, and both brokers have the same."""
    for each in writers:
        each.stopping.set()
    for each in writers:
        each.join(120)
        assert not each.failures
        assert each.unsent == 0, cluster.output()
        found = read_all(cluster.bootstrap, each.topic)
        assert len(found) == len(set(found.values()))
        assert {offset: found.get(offset) for offset in each.acknowledged.values()} == {
            offset: value for value, offset in each.acknowledged.items()
        }
    cluster.wait_for(lambda topic, known: known.in_sync == BOTH)
    for broker in cluster.brokers.values():
        broker.stop()
    for topic in REPLICAS:
        first, second = cluster.logs(topic)
        assert first
        assert first == second


@pytest.mark.parametrize("controller", [KAFKA, OTTLA], ids=["kafka-controls", "ottla-controls"])
def test_either_leads_follows_leaves_dies_and_takes_control(cluster: Mixed, controller: int) -> None:
    other = (BOTH - {controller}).pop()
    start_all(cluster, controller)
    writers = [Writer(cluster.bootstrap, topic, pause_s=0.05) for topic in REPLICAS]
    for each in writers:
        each.start()

    def end(how: Callable[[], None], survivor: int) -> None:
        how()
        for each in writers:
            each.wait_for_acknowledgement()
        cluster.wait_for(lambda _, known: known == Known(survivor, {survivor}, survivor, {survivor}))

    def come_back(broker_id: int, controller: int) -> None:
        cluster.brokers[broker_id].start()
        cluster.wait_for(lambda _, known: known.controller == controller and known.in_sync == BOTH)
        cluster.elect_preferred_leaders()
        for each in writers:
            each.wait_for_acknowledgement()

    end(cluster.brokers[other].stop, controller)
    come_back(other, controller)
    end(cluster.brokers[other].kill, controller)
    come_back(other, controller)
    end(cluster.brokers[controller].kill, other)
    come_back(controller, other)
    end(cluster.brokers[other].stop, controller)
    come_back(other, controller)
    check(cluster, writers)
