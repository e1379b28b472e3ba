"""Consumers read from the replica in their own rack (KIP-392), with leaders and followers of either kind."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from compat_tests.support.brokers import Broker, Ottla, QuickKafka
from compat_tests.support.zookeeper import running

# Its types do not tell what it exports.
librdkafka: Any = confluent_kafka
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
PATIENCE_S = 120.0
KAFKA, OTTLA, THIRD = 1, 2, 3
RACKS = {KAFKA: "a", OTTLA: "b", THIRD: "c"}
RECORDS = 200


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, Broker]]:
    """Run broker 1 of Kafka and others of Ottla, each in a rack of its own."""
    data = tmp_path_factory.mktemp("racks")
    with running(data / "zookeeper") as zookeeper:
        started: dict[int, Broker] = {}
        try:
            for broker_id, rack in RACKS.items():
                folder = data / str(broker_id)
                folder.mkdir()
                settings = [
                    f"broker.id={broker_id}",
                    f"broker.rack={rack}",
                    f"zookeeper.connect={zookeeper.connect}/racks",
                    "zookeeper.session.timeout.ms=2000",
                    "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector",
                ]
                broker = started[broker_id] = (QuickKafka if broker_id == KAFKA else Ottla)(folder, settings)
                broker.start()
            yield started
        finally:
            for each in started.values():
                each.stop()


def bootstrap(brokers: dict[int, Broker]) -> str:
    return ",".join(each.bootstrap for each in brokers.values())


def create(brokers: dict[int, Broker], topic: str, replicas: Sequence[int]) -> None:
    """Create a topic of one partition, led by the first of the replicas, and wait until all are in sync."""
    admin = AdminClient({"bootstrap.servers": bootstrap(brokers), "log_level": 0})
    wait_for(lambda: set(admin.list_topics(timeout=10).brokers) == set(RACKS))
    (created,) = admin.create_topics([NewTopic(topic, 1, replica_assignment=[list(replicas)])]).values()
    created.result(PATIENCE_S)

    def is_in_sync() -> bool:
        partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions
        return 0 in partitions and partitions[0].leader == replicas[0] and set(partitions[0].isrs) == set(replicas)

    wait_for(is_in_sync)


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def produce(brokers: dict[int, Broker], topic: str, values: Sequence[bytes]) -> None:
    producer = librdkafka.Producer({"bootstrap.servers": bootstrap(brokers), "acks": "all", "log_level": 0})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(PATIENCE_S) == 0


class Reader:
    """A consumer in a rack, and the broker that it fetches from by its log."""

    def __init__(self, brokers: dict[int, Broker], topic: str, rack: str) -> None:
        self.topic = topic
        self.fetches_from = -1
        self.values: list[bytes] = []
        self._consumer = librdkafka.Consumer(
            {
                "bootstrap.servers": bootstrap(brokers),
                "client.rack": rack,
                "group.id": f"{topic}-{rack}",
                "enable.auto.commit": False,
                "statistics.interval.ms": 100,
                "stats_cb": self._heard,
                "check.crcs": True,
                "log_level": 0,
            }
        )
        self._consumer.assign([librdkafka.TopicPartition(topic, 0, 0)])

    def _heard(self, statistics: str) -> None:
        partitions = json.loads(statistics)["topics"].get(self.topic, {}).get("partitions", {})
        self.fetches_from = partitions.get("0", {}).get("broker", -1)

    def read_until(self, what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not what():
            assert time.monotonic() < deadline, (len(self.values), self.fetches_from)
            for message in self._consumer.consume(1000, 0.1):
                assert message.error() is None
                self.values.append(message.value())

    def close(self) -> None:
        self._consumer.close()


@pytest.mark.parametrize(("leader", "follower"), [(OTTLA, THIRD), (KAFKA, OTTLA), (OTTLA, KAFKA)])
def test_a_consumer_reads_from_the_follower_in_its_rack(brokers: dict[int, Broker], leader: int, follower: int) -> None:
    topic = f"from-{leader}-to-{follower}"
    create(brokers, topic, [leader, follower])
    first = [b"%d" % number for number in range(RECORDS)]
    produce(brokers, topic, first)
    near, far = Reader(brokers, topic, RACKS[follower]), Reader(brokers, topic, "elsewhere")
    near.read_until(lambda: near.values == first and near.fetches_from == follower)
    far.read_until(lambda: far.values == first and far.fetches_from == leader)
    # The follower also returns later records, after it knows that they are committed.
    produce(brokers, topic, [b"later"])
    near.read_until(lambda: near.values == [*first, b"later"])
    near.read_until(lambda: near.fetches_from == follower)
    near.close()
    far.close()


def test_when_the_follower_is_gone_the_leader_serves_again(brokers: dict[int, Broker]) -> None:
    create(brokers, "gone", [OTTLA, THIRD])
    first = [b"%d" % number for number in range(RECORDS)]
    produce(brokers, "gone", first)
    reader = Reader(brokers, "gone", RACKS[THIRD])
    reader.read_until(lambda: reader.values == first and reader.fetches_from == THIRD)
    brokers[THIRD].kill()
    more = [b"later %d" % number for number in range(RECORDS)]
    produce(brokers, "gone", more)
    reader.read_until(lambda: reader.values == first + more and reader.fetches_from == OTTLA)
    reader.close()
