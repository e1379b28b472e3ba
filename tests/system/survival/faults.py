"""The faults of brokers while clients work."""

import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from compat_tests.differential.both import Side
from compat_tests.support.brokers import Ottla, run_tool
from ottla import Broker
from ottla.embedded.broker import BrokerError
from tests.support.disks import fill
from tests.system.clusters.three_brokers import IDS, SESSION_TIMEOUT_MS, Cluster
from tests.system.survival import Fault
from tests.system.survival.committing import GROUPS, PATIENCE_S, TOPIC, Coordinator, Work

OFTEN_KILLED = 0.7
"""The share of brokers that are killed; the others are stopped."""


class Killed(Fault):
    """The only broker is killed."""

    between_s = (0.05, 0.6)

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.kills = 0

    def strike(self) -> None:
        """Kill it."""
        self.broker.kill()
        self.kills += 1

    def recover(self) -> None:
        """Start it."""
        self.broker.start()

    def check(self) -> str:
        """Do nothing, because the fault has no checks."""
        self.broker.stop()
        return f"{self.kills} kills"


class EndedInTurn(Fault):
    """A broker of a cluster ends, mostly the leader of a topic, and mostly by a kill."""

    between_s = (0.05, 0.5)

    def __init__(self, cluster: Cluster, topics: Sequence[str], chance: random.Random) -> None:
        self.cluster = cluster
        self.topics = topics
        self.chance = chance
        self.victim = cluster.brokers[0]
        self.ends = self.kills = 0

    def choose(self) -> int:
        """Return the broker that ends next."""
        found = self.cluster.wait_for(self.topics[0], lambda it: it.leader in IDS and len(it.isrs) == len(IDS))
        return found.leader if self.chance.random() < OFTEN_KILLED else self.chance.choice(IDS)

    def prepare(self) -> None:
        """Wait until the last broker is back, and choose the next one."""
        self.settle()
        self.victim = self.cluster.brokers[self.choose()]

    def strike(self) -> None:
        """End the broker; the first one is always killed."""
        is_kill = not self.ends or self.chance.random() < OFTEN_KILLED
        self.ends += 1
        self.kills += is_kill
        (self.victim.kill if is_kill else self.victim.stop)()

    def mend(self) -> None:
        """Start the broker, after the work has gone on without it."""
        self.victim.start()

    def settle(self) -> None:
        """Wait until all replicas are in sync."""
        for topic in self.topics:
            self.cluster.wait_until_in_sync(topic)

    def check(self) -> str:
        """Check that all brokers have the same logs."""
        for each in self.cluster.brokers:
            each.stop()
        first, *rest = self.cluster.logs(self.topics[0])
        assert first
        assert rest == [first] * len(rest)
        return f"{self.ends} brokers ended, {self.kills} of them killed"


class CoordinatorsEnd(EndedInTurn):
    """A coordinator of a group ends."""

    between_s = (0.0, 0.5)

    def __init__(self, cluster: Cluster, work: Work, chance: random.Random) -> None:
        super().__init__(cluster, (TOPIC, "__consumer_offsets"), chance)
        self.work = work

    def choose(self) -> int:
        """Return the coordinator of one of the groups."""
        found = self.work.coordinator(self.chance.choice(list(GROUPS)))
        assert isinstance(found, Coordinator)
        return found.broker_id


class LeaderStandsStill(EndedInTurn):
    """The leader is suspended for two session timeouts: another broker leads, and the old leader returns."""

    def choose(self) -> int:
        """Return the leader."""
        return self.cluster.wait_for(self.topics[0], lambda it: len(it.isrs) == len(IDS)).leader

    def prepare(self) -> None:
        """Remember the leader."""
        self.leader = self.choose()
        self.victim = self.cluster.brokers[self.leader]

    def strike(self) -> None:
        """Suspend the leader for two session timeouts, because only its session ends the leadership."""
        self.ends += 1
        os.kill(self.victim.pid, signal.SIGSTOP)
        time.sleep(2 * SESSION_TIMEOUT_MS / 1000)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Resume the broker, even if the block fails."""
        try:
            yield
        finally:
            with suppress(BrokerError):
                os.kill(self.victim.pid, signal.SIGCONT)

    def mend(self) -> None:
        """Resume the broker, and wait until it follows."""
        os.kill(self.victim.pid, signal.SIGCONT)
        self.cluster.wait_for(self.topics[0], lambda it: it.leader != self.leader and len(it.isrs) == len(IDS))

    def check(self) -> str:
        """Check as after any end of a broker."""
        super().check()
        return f"{self.ends} leaders stood still"


class KilledAmidMoves(Fault):
    """The only broker is killed while its replicas move between its directories."""

    between_s = (0.0, 0.3)

    def __init__(self, broker: Ottla, directories: Sequence[str], topics: Sequence[str]) -> None:
        self.broker = broker
        self.directories = directories
        self.topics = topics
        self.moves = self.moved = 0

    def prepare(self) -> None:
        """Start a move of each topic."""
        self.side = Side(self.broker)
        self.before = self._places()
        for topic in self.topics:
            (there,) = {*self.directories} - self.before[topic]
            wanted = [{"path": there, "topics": [{"name": topic, "partitions": [0]}]}]
            answer = self.side.ask("AlterReplicaLogDirs", 2, {"dirs": wanted})
            assert answer["results"][0]["partitions"][0]["error_code"] == 0
            self.moves += 1

    def strike(self) -> None:
        """Kill it."""
        self.moved += sum(each != self.before[topic] for topic, each in self._places().items())
        self.side.close()
        self.broker.kill()

    def recover(self) -> None:
        """Start the broker; the moves go on."""
        self.broker.start()

    def check(self) -> str:
        """Check each topic's only log with Kafka's tool."""
        self.broker.stop()
        for topic in self.topics:
            (log,) = [Path(each) / f"{topic}-0" for each in self.directories if (Path(each) / f"{topic}-0").exists()]
            check_log(log)
        return f"{self.moves} moves, of which {self.moved} had ended when the broker was killed"

    def _places(self) -> dict[str, set[str]]:
        """Return the directory of each topic's log, without future logs."""
        found: dict[str, set[str]] = {topic: set() for topic in self.topics}
        for result in self.side.ask("DescribeLogDirs", 4, {"topics": None})["results"]:
            for topic in result["topics"]:
                if topic["name"] in found and not all(each["is_future_key"] for each in topic["partitions"]):
                    found[topic["name"]].add(result["log_dir"])
        return found


class FullDisk(Fault):
    """The only disk of a broker fills, and the broker ends; then there is room again."""

    between_s = (0.0, 0.0)

    def __init__(self, broker: Ottla, disk: Path, topics: Sequence[str], chance: random.Random) -> None:
        self.broker = broker
        self.disk = disk
        self.topics = topics
        self.chance = chance
        self.count = 0

    def strike(self) -> None:
        """Leave so little room that the disk is full soon."""
        self.count += 1
        fill(self.disk, self.chance.randint(0, 60_000))
        assert self.broker.process.wait(PATIENCE_S) == 1, self.broker.output()[-2000:]

    def recover(self) -> None:
        """Make room, and start the broker."""
        (self.disk / "ballast").unlink()
        self.broker.start()

    def check(self) -> str:
        """Check that the broker logged the reason, and its logs with Kafka's tool."""
        self.broker.stop()
        assert "have failed" in self.broker.output() or "has failed" in self.broker.output()
        for topic in self.topics:
            check_log(self.disk / "log" / f"{topic}-0")
        return f"{self.count} full disks"


def check_log(directory: Path) -> None:
    """Check all batches of a log with Kafka's tool."""
    files = ",".join(sorted(map(str, directory.glob("*.log"))))
    printed = run_tool("org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", files)
    assert "isvalid: true" in printed
    assert "isvalid: false" not in printed
    assert "Found" not in printed, printed
