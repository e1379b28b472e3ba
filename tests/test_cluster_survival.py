"""Three brokers on a real ZooKeeper, ended one after the other while an idempotent producer writes with acks=all."""

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from compat_tests.writing import Writer, read_all
from compat_tests.zookeeper import running
from ottla import Broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
TOPIC = "survivors"
SESSION_TIMEOUT_MS = 2_000
PATIENCE_S = 60.0
IDS = (0, 1, 2)


class Cluster:
    """Three brokers, each a process of its own."""

    def __init__(self, connect: str) -> None:
        self.brokers = [
            Broker(
                broker_id=each,
                zookeeper_connect=f"{connect}/ottla",
                zookeeper_session_timeout_ms=SESSION_TIMEOUT_MS,
                min_insync_replicas=2,
                replica_lag_time_max_ms=5_000,
                controlled_shutdown_retry_backoff_ms=500,
            )
            for each in IDS
        ]

    @property
    def bootstrap(self) -> str:
        return ",".join(each.bootstrap for each in self.brokers)

    def partition(self) -> tuple[int, list[int]]:
        """The leader and the in-sync replicas of the one partition, as some broker knows them."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        found = admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions.get(0)
        return (-1, []) if found is None else (found.leader, found.isrs)

    def wait_for(self, what: Callable[[int, list[int]], bool]) -> int:
        """Wait until leader and in-sync replicas are such; return the leader."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(confluent_kafka.KafkaException):
                leader, isr = self.partition()
                if what(leader, isr):
                    return leader
            assert time.monotonic() < deadline, self.output()
            time.sleep(0.05)

    def output(self) -> str:
        return "\n\n".join(each.output[-2000:] for each in self.brokers)

    def logs(self) -> list[bytes]:
        """What each broker has of the partition."""
        return [
            b"".join(file.read_bytes() for file in sorted((each.folder / "data").glob(f"{TOPIC}-0/*.log")))
            for each in self.brokers
        ]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running(tmp_path, ["tickTime=200"]) as zookeeper, contextlib.ExitStack() as stack:
        cluster = Cluster(zookeeper.connect)
        for each in cluster.brokers:
            stack.enter_context(each)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        topic = NewTopic(TOPIC, 1, 3)
        admin.create_topics([topic], operation_timeout=10)[TOPIC].result(PATIENCE_S)
        yield cluster


def check(cluster: Cluster, writer: Writer) -> None:
    """Whatever has happened: what was acknowledged is there once, and all brokers have the same."""
    cluster.wait_for(lambda leader, isr: len(isr) == 3)
    writer.stopping.set()
    writer.join(120)
    assert not writer.failures
    assert writer.unsent == 0, cluster.output()
    found = read_all(cluster.bootstrap, TOPIC)
    assert len(found) == len(set(found.values()))
    assert {offset: found.get(offset) for offset in writer.acknowledged.values()} == {
        offset: value for value, offset in writer.acknowledged.items()
    }
    for each in cluster.brokers:
        each.stop()
    first, *rest = cluster.logs()
    assert first
    assert rest == [first, first]


def test_brokers_that_end_in_turn_lose_no_acknowledged_record_and_double_none(
    cluster: Cluster, trials: int, seed: int, tell: Callable[[str], None]
) -> None:
    chance = random.Random(seed)
    cluster.wait_for(lambda leader, isr: len(isr) == 3)
    writer = Writer(cluster.bootstrap, TOPIC)
    writer.start()
    kills = 0
    for _ in range(trials):
        leader = cluster.wait_for(lambda leader, isr: leader in IDS and len(isr) == 3)
        # The leader, mostly.
        victim = cluster.brokers[leader if chance.random() < 0.7 else chance.choice(IDS)]
        time.sleep(chance.uniform(0.05, 0.5))
        is_kill = chance.random() < 0.7
        kills += is_kill
        (victim.kill if is_kill else victim.stop)()
        writer.wait_for_acknowledgement()
        victim.start()
        writer.wait_for_acknowledgement()
    check(cluster, writer)
    tell(
        f"{trials} brokers of a cluster ended, {kills} of them killed: {len(writer.acknowledged)} records "
        f"acknowledged; none for {writer.longest_silence:.1f} s at most (session timeout {SESSION_TIMEOUT_MS} ms)"
    )


def test_a_leader_that_stands_still_for_two_session_timeouts_is_replaced_and_comes_back(cluster: Cluster) -> None:
    first = cluster.wait_for(lambda leader, isr: len(isr) == 3)
    writer = Writer(cluster.bootstrap, TOPIC)
    writer.start()
    writer.wait_for_acknowledgement()
    pid = cluster.brokers[first].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(2 * SESSION_TIMEOUT_MS / 1000)
        writer.wait_for_acknowledgement()
    finally:
        os.kill(pid, signal.SIGCONT)
    cluster.wait_for(lambda leader, isr: leader != first and len(isr) == 3)
    writer.wait_for_acknowledgement()
    check(cluster, writer)
