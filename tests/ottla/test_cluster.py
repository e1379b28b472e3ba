"""`ottla.Cluster`: several brokers in a child process, each of which may end and come back."""

import subprocess
import sys
import time
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla import Cluster
from ottla.embed import BrokerError
from tests.ottla.test_embed import ends

pytestmark = pytest.mark.slow
TOPIC = "t"
PATIENCE_S = 30.0
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


def test_a_cluster_is_ready_soon() -> None:
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        with Cluster(3):
            seconds.append(time.perf_counter() - began)
    assert min(seconds) < 1.5


@pytest.mark.parametrize("how", [Cluster.stop, Cluster.kill])
def test_a_cluster_goes_on_without_each_of_its_brokers(how: object) -> None:
    assert callable(how)
    with Cluster(3, default_replication_factor=3) as cluster:
        create(cluster, 3)
        expected = []
        for each in range(3):
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
            how(cluster, each)
            (found,) = committer(cluster).committed([place], PATIENCE_S)
            assert found.offset == place.offset
            place.offset += 1
            committer(cluster).commit(offsets=[place], asynchronous=False)
            cluster.start(each)
            (found,) = committer(cluster).committed([place], PATIENCE_S)
            assert found.offset == place.offset


def test_a_broker_that_runs_does_not_start_and_one_that_is_gone_does_not_end() -> None:
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


def test_a_cluster_leaves_nothing_behind() -> None:
    with Cluster(2) as cluster:
        folder, pid = cluster.folder, cluster.pid
    assert ends(pid)
    assert not folder.exists()


def test_a_cluster_ends_with_its_parent() -> None:
    with subprocess.Popen([sys.executable, "-P", "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        out, _ = process.communicate(timeout=30)
    pid, folder = out.split()
    assert ends(int(pid))
    assert not Path(folder).exists()
