"""Three brokers on a real ZooKeeper, ended one after the other while an idempotent producer writes with acks=all."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.writing import Writer, read_all
from tests.three_brokers import IDS, SESSION_TIMEOUT_MS, Cluster, three_brokers

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.timeout(3600)]
TOPIC = "survivors"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with three_brokers(tmp_path) as cluster:
        cluster.create(TOPIC)
        yield cluster


def check(cluster: Cluster, writer: Writer) -> None:
    """Whatever has happened: what was acknowledged is there once, and all brokers have the same."""
    cluster.wait_until_in_sync(TOPIC)
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
    first, *rest = cluster.logs(TOPIC)
    assert first
    assert rest == [first, first]


@pytest.mark.trials(few=10, soak=50)
def test_brokers_that_end_in_turn_lose_no_acknowledged_record_and_double_none(
    cluster: Cluster, trials: int, seed: int, tell: Callable[[str], None]
) -> None:
    chance = random.Random(seed)
    writer = Writer(cluster.bootstrap, TOPIC)
    writer.start()
    kills = 0
    for _ in range(trials):
        leader = cluster.wait_for(TOPIC, lambda it: it.leader in IDS and len(it.isrs) == 3).leader
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
    first = cluster.wait_for(TOPIC, lambda it: len(it.isrs) == 3).leader
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
    cluster.wait_for(TOPIC, lambda it: it.leader != first and len(it.isrs) == 3)
    writer.wait_for_acknowledgement()
    check(cluster, writer)
