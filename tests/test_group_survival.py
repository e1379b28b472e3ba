"""Kill -9 while consumers commit: no committed offset goes back, and each group goes on with the members it had."""

import random
import time
from collections.abc import Callable

import pytest

from ottla import Broker
from tests.committing import GROUPS, SESSION_TIMEOUT_S, Work
from tests.harness.measuring import AtMost

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.mark.trials(few=10, soak=50)
def test_a_killed_broker_loses_no_committed_offset_and_no_group(
    trials: int, seed: int, tell: Callable[[str], None], at_most: AtMost
) -> None:
    chance = random.Random(seed)
    with Broker(offsets_topic_num_partitions="5") as broker:
        took = []
        with Work(broker.bootstrap, replicas=1) as work:
            members = work.wait_until_stable()
            work.wait_for_commits()
            for _ in range(trials):
                time.sleep(chance.uniform(0.0, 0.5))
                broker.kill()
                before = work.acknowledged()
                broker.start()
                began = time.monotonic()
                assert work.wait_until_stable() == members
                assert work.behind(before) == {}
                # A kill proves something only if the consumers were at work.
                work.wait_for_commits()
                took.append(time.monotonic() - began)
        work.check()
    took.sort()
    tell(
        f"{trials} kills, {work.commits} commits acknowledged in {len(GROUPS)} groups; "
        f"stable and committing again after {took[len(took) // 2]:.2f} s (median) and {took[-1]:.2f} s (slowest)"
    )
    at_most(took[-1], SESSION_TIMEOUT_S)
