"""Three brokers on a real ZooKeeper; those that coordinate groups end while consumers commit."""

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.zookeeper import running
from ottla import Broker
from tests.committing import GROUPS, PATIENCE_S, SESSION_TIMEOUT_S, TOPIC, Coordinator, Work
from tests.harness.measuring import AtMost

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.timeout(3600)]
IDS = (0, 1, 2)
ZOOKEEPER_SESSION_TIMEOUT_MS = 1_000


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[list[Broker]]:
    with running(tmp_path, ["tickTime=200"]) as zookeeper, contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(
                Broker(
                    broker_id=each,
                    zookeeper_connect=f"{zookeeper.connect}/ottla",
                    zookeeper_session_timeout_ms=ZOOKEEPER_SESSION_TIMEOUT_MS,
                    min_insync_replicas=2,
                    controlled_shutdown_retry_backoff_ms=500,
                    offsets_topic_num_partitions=5,
                )
            )
            for each in IDS
        ]


def wait_until_all_are_in_sync(work: Work) -> None:
    """Return when every partition has three replicas again that are in sync."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        topics = work.admin.list_topics(timeout=10).topics
        # A broker that has just started may not have been told of any topic.
        if all(
            name in topics and all(len(each.isrs) == len(IDS) for each in topics[name].partitions.values())
            for name in (TOPIC, "__consumer_offsets")
        ):
            return
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.trials(few=5, soak=25)
def test_coordinators_that_end_in_turn_lose_no_committed_offset_and_no_group(
    brokers: list[Broker], trials: int, seed: int, tell: Callable[[str], None], at_most: AtMost
) -> None:
    chance = random.Random(seed)
    kills = 0
    took = []
    with Work(",".join(each.bootstrap for each in brokers), replicas=3) as work:
        members = work.wait_until_stable()
        work.wait_for_commits()
        for number in range(trials):
            wait_until_all_are_in_sync(work)
            before = {group: work.coordinator(group) for group in GROUPS}
            first = before[chance.choice(list(GROUPS))]
            assert isinstance(first, Coordinator)
            victim = brokers[first.broker_id]
            time.sleep(chance.uniform(0.0, 0.5))
            is_kill = number == 0 or chance.random() < 0.7
            kills += is_kill
            began = time.monotonic()
            (victim.kill if is_kill else victim.stop)()
            acknowledged = work.acknowledged()
            assert work.wait_until_stable() == members
            assert work.behind(acknowledged) == {}
            work.wait_for_commits()
            took.append(time.monotonic() - began)
            victim.start()
        assert work.wait_until_stable() == members
    work.check()
    took.sort()
    tell(
        f"{trials} coordinators ended, {kills} of them killed, {work.commits} commits acknowledged in {len(GROUPS)} "
        f"groups; stable and committing again after {took[trials // 2]:.2f} s (median) and {took[-1]:.2f} s (slowest)"
    )
    at_most(took[-1], SESSION_TIMEOUT_S)
