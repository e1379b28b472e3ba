"""Kill -9 while an idempotent producer writes: what was acknowledged is there, and there once."""

import random
import time
from collections.abc import Callable

import pytest

from compat_tests.writing import Writer, read_all
from ottla import Broker
from tests.harness.measuring import AtMost

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.timeout(1800)]
SERVING_AGAIN_WITHIN_S = 2.0


@pytest.mark.trials(few=10, soak=50)
def test_a_killed_broker_loses_no_acknowledged_record_and_doubles_none(
    trials: int, seed: int, tell: Callable[[str], None], at_most: AtMost
) -> None:
    chance = random.Random(seed)
    with Broker(num_partitions="1") as broker:
        writer = Writer(broker.bootstrap, "survivors")
        writer.start()
        restarts = []
        for _ in range(trials):
            time.sleep(chance.uniform(0.05, 0.6))
            broker.kill()
            began = time.monotonic()
            broker.start()
            restarts.append(time.monotonic() - began)
            # A kill proves something only if the producer was at work.
            writer.wait_for_acknowledgement()
        writer.stopping.set()
        writer.join(120)
        assert not writer.failures
        assert writer.unsent == 0, broker.output[-4000:]
        found = read_all(broker.bootstrap, "survivors")
    restarts.sort()
    tell(
        f"{trials} kills, {writer.sent} records sent, {len(writer.acknowledged)} acknowledged; serving again after "
        f"{restarts[len(restarts) // 2]:.2f} s (median) and {restarts[-1]:.2f} s (slowest); "
        f"no acknowledgement for {writer.longest_silence:.1f} s at most"
    )
    assert len(found) == len(set(found.values()))
    assert len(writer.acknowledged) == writer.sent
    assert {offset: found.get(offset) for offset in writer.acknowledged.values()} == {
        offset: value for value, offset in writer.acknowledged.items()
    }
    # Other tests may hold the processors for a moment: nine in ten must make it, and the slowest is told.
    at_most(restarts[len(restarts) * 9 // 10 - 1], SERVING_AGAIN_WITHIN_S)
