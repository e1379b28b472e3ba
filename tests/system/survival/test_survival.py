"""Faults of brokers while clients work: no acknowledged record or commit is lost, doubled or taken back."""

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from compat_tests.support.brokers import Ottla
from compat_tests.support.clients import create_topic
from ottla import Broker
from tests.harness.measuring import AtMost
from tests.support.disks import disk, small_disk
from tests.system.clusters.three_brokers import three_brokers
from tests.system.survival import Fault, Load, survive
from tests.system.survival.committing import SESSION_TIMEOUT_S
from tests.system.survival.compacted import COMPACTED, QUICK, TOPIC, KilledWhileItCleans, Newest
from tests.system.survival.faults import (
    CoordinatorsEnd,
    EndedInTurn,
    FullDisk,
    Killed,
    KilledAmidMoves,
    LeaderStandsStill,
)
from tests.system.survival.flushed import OFTEN_MS, Flushed, PowerCut
from tests.system.survival.loads import Commits, Records

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.timeout(3600)]
TOPICS = ("one", "two")
OF_GROUPS = {"offsets_topic_num_partitions": 5, "group_initial_rebalance_delay_ms": 0}
DISK_BYTES = 24 << 20
SMALL_FILES = ("num.partitions=1", "log.segment.bytes=1100000")

Setting = Callable[[Path, random.Random], AbstractContextManager[tuple[Load, Fault]]]


@contextmanager
def records_and_kills(folder: Path, chance: random.Random) -> Iterator[tuple[Load, Fault]]:
    with Broker(num_partitions="1") as broker:
        yield Records(broker.bootstrap, TOPICS[:1], lambda: broker.output), Killed(broker)


@contextmanager
def commits_and_kills(folder: Path, chance: random.Random) -> Iterator[tuple[Load, Fault]]:
    with Broker(**OF_GROUPS) as broker:
        yield Commits(broker.bootstrap, replicas=1), Killed(broker)


@contextmanager
def records_and_brokers_that_end(folder: Path, chance: random.Random) -> Iterator[tuple[Load, Fault]]:
    with three_brokers(folder) as cluster:
        cluster.create(TOPICS[0])
        yield Records(cluster.bootstrap, TOPICS[:1], cluster.output), EndedInTurn(cluster, TOPICS[:1], chance)


@contextmanager
def records_and_leaders_that_stand_still(folder: Path, chance: random.Random) -> Iterator[tuple[Load, Fault]]:
    with three_brokers(folder) as cluster:
        cluster.create(TOPICS[0])
        fault = LeaderStandsStill(cluster, TOPICS[:1], chance)
        with fault.going_on():
            yield Records(cluster.bootstrap, TOPICS[:1], cluster.output), fault


@contextmanager
def commits_and_coordinators_that_end(folder: Path, chance: random.Random) -> Iterator[tuple[Load, Fault]]:
    with three_brokers(folder, zookeeper_session_timeout_ms=1_000, **OF_GROUPS) as cluster:
        load = Commits(cluster.bootstrap, replicas=3)
        yield load, CoordinatorsEnd(cluster, load.work, chance)


@contextmanager
def running(folder: Path, *overrides: str) -> Iterator[Ottla]:
    broker = Ottla(folder, [*SMALL_FILES, *overrides])
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


@contextmanager
def records_and_kills_amid_moves(folder: Path, chance: random.Random) -> Iterator[tuple[Load, Fault]]:
    directories = [str(folder / name) for name in ("a", "b")]
    with running(folder, f"log.dirs={','.join(directories)}", "log.flush.interval.messages=1") as broker:
        yield Records(broker.bootstrap, TOPICS, broker.output), KilledAmidMoves(broker, directories, TOPICS)


@contextmanager
def records_and_full_disks(folder: Path, chance: random.Random) -> Iterator[tuple[Load, Fault]]:
    with (
        small_disk(folder, DISK_BYTES) as small,
        running(folder, f"log.dirs={small / 'log'}", "log.index.size.max.bytes=4096") as broker,
    ):
        yield Records(broker.bootstrap, TOPICS, broker.output), FullDisk(broker, small, TOPICS, chance)


@contextmanager
def flushed_records_and_power_cuts(folder: Path, chance: random.Random) -> Iterator[tuple[Load, Fault]]:
    often = [f"{key}={value}" for key, value in OFTEN_MS.items()]
    with disk(folder, 256) as power:
        broker = Ottla(folder, [f"log.dirs={power.path / 'log'}", *often])
        broker.start()
        try:
            load = Flushed(broker.bootstrap, power.path / "log")
            yield load, PowerCut(broker, power, load)
        finally:
            # The disk may be unmounted.
            broker.kill()


@contextmanager
def newest_values_and_kills_amid_cleanings(folder: Path, chance: random.Random) -> Iterator[tuple[Load, Fault]]:
    with Broker(**QUICK) as broker:
        create_topic(broker.bootstrap, TOPIC, config=COMPACTED)
        yield Newest(broker, chance), KilledWhileItCleans(broker)


def row(setting: Setting, few: int, soak: int, share: float = 1.0, within_s: float | None = None) -> object:
    """Return a row: a load with a fault, the trials, and the share of faults that end within `within_s`."""
    marks = pytest.mark.trials(few=few, soak=soak)
    return pytest.param(setting, share, within_s, marks=marks, id=setting.__name__.replace("_", " "))


@pytest.mark.parametrize(
    ("setting", "share", "within_s"),
    [
        row(records_and_kills, few=10, soak=50, share=0.9, within_s=2.0),
        # No member is removed from its group.
        row(commits_and_kills, few=10, soak=50, within_s=SESSION_TIMEOUT_S),
        row(records_and_brokers_that_end, few=10, soak=50),
        row(records_and_leaders_that_stand_still, few=1, soak=5),
        row(commits_and_coordinators_that_end, few=5, soak=25, within_s=SESSION_TIMEOUT_S),
        row(records_and_kills_amid_moves, few=3, soak=16),
        row(records_and_full_disks, few=2, soak=10),
        row(flushed_records_and_power_cuts, few=2, soak=30),
        row(newest_values_and_kills_amid_cleanings, few=2, soak=30),
    ],
)
def test_nothing_acknowledged_is_lost_or_doubled(
    setting: Setting,
    share: float,
    within_s: float | None,
    tmp_path: Path,
    trials: int,
    seed: int,
    tell: Callable[[str], None],
    at_most: AtMost,
) -> None:
    chance = random.Random(seed)
    with setting(tmp_path, chance) as (load, fault):
        took = sorted(survive(load, fault, trials, chance))
        work = load.check()
        happened = fault.check()
    tell(
        f"{setting.__name__}: {happened}; {work}; at work again after {took[len(took) // 2]:.2f} s (median) "
        f"and {took[-1]:.2f} s (slowest)"
    )
    if within_s is not None:
        at_most(took[max(int(len(took) * share) - 1, 0)], within_s)
