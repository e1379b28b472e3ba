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
OFTEN_A_COPIER = 0.2
"""The share of copiers that are killed in place of the broker."""
OFTEN_STILL = 0.25
"""The share of brokers that stand still; the others end."""
# Several segments, with the state of producers and the aborted transactions of each.
SETTINGS = {"offsets_topic_num_partitions": 5, "transaction_state_log_num_partitions": 5, "log_segment_bytes": 50_000}
TOPICS = (OUTPUT, INPUT, "__transaction_state", "__consumer_offsets")
# Two releases of Kafka's clients.
RELEASES = (LAST_WITH_ZOOKEEPER, NEWEST, LAST_WITH_ZOOKEEPER)

Setting = Callable[[Path, random.Random, int], AbstractContextManager[tuple[Load, Fault]]]


class BrokerOrCopierKilled(Killed):
    """The only broker is killed, or a copier, whose next instance continues."""

    def __init__(self, broker: Broker, load: Copies, chance: random.Random) -> None:
        super().__init__(broker)
        self.load = load
        self.chance = chance
        self.is_copier = False
        self.copiers = 0

    def strike(self) -> None:
        """Kill one of them; the first one is always the broker."""
        self.is_copier = self.kills > 0 and self.chance.random() < OFTEN_A_COPIER
        if self.is_copier:
            self.copiers += 1
            self.load.replace(self.chance.randrange(len(self.load.copiers)))
        else:
            super().strike()

    def recover(self) -> None:
        """Start the broker, if it was killed."""
        if not self.is_copier:
            super().recover()

    def check(self) -> str:
        """Do nothing, because the fault has no checks."""
        return f"{super().check()}, {self.copiers} of copiers"


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
        seeds = [chance.random() for _ in range(2)]

        def start(number: int) -> Copier:
            return ThreadCopier(broker.bootstrap, f"copier-{number}", random.Random(seeds[number]))

        yield Copies(broker.bootstrap, len(seeds), start, records(trials)), Killed(broker)
        check_output(broker)


@contextmanager
def copies_by_kafka_and_kills(folder: Path, chance: random.Random, trials: int) -> Iterator[tuple[Load, Fault]]:
    with Broker(**SETTINGS) as broker:
        load = Copies(broker.bootstrap, len(RELEASES), programs(folder, broker.bootstrap), records(trials))
        yield load, BrokerOrCopierKilled(broker, load, chance)
        check_output(broker)


@contextmanager
def copies_by_kafka_and_brokers_that_fail(
    folder: Path, chance: random.Random, trials: int
) -> Iterator[tuple[Load, Fault]]:
    with three_brokers(folder, **SETTINGS) as cluster:
        start = programs(folder, cluster.bootstrap)
        load = Copies(cluster.bootstrap, len(RELEASES), start, records(trials), replicas=len(IDS))
        yield load, OneFails(cluster, TOPICS, chance)
        for each in cluster.brokers:
            check_output(each)


def check_output(broker: Broker) -> None:
    """Check that the broker has met no bug."""
    assert "Traceback" not in broker.output, broker.output[-4000:]


def records(trials: int) -> int:
    """Return how many records each partition of the input gets."""
    return RECORDS_A_TRIAL * (trials + 1)


def programs(folder: Path, bootstrap: str) -> Callable[[int], Copier]:
    return lambda number: JavaCopier(folder, bootstrap, f"copier-{number}", RELEASES[number])


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
