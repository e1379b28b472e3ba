"""Three brokers and a ZooKeeper on hosts of their own: links break while idempotent producers write with acks=all.

Each broker is the preferred leader of a topic of its own, so that a fault hits a leader that is the controller, a
leader without a link to it and a leader with one. The effects of a fault follow from the remaining links; the checks
after the fault are always the same.
"""

import contextlib
import json
import random
import re
import signal
import struct
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

from compat_tests.support.writing import Writer
from tests.support.namespaces import HostedOttla, HostedZooKeeper, Link, Network
from tests.system.survival.loads import check_records

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.timeout(7200)]
IDS = (0, 1, 2)
ZOOKEEPER = "zk"
CHROOT = "/ottla"
SESSION_TIMEOUT_S = 2.0
LAG_S = 3.0
PATIENCE_S = 60.0
LED = re.compile(r"\[Broker id=(\d)\] Leading (of-\d)-0 from leader epoch (\d+) on")
SAID = re.compile(r"\[(?!.*ottla\.watchdog)")
BATCH = struct.Struct(">qii")


def topic(broker_id: int) -> str:
    """Return the topic that prefers `broker_id` as its leader."""
    return f"of-{broker_id}"


def host(broker_id: int) -> str:
    return f"b{broker_id}"


def between(one: str, other: str) -> set[Link]:
    """Return the links of both directions."""
    return {(one, other), (other, one)}


def others(broker_id: int) -> list[int]:
    return [each for each in IDS if each != broker_id]


class State(NamedTuple):
    """The state of a partition in ZooKeeper."""

    leader: int
    epoch: int
    isr: frozenset[int]


class Cluster:
    """Three brokers, their ZooKeeper, the network between them, and producers."""

    def __init__(self, network: Network, zookeeper: HostedZooKeeper, brokers: Sequence[HostedOttla]) -> None:
        self.network = network
        self.zookeeper = zookeeper
        self.brokers = brokers
        self.bootstrap = ",".join(each.bootstrap for each in brokers)
        self.controller = -1
        retry = KazooRetry(max_tries=-1, max_delay=0.5, deadline=PATIENCE_S)
        self.client = KazooClient(f"{zookeeper.connect}{CHROOT}", command_retry=retry)
        self.client.start()
        self.wait_until(lambda: len(self.epochs()) == len(IDS), "all are registered")
        for each in IDS:
            self.wait_until(partial(self._is_made, each), "the controller knows all brokers")
        self.writers = [Writer(self.bootstrap, topic(each), pause_s=0.05) for each in IDS]
        for writer in self.writers:
            writer.start()

    def close(self) -> None:
        """Stop the producers and the ZooKeeper client."""
        for writer in self.writers:
            writer.stopping.set()
        self.client.stop()
        self.client.close()

    def _is_made(self, broker_id: int) -> bool:
        """Create a broker's topic, unless the controller does not know all brokers yet."""
        new = NewTopic(topic(broker_id), 1, replica_assignment=[[broker_id, *others(broker_id)]])
        with contextlib.suppress(KafkaException):
            admin = self.admin()
            admin.create_topics([new], operation_timeout=10)[topic(broker_id)].result(PATIENCE_S)
            return True
        return False

    def admin(self) -> AdminClient:
        """Return a new client, because an old client keeps asking a former controller.

        The client ends with its last reference.
        """
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def read(self, path: str) -> Any:
        """Return data and stat of a znode; KazooException if it is missing, or if ZooKeeper is silent for a minute."""
        return self.client.retry(lambda: self.client.get_async(path).get(timeout=30))

    def states(self) -> list[State]:
        """Return the state of each topic's partition."""
        found = []
        for each in IDS:
            state = json.loads(self.read(f"/brokers/topics/{topic(each)}/partitions/0/state")[0])
            found.append(State(state["leader"], state["leader_epoch"], frozenset(state["isr"])))
        return found

    def has_controller(self) -> bool:
        """Whether there is a controller; notes its id."""
        self.controller = -1
        with contextlib.suppress(NoNodeError):
            self.controller = int(json.loads(self.read("/controller")[0])["brokerid"])
        return self.controller in IDS

    def epochs(self) -> dict[int, int]:
        """Return the epoch of each registered broker. A new session has a new epoch."""
        found = {}
        for each in IDS:
            with contextlib.suppress(NoNodeError):
                found[each] = self.read(f"/brokers/ids/{each}")[1].czxid
        return found

    def wait_until(self, what: Callable[[], object], why: str, patience_s: float = PATIENCE_S) -> None:
        """Wait until `what` returns true; an error of ZooKeeper counts as false."""
        deadline = time.monotonic() + patience_s
        while True:
            with contextlib.suppress(KazooException, KazooTimeoutError):
                if what():
                    return
            assert time.monotonic() < deadline, f"{why}: not after {patience_s} s\n{self.output()}"
            time.sleep(0.05)

    def is_whole(self) -> bool:
        """Whether ZooKeeper has all leaders and all in-sync replicas."""
        in_sync = all(state.leader in IDS and state.isr == set(IDS) for state in self.states())
        return in_sync and self.has_controller() and len(self.epochs()) == len(IDS)

    def wait_for_acknowledgements(self, of: Collection[int] = IDS) -> None:
        """Wait until each of these topics acknowledges a new record."""
        now = time.monotonic()
        self.wait_until(lambda: all(self.writers[each].last_heard > now for each in of), f"{set(of)} are written to")

    def wait_for_effects(self, fault: "Fault", before: dict[int, int]) -> None:
        """Wait until the effects of a fault are visible, or until a busy machine spoils them.

        A broker that lost its session unexpectedly spoils the effects.
        """

        def is_spoilt() -> bool:
            now = self.epochs()
            return any(now.get(each) != before[each] for each in before.keys() - fault.expired)

        if any(each.out_of_sync for each in fault.effects):
            why = f"{fault.what}, {fault.effects}"
            self.wait_until(lambda: is_spoilt() or all(map(Effect.is_seen, fault.effects, self.states())), why)
            if is_spoilt():
                return
        self.wait_for_acknowledgements([each.topic for each in fault.effects if each.is_written])

    def settle(self) -> None:
        """Wait until each broker leads its own topic, and all replicas are in sync."""
        self.wait_until(self.is_whole, "all replicas are in sync")
        self.wait_until(self._lead_their_own, "each leads its own topic")
        self.wait_for_acknowledgements()

    def _lead_their_own(self) -> bool:
        """Elect the preferred leaders of topics that other brokers lead."""
        led_by_others = [TopicPartition(topic(each), 0) for each in IDS if self.states()[each].leader != each]
        if led_by_others:
            with contextlib.suppress(KafkaException):
                admin = self.admin()
                admin.elect_leaders(ElectionType.PREFERRED, led_by_others).result(PATIENCE_S)
        return not led_by_others

    def output(self) -> str:
        with contextlib.suppress(Exception):
            return "\n\n".join(
                [
                    f"{self.states()}, {self.epochs()}, controller {self.has_controller() and self.controller}",
                    *self._outputs(),
                ]
            )
        return "\n\n".join(self._outputs())

    def _outputs(self) -> list[str]:
        """Return the last log lines of the brokers, without stacks."""
        lines = [[line for line in each.output().splitlines() if SAID.match(line)] for each in self.brokers]
        return ["\n".join(each[-60:]) for each in lines]

    def logs(self, name: str) -> list[bytes]:
        """Return the log of a topic's partition on each broker."""
        return [
            b"".join(file.read_bytes() for file in sorted((each.data / "log" / f"{name}-0").glob("*.log")))
            for each in self.brokers
        ]

    def led(self) -> dict[tuple[str, int], set[str]]:
        """Return by topic and leader epoch the brokers whose logs claim to lead."""
        found: dict[tuple[str, int], set[str]] = defaultdict(set)
        for broker in self.brokers:
            for broker_id, name, epoch in LED.findall(broker.output()):
                found[name, int(epoch)].add(broker_id)
        return found


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Network([ZOOKEEPER, *map(host, IDS)]) as network, contextlib.ExitStack() as stack:
        zookeeper = HostedZooKeeper(network.hosts[ZOOKEEPER], tmp_path / ZOOKEEPER, ["tickTime=200"])
        zookeeper.start()
        stack.callback(zookeeper.kill)
        brokers = []
        for each in IDS:
            settings = {
                "broker.id": each,
                "zookeeper.connect": f"{zookeeper.connect}{CHROOT}",
                "zookeeper.session.timeout.ms": int(SESSION_TIMEOUT_S * 1000),
                "zookeeper.connection.timeout.ms": 30_000,
                "replica.lag.time.max.ms": int(LAG_S * 1000),
                "min.insync.replicas": 2,
                "offsets.topic.num.partitions": 1,
                "controlled.shutdown.retry.backoff.ms": 500,
            }
            (tmp_path / host(each)).mkdir()
            overrides = [f"{key}={value}" for key, value in settings.items()]
            broker = HostedOttla(network.hosts[host(each)], tmp_path / host(each), overrides)
            broker.start()
            stack.callback(broker.kill)
            brokers.append(broker)
        cluster = Cluster(network, zookeeper, brokers)
        stack.callback(cluster.close)
        yield cluster


class Effect(NamedTuple):
    """The state that a fault must cause for one topic while it lasts."""

    topic: int
    cannot_lead: frozenset[int]
    out_of_sync: frozenset[int]
    is_written: bool

    def is_seen(self, state: State) -> bool:
        return state.leader not in {-1, *self.cannot_lead} and not state.isr & self.out_of_sync


def effects(controller: int, cut: Collection[Link], sessionless: Collection[int]) -> list[Effect]:
    """Return the certain effects of a fault on each topic, if each broker leads its own topic.

    A broker without a session loses leadership and leaves each ISR, if another broker can act. A follower that cannot
    fetch leaves the ISR, if the leader reaches the controller.
    """
    gone = frozenset(sessionless if len(sessionless) < len(IDS) else ())
    found = []
    for leader in IDS:
        deaf = {each for each in others(leader) if between(host(leader), host(each)) & set(cut)}
        is_told = leader == controller or (not gone and controller not in deaf)
        out = gone | frozenset(deaf if is_told and leader not in sessionless else ())
        is_written = leader not in gone and out >= deaf and len(IDS) - len(out) >= 2
        found.append(Effect(leader, gone & {leader}, out, is_written))
    return found


class Fault(NamedTuple):
    """A fault in words, and its effects while it lasts."""

    what: str
    begin: Callable[[], None]
    end: Callable[[], None]
    lasts_s: float
    effects: list[Effect]
    expired: frozenset[int]


def cut(cluster: Cluster, what: str, links: set[Link], lasts_s: float) -> Fault:
    """Return the fault of cut links."""
    network = cluster.network
    expired = frozenset(each for each in IDS if between(host(each), ZOOKEEPER) & links)
    met = effects(cluster.controller, links, expired)
    return Fault(what, lambda: network.cut(links), network.heal, lasts_s, met, expired)


def stop(cluster: Cluster, what: str, victim: int) -> Fault:
    """Return the fault of a suspended broker."""
    send, expired = cluster.brokers[victim].signal, frozenset({victim})
    met = effects(cluster.controller, (), expired)
    begin, end = (partial(send, each) for each in (signal.SIGSTOP, signal.SIGCONT))
    return Fault(what, begin, end, 2 * SESSION_TIMEOUT_S, met, expired)


Scenario = Callable[[Cluster, int, random.Random, float], Fault]


def new_sessions(before: dict[int, int], now: dict[int, int]) -> set[int]:
    """Return the brokers with a new session."""
    return {each for each, epoch in now.items() if epoch != before.get(each)}


def happen(cluster: Cluster, fault: Fault) -> tuple[float, int]:
    """Run a fault until its effects are visible, and heal; return the seconds to heal, and the expired sessions."""
    before = cluster.epochs()
    fault.begin()
    try:
        time.sleep(fault.lasts_s)
        cluster.wait_for_effects(fault, before)
    finally:
        fault.end()
    ended = time.monotonic()
    cluster.wait_until(lambda: fault.expired <= new_sessions(before, cluster.epochs()), f"{fault.what}: other sessions")
    cluster.wait_until(cluster.is_whole, f"{fault.what}: whole again")
    cluster.wait_for_acknowledgements()
    return time.monotonic() - ended, len(new_sessions(before, cluster.epochs()))


def survive(
    cluster: Cluster, scenarios: Sequence[Scenario], trials: int, seed: int, tell: Callable[[str], None]
) -> None:
    """Run each scenario a few times in random order, heal each time, and check that no acknowledged record is lost."""
    chance = random.Random(seed)
    runs = [each for each in scenarios for _ in range(trials)]
    chance.shuffle(runs)
    found = defaultdict(list)
    for scenario in runs:
        cluster.settle()
        victim = cluster.controller if chance.random() < 0.5 else chance.choice(IDS)
        fault = scenario(cluster, victim, chance, chance.uniform(1.0, 1.4) * LAG_S)
        found[fault.what].append(happen(cluster, fault))
    check(cluster)
    for what, each in sorted(found.items()):
        slowest, expired = max(healed for healed, _ in each), sum(count for _, count in each)
        tell(f"{what}: {len(each)} times, {expired} sessions expired, healed after {slowest:.1f} s at most")
    count = sum(len(each.acknowledged) for each in cluster.writers)
    silence = max(each.longest_silence for each in cluster.writers)
    tell(f"{len(runs)} faults: {count} records acknowledged; none of a topic for {silence:.1f} s at most")


def check(cluster: Cluster) -> None:
    """Check that acknowledged records are there once, all logs are equal, and each epoch had one leader."""
    cluster.wait_until(cluster.is_whole, "all replicas are in sync at the end")
    for writer in cluster.writers:
        writer.stopping.set()
    for writer in cluster.writers:
        writer.join(120)
        check_records(writer, cluster.bootstrap, cluster.output)
    for broker in cluster.brokers:
        broker.stop()
    led = cluster.led()
    assert {epoch: by for epoch, by in led.items() if len(by) > 1} == {}
    for each in IDS:
        first, *rest = cluster.logs(topic(each))
        assert first
        assert rest == [first, first]
        assert {(topic(each), epoch) for epoch in leader_epochs(first)} <= led.keys()


def leader_epochs(log: bytes) -> set[int]:
    """Return the leader epochs of the batches of a log."""
    found, position = set(), 0
    while position < len(log):
        _, length, epoch = BATCH.unpack_from(log, position)
        found.add(epoch)
        position += 12 + length
    return found


def from_zookeeper(cluster: Cluster, victim: int, chance: random.Random, lasts_s: float) -> Fault:
    return cut(cluster, "a leader cut from ZooKeeper", between(host(victim), ZOOKEEPER), lasts_s)


def from_followers(cluster: Cluster, victim: int, chance: random.Random, lasts_s: float) -> Fault:
    links = {link for each in others(victim) for link in between(host(victim), host(each))}
    return cut(cluster, "a leader cut from its followers", links, lasts_s)


def hears_followers(cluster: Cluster, victim: int, chance: random.Random, lasts_s: float) -> Fault:
    links = {(host(victim), host(each)) for each in others(victim)}
    return cut(cluster, "a leader that hears its followers and is not heard", links, lasts_s)


def heard_by_followers(cluster: Cluster, victim: int, chance: random.Random, lasts_s: float) -> Fault:
    links = {(host(each), host(victim)) for each in others(victim)}
    return cut(cluster, "a leader that is heard and hears no followers", links, lasts_s)


def from_everybody(cluster: Cluster, victim: int, chance: random.Random, lasts_s: float) -> Fault:
    links = {link for each in others(victim) for link in between(host(victim), host(each))}
    return cut(cluster, "a leader cut from all", links | between(host(victim), ZOOKEEPER), lasts_s)


def ring(chance: random.Random) -> set[Link]:
    """Return the links to cut so that each broker sends to one other broker and hears the third."""
    step = chance.choice((1, 2))
    return {(host(each), host((each + step) % len(IDS))) for each in IDS}


def in_a_ring(cluster: Cluster, victim: int, chance: random.Random, lasts_s: float) -> Fault:
    return cut(cluster, "a ring", ring(chance), lasts_s)


def one_beside_the_ring(cluster: Cluster, victim: int, chance: random.Random, lasts_s: float) -> Fault:
    alone = {link for each in others(victim) for link in between(host(victim), host(each))}
    return cut(cluster, "a ring, and one that reaches only ZooKeeper", ring(chance) | alone, lasts_s)


def one_with_zookeeper(cluster: Cluster, victim: int, chance: random.Random, lasts_s: float) -> Fault:
    without = {link for each in others(victim) for link in between(host(each), ZOOKEEPER)}
    return cut(cluster, "a ring, of which one reaches ZooKeeper", ring(chance) | without, lasts_s)


def leader_stands_still(cluster: Cluster, victim: int, chance: random.Random, lasts_s: float) -> Fault:
    return stop(cluster, "a leader that stands still", chance.choice(others(cluster.controller)))


def controller_stands_still(cluster: Cluster, victim: int, chance: random.Random, lasts_s: float) -> Fault:
    return stop(cluster, "a controller that stands still", cluster.controller)


def all_without_zookeeper(cluster: Cluster, victim: int, chance: random.Random, lasts_s: float) -> Fault:
    links = {link for each in IDS for link in between(host(each), ZOOKEEPER)}
    return cut(cluster, "all brokers cut from ZooKeeper", links, lasts_s)


def zookeeper_restarts(cluster: Cluster, victim: int, chance: random.Random, lasts_s: float) -> Fault:
    zookeeper, met = cluster.zookeeper, effects(-1, (), ())
    return Fault("ZooKeeper restarted", zookeeper.kill, zookeeper.start, chance.uniform(0, 1), met, frozenset())


def zookeeper_stands_still(cluster: Cluster, victim: int, chance: random.Random, lasts_s: float) -> Fault:
    zookeeper, lasts_s, met = cluster.zookeeper, 2 * SESSION_TIMEOUT_S, effects(-1, (), ())
    return Fault("ZooKeeper stands still", zookeeper.pause, zookeeper.resume, lasts_s, met, frozenset())


@pytest.mark.trials(few=1, soak=11)
def test_leaders_that_are_cut_off_lose_no_acknowledged_record(
    cluster: Cluster, trials: int, seed: int, tell: Callable[[str], None]
) -> None:
    scenarios = [from_zookeeper, from_followers, hears_followers, heard_by_followers, from_everybody]
    survive(cluster, scenarios, trials, seed, tell)


@pytest.mark.trials(few=1, soak=11)
def test_brokers_in_a_ring_lose_no_acknowledged_record(
    cluster: Cluster, trials: int, seed: int, tell: Callable[[str], None]
) -> None:
    survive(cluster, [in_a_ring, one_beside_the_ring, one_with_zookeeper], trials, seed, tell)


@pytest.mark.trials(few=1, soak=11)
def test_brokers_that_stand_still_for_two_sessions_lose_no_acknowledged_record(
    cluster: Cluster, trials: int, seed: int, tell: Callable[[str], None]
) -> None:
    survive(cluster, [leader_stands_still, controller_stands_still], trials, seed, tell)


@pytest.mark.trials(few=1, soak=11)
def test_a_zookeeper_that_comes_and_goes_loses_no_acknowledged_record(
    cluster: Cluster, trials: int, seed: int, tell: Callable[[str], None]
) -> None:
    survive(cluster, [zookeeper_restarts, zookeeper_stands_still, all_without_zookeeper], trials, seed, tell)
