"""What happens to brokers while clients work."""

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
"""How many of a cluster's brokers are killed; the others are stopped."""


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
        """There is nothing more to look at."""
        self.broker.stop()
        return f"{self.kills} kills"


class EndedInTurn(Fault):
    """The brokers of a cluster end, mostly the leader of a topic, and mostly they are killed."""

    between_s = (0.05, 0.5)

    def __init__(self, cluster: Cluster, topics: Sequence[str], chance: random.Random) -> None:
        self.cluster = cluster
        self.topics = topics
        self.chance = chance
        self.victim = cluster.brokers[0]
        self.ends = self.kills = 0

    def choose(self) -> int:
        """The broker that ends next."""
        found = self.cluster.wait_for(self.topics[0], lambda it: it.leader in IDS and len(it.isrs) == len(IDS))
        return found.leader if self.chance.random() < OFTEN_KILLED else self.chance.choice(IDS)

    def prepare(self) -> None:
        """Wait until the last one is back, and choose another."""
        self.settle()
        self.victim = self.cluster.brokers[self.choose()]

    def strike(self) -> None:
        """End it; the first one is killed in any case."""
        is_kill = not self.ends or self.chance.random() < OFTEN_KILLED
        self.ends += 1
        self.kills += is_kill
        (self.victim.kill if is_kill else self.victim.stop)()

    def mend(self) -> None:
        """The work has gone on without it."""
        self.victim.start()

    def settle(self) -> None:
        """All are in sync."""
        for topic in self.topics:
            self.cluster.wait_until_in_sync(topic)

    def check(self) -> str:
        """All brokers have the same."""
        for each in self.cluster.brokers:
            each.stop()
        first, *rest = self.cluster.logs(self.topics[0])
        assert first
        assert rest == [first] * len(rest)
        return f"{self.ends} brokers ended, {self.kills} of them killed"


class CoordinatorsEnd(EndedInTurn):
    """Those brokers of a cluster end that coordinate groups."""

    between_s = (0.0, 0.5)

    def __init__(self, cluster: Cluster, work: Work, chance: random.Random) -> None:
        super().__init__(cluster, (TOPIC, "__consumer_offsets"), chance)
        self.work = work

    def choose(self) -> int:
        """The coordinator of either group."""
        found = self.work.coordinator(self.chance.choice(list(GROUPS)))
        assert isinstance(found, Coordinator)
        return found.broker_id


class LeaderStandsStill(EndedInTurn):
    """The leader is stopped where it stands, for two session timeouts: another one leads, and it comes back."""

    def choose(self) -> int:
        """The leader."""
        return self.cluster.wait_for(self.topics[0], lambda it: len(it.isrs) == len(IDS)).leader

    def prepare(self) -> None:
        """Remember who leads."""
        self.leader = self.choose()
        self.victim = self.cluster.brokers[self.leader]

    def strike(self) -> None:
        """A process that stands still is told of nothing: what is waited for is the time after which it is replaced."""
        self.ends += 1
        os.kill(self.victim.pid, signal.SIGSTOP)
        time.sleep(2 * SESSION_TIMEOUT_MS / 1000)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Let none stand still behind the block, however it ends."""
        try:
            yield
        finally:
            with suppress(BrokerError):
                os.kill(self.victim.pid, signal.SIGCONT)

    def mend(self) -> None:
        """It goes on where it stood, and follows."""
        os.kill(self.victim.pid, signal.SIGCONT)
        self.cluster.wait_for(self.topics[0], lambda it: it.leader != self.leader and len(it.isrs) == len(IDS))

    def check(self) -> str:
        """As after any end."""
        super().check()
        return f"{self.ends} leaders stood still"


class KilledAmidMoves(Fault):
    """The only broker is killed while its replicas move from one directory to the other."""

    between_s = (0.0, 0.3)

    def __init__(self, broker: Ottla, directories: Sequence[str], topics: Sequence[str]) -> None:
        self.broker = broker
        self.directories = directories
        self.topics = topics
        self.moves = self.moved = 0

    def prepare(self) -> None:
        """Have each topic move."""
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
        """Start it: the moves go on."""
        self.broker.start()

    def check(self) -> str:
        """Kafka's tool finds nothing wrong with the one log that there is of each topic."""
        self.broker.stop()
        for topic in self.topics:
            (log,) = [Path(each) / f"{topic}-0" for each in self.directories if (Path(each) / f"{topic}-0").exists()]
            check_log(log)
        return f"{self.moves} moves, of which {self.moved} had ended when the broker was killed"

    def _places(self) -> dict[str, set[str]]:
        """In which directory each topic's log is, of those that are no future logs."""
        found: dict[str, set[str]] = {topic: set() for topic in self.topics}
        for result in self.side.ask("DescribeLogDirs", 4, {"topics": None})["results"]:
            for topic in result["topics"]:
                if topic["name"] in found and not all(each["is_future_key"] for each in topic["partitions"]):
                    found[topic["name"]].add(result["log_dir"])
        return found


class FullDisk(Fault):
    """The only disk of a broker is full, and the broker ends; then there is room again."""

    between_s = (0.0, 0.0)

    def __init__(self, broker: Ottla, disk: Path, topics: Sequence[str], chance: random.Random) -> None:
        self.broker = broker
        self.disk = disk
        self.topics = topics
        self.chance = chance
        self.count = 0

    def strike(self) -> None:
        """Leave so little room that it is gone soon."""
        self.count += 1
        fill(self.disk, self.chance.randint(0, 60_000))
        assert self.broker.process.wait(PATIENCE_S) == 1, self.broker.output()[-2000:]

    def recover(self) -> None:
        """Make room, and start it."""
        (self.disk / "ballast").unlink()
        self.broker.start()

    def check(self) -> str:
        """It said why, and Kafka's tool finds nothing wrong with its logs."""
        self.broker.stop()
        assert "have failed" in self.broker.output() or "has failed" in self.broker.output()
        for topic in self.topics:
            check_log(self.disk / "log" / f"{topic}-0")
        return f"{self.count} full disks"


def check_log(directory: Path) -> None:
    """Have Kafka's tool look at all batches of a log."""
    files = ",".join(sorted(map(str, directory.glob("*.log"))))
    printed = run_tool("org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", files)
    assert "isvalid: true" in printed
    assert "isvalid: false" not in printed
    assert "Found" not in printed, printed
