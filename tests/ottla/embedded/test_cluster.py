"""`ottla.Cluster`: several brokers in a child process, each of which may end and come back."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla import Cluster
from ottla.embedded.broker import BrokerError
from tests.ottla.embedded.test_broker import ends, seconds_until_ready

pytestmark = pytest.mark.slow
TOPIC = "t"
PATIENCE_S = 120.0
PROGRAM = """
import os, signal
from ottla import Cluster
cluster = Cluster(2)
cluster.__enter__()
print(cluster.pid, cluster.folder, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def create(cluster: Cluster, replicas: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, replicas)], operation_timeout=10)[TOPIC].result(PATIENCE_S)


def produce(cluster: Cluster, *values: bytes) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for value in values:
        producer.produce(TOPIC, value)
    assert producer.flush(PATIENCE_S) == 0


def consume(cluster: Cluster, count: int) -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest", "log_level": 0}
    )
    consumer.subscribe([TOPIC])
    found: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < deadline, found
        found += [message.value() or b"" for message in consumer.consume(100, 0.5)]
    consumer.close()
    return found


def committer(cluster: Cluster) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "log_level": 0})


@pytest.mark.measured
def test_a_cluster_is_ready_soon() -> None:
    assert min(seconds_until_ready(lambda: Cluster(3)) for _ in range(3)) < 1.0


@pytest.mark.parametrize("how", [Cluster.stop, Cluster.kill])
def test_a_cluster_goes_on_without_each_of_its_brokers(how: object) -> None:
    assert callable(how)
    with Cluster(3, default_replication_factor=3) as cluster:
        create(cluster, 3)
        expected = []
        for each in range(3):
            until_in_sync(cluster)
            produce(cluster, b"before %d" % each)
            how(cluster, each)
            produce(cluster, b"without %d" % each)
            cluster.start(each)
            expected += [b"before %d" % each, b"without %d" % each]
        assert consume(cluster, 6) == expected


@pytest.mark.parametrize("how", [Cluster.stop, Cluster.kill])
def test_committed_offsets_outlive_each_broker(how: object) -> None:
    assert callable(how)
    with Cluster(3, offsets_topic_num_partitions=5) as cluster:
        create(cluster, 3)
        place = confluent_kafka.TopicPartition(TOPIC, 0, 1)
        for each in range(3):
            committer(cluster).commit(offsets=[place], asynchronous=False)
            until_in_sync(cluster)
            how(cluster, each)
            (found,) = committer(cluster).committed([place], PATIENCE_S)
            assert found.offset == place.offset
            place.offset += 1
            committer(cluster).commit(offsets=[place], asynchronous=False)
            cluster.start(each)
            (found,) = committer(cluster).committed([place], PATIENCE_S)
            assert found.offset == place.offset


class Producer:
    """A producer with one bootstrap broker, and the values that were acknowledged."""

    def __init__(self, cluster: Cluster, broker_id: int, timeout_ms: int) -> None:
        self.confirmed: list[bytes] = []
        settings = {"acks": "all", "message.timeout.ms": timeout_ms, "linger.ms": 0, "log_level": 0}
        self._producer = confluent_kafka.Producer({"bootstrap.servers": place(cluster, broker_id), **settings})

    def send(self, value: bytes) -> bool:
        before = len(self.confirmed)
        self._producer.produce(TOPIC, value, on_delivery=self._told)
        assert self._producer.flush(PATIENCE_S) == 0
        return len(self.confirmed) > before

    def _told(self, error: object, message: confluent_kafka.Message) -> None:
        if error is None:
            self.confirmed.append(message.value() or b"")


def place(cluster: Cluster, broker_id: int) -> str:
    return cluster.bootstrap.split(",")[broker_id]


def state(cluster: Cluster, seen_by: int) -> tuple[int, list[int]]:
    """Return leader and in-sync replicas of the partition in a broker's metadata; (-1, []) before it knows them."""
    admin = AdminClient({"bootstrap.servers": place(cluster, seen_by), "log_level": 0})
    partition = admin.list_topics(TOPIC, PATIENCE_S).topics[TOPIC].partitions.get(0)
    return (partition.leader, sorted(partition.isrs)) if partition else (-1, [])


def create_led_by(cluster: Cluster, leader_id: int) -> None:
    replicas = [leader_id, *(each for each in range(3) if each != leader_id)]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topic = NewTopic(TOPIC, 1, replica_assignment=[replicas])
    admin.create_topics([topic], operation_timeout=10)[TOPIC].result(PATIENCE_S)
    for each in range(3):
        until(lambda each=each: state(cluster, each) == (leader_id, [0, 1, 2]))  # type: ignore[misc]


def controller_of(cluster: Cluster, seen_by: int) -> int:
    admin = AdminClient({"bootstrap.servers": place(cluster, seen_by), "log_level": 0})
    return int(admin.list_topics(timeout=PATIENCE_S).controller_id)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def until_in_sync(cluster: Cluster) -> None:
    """Return when all partitions have all replicas in sync, so that any one broker may end."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

    def all_are() -> bool:
        topics = admin.list_topics(timeout=PATIENCE_S).topics.values()
        return all(len(each.isrs) == len(each.replicas) for topic in topics for each in topic.partitions.values())

    until(all_are)


def log_of(cluster: Cluster, broker_id: int) -> bytes:
    return (cluster.folder / f"broker-{broker_id}" / f"{TOPIC}-0" / f"{0:020}.log").read_bytes()


@pytest.mark.parametrize("is_controller", [True, False])
def test_a_leader_that_is_cut_off_acknowledges_nothing_and_follows_when_it_is_back(is_controller: bool) -> None:
    with Cluster(3, min_insync_replicas=2, zookeeper_session_timeout_ms=4_000) as cluster:
        controller = controller_of(cluster, 0)
        leader = controller if is_controller else (controller + 1) % 3
        other = (leader + 1) % 3
        create_led_by(cluster, leader)
        cut_off = Producer(cluster, leader, timeout_ms=2_000)
        assert cut_off.send(b"before")
        cluster.partition(leader)
        assert not cut_off.send(b"never")
        assert b"never" in log_of(cluster, leader)
        until(lambda: state(cluster, other)[0] != leader)
        assert state(cluster, leader)[0] == leader
        elsewhere = Producer(cluster, other, timeout_ms=30_000)
        assert elsewhere.send(b"after")
        assert controller_of(cluster, other) != leader
        cluster.heal(leader)
        successor = state(cluster, other)[0]
        for each in range(3):
            until(lambda each=each: state(cluster, each) == (successor, [0, 1, 2]))  # type: ignore[misc]
        until(lambda: log_of(cluster, leader) == log_of(cluster, successor))
        assert b"never" not in log_of(cluster, successor)
        assert consume(cluster, 2) == [b"before", b"after"]


@pytest.mark.parametrize("from_store", [True, False])
def test_a_follower_that_is_cut_off_leaves_the_in_sync_replicas_and_comes_back(from_store: bool) -> None:
    with Cluster(3, min_insync_replicas=2, replica_lag_time_max_ms=1_000) as cluster:
        leader = controller_of(cluster, 0)
        follower = (leader + 1) % 3
        create_led_by(cluster, leader)
        producer = Producer(cluster, leader, timeout_ms=30_000)
        cluster.partition(follower, from_store=from_store)
        # A follower that has all records does not lag.
        assert producer.send(b"without")
        until(lambda: state(cluster, leader) == (leader, sorted({0, 1, 2} - {follower})))
        assert b"without" not in log_of(cluster, follower)
        cluster.heal()
        until(lambda: state(cluster, leader) == (leader, [0, 1, 2]))
        assert log_of(cluster, follower) == log_of(cluster, leader)


def test_a_cut_that_heals_before_the_session_is_over_changes_no_leader() -> None:
    with Cluster(3, zookeeper_session_timeout_ms=20_000) as cluster:
        leader = (controller_of(cluster, 0) + 1) % 3
        create_led_by(cluster, leader)
        for _ in range(3):
            cluster.partition(leader)
            cluster.heal()
        assert Producer(cluster, leader, timeout_ms=30_000).send(b"a")
        for each in range(3):
            assert state(cluster, each)[0] == leader


def test_cut_brokers_can_end_and_cannot_start_until_they_are_healed() -> None:
    with Cluster(3) as cluster:
        controller = controller_of(cluster, 0)
        others = [each for each in range(3) if each != controller]
        for each in (controller, others[0]):
            cluster.partition(each)
        cluster.kill(controller)
        cluster.stop(others[0])
        with pytest.raises(BrokerError, match=f"broker {controller} is cut off, .* heal it first"):
            cluster.start(controller)
        cluster.heal()
        cluster.start(controller)
        cluster.start(others[0])
        cluster.partition(controller_of(cluster, others[1]))


def test_a_running_broker_cannot_start_and_a_stopped_broker_cannot_end() -> None:
    with Cluster(2) as cluster:
        with pytest.raises(BrokerError, match="start 0: no: cannot start broker 0"):
            cluster.start(0)
        with pytest.raises(BrokerError, match="stop 7: no: cannot stop broker 7"):
            cluster.stop(7)
        cluster.stop(1)
        with pytest.raises(BrokerError, match="kill 1: no: cannot kill broker 1"):
            cluster.kill(1)
        create(cluster, 1)
        produce(cluster, b"a")


def test_the_next_controller_creates_the_topic() -> None:
    with Cluster(3) as cluster:
        for number in range(3):
            ended = controller_of(cluster, number)
            cluster.kill(ended)
            cluster.create_topic(f"t{number}")
            cluster.start(ended)


def test_a_cluster_leaves_nothing_behind() -> None:
    with Cluster(2) as cluster:
        folder, pid = cluster.folder, cluster.pid
    assert ends(pid)
    assert not folder.exists()


def test_a_cluster_ends_with_its_parent() -> None:
    with subprocess.Popen([sys.executable, "-P", "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        out, _ = process.communicate(timeout=120)
    pid, folder = out.split()
    assert ends(int(pid))
    assert not Path(folder).exists()
