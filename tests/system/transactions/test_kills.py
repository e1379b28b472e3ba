"""Brokers end while clients copy in transactions: readers of committed records get each record once, in order."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from compat_tests.support.brokers import LAST_WITH_ZOOKEEPER, NEWEST
from ottla import Broker
from tests.system.clusters.three_brokers import IDS, SESSION_TIMEOUT_MS, three_brokers
from tests.system.survival import Fault, Load, survive
from tests.system.survival.faults import EndedInTurn, Killed
from tests.system.transactions.copying import INPUT, OUTPUT, Copier, Copies, JavaCopier, ThreadCopier

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.timeout(3600)]

# More than copiers can copy until the end of a trial.
RECORDS_A_TRIAL = 2_000
OFTEN_STILL = 0.25
"""The share of brokers that stand still; the others end."""
# Several segments, with the state of producers and the aborted transactions of each.
SETTINGS = {"offsets_topic_num_partitions": 5, "transaction_state_log_num_partitions": 5, "log_segment_bytes": 50_000}
TOPICS = (OUTPUT, INPUT, "__transaction_state", "__consumer_offsets")
# Two releases of Kafka's clients.
RELEASES = (LAST_WITH_ZOOKEEPER, NEWEST, LAST_WITH_ZOOKEEPER)

Setting = Callable[[Path, random.Random, int], AbstractContextManager[tuple[Load, Fault]]]


class OneFails(EndedInTurn):
    """A broker is killed or stopped, or it stands still until others lead and then goes on where it was."""

    is_still = False
    pauses = 0

    def choose(self) -> int:
        """Return any broker."""
        return self.chance.choice(IDS)

    def strike(self) -> None:
        """Let the broker fail; the first one is always killed."""
        self.is_still = self.ends > 0 and self.chance.random() < OFTEN_STILL
        if self.is_still:
            self.pauses += 1
            os.kill(self.victim.pid, signal.SIGSTOP)
            # Only the end of its session ends its leadership.
            time.sleep(2 * SESSION_TIMEOUT_MS / 1000)
        else:
            super().strike()

    def recover(self) -> None:
        """Resume a broker that stands still, because requests are under way to it."""
        if self.is_still:
            os.kill(self.victim.pid, signal.SIGCONT)

    def mend(self) -> None:
        """Start a broker that has ended, after the work has gone on without it."""
        if not self.is_still:
            super().mend()

    def check(self) -> str:
        """Check that all brokers have the same logs."""
        return f"{super().check()}, {self.pauses} stood still"


@contextmanager
def copies_and_kills(folder: Path, chance: random.Random, trials: int) -> Iterator[tuple[Load, Fault]]:
    with Broker(**SETTINGS) as broker:
        yield Copies(broker.bootstrap, threads(broker.bootstrap, chance), records(trials)), Killed(broker)


@contextmanager
def copies_by_kafka_and_kills(folder: Path, chance: random.Random, trials: int) -> Iterator[tuple[Load, Fault]]:
    with Broker(**SETTINGS) as broker:
        yield Copies(broker.bootstrap, programs(folder, broker.bootstrap), records(trials)), Killed(broker)


@contextmanager
def copies_by_kafka_and_brokers_that_fail(
    folder: Path, chance: random.Random, trials: int
) -> Iterator[tuple[Load, Fault]]:
    with three_brokers(folder, **SETTINGS) as cluster:
        load = Copies(cluster.bootstrap, programs(folder, cluster.bootstrap), records(trials), len(IDS))
        yield load, OneFails(cluster, TOPICS, chance)


def records(trials: int) -> int:
    """Return how many records each partition of the input gets."""
    return RECORDS_A_TRIAL * (trials + 1)


def threads(bootstrap: str, chance: random.Random) -> Callable[[], list[Copier]]:
    seeds = [chance.random() for _ in range(2)]
    return lambda: [ThreadCopier(bootstrap, f"copier-{each}", random.Random(each)) for each in seeds]


def programs(folder: Path, bootstrap: str) -> Callable[[], list[Copier]]:
    return lambda: [JavaCopier(folder, bootstrap, f"copier-{each}", jars) for each, jars in enumerate(RELEASES)]


def row(setting: Setting, few: int, soak: int) -> object:
    """Return a row: a load with a fault, and the trials."""
    return pytest.param(setting, marks=pytest.mark.trials(few=few, soak=soak), id=setting.__name__.replace("_", " "))


@pytest.mark.parametrize(
    "setting",
    [
        row(copies_and_kills, few=2, soak=100),
        row(copies_by_kafka_and_kills, few=2, soak=50),
        row(copies_by_kafka_and_brokers_that_fail, few=1, soak=20),
    ],
)
def test_each_record_is_copied_once(
    setting: Setting, tmp_path: Path, trials: int, seed: int, tell: Callable[[str], None]
) -> None:
    chance = random.Random(seed)
    with setting(tmp_path, chance, trials) as (load, fault):
        took = sorted(survive(load, fault, trials, chance))
        work = load.check()
        happened = fault.check()
    tell(
        f"{setting.__name__}: {happened}; {work}; at work again after {took[len(took) // 2]:.2f} s (median) "
        f"and {took[-1]:.2f} s (slowest)"
    )
