"""Clusters of three brokers of one kind, each with a folder of its own in ZooKeeper."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._metadata import ClusterMetadata

from compat_tests.support.brokers import Broker
from compat_tests.support.verifiable import Program

PATIENCE_S = 60.0
IDS = (1, 2, 3)


class ClusterOf:
    """Brokers 1, 2 and 3 of a kind; 1 is the controller."""

    def __init__(self, kind: type[Broker], data: Path, zookeeper: str, settings: Sequence[str] = ()) -> None:
        self.data = data
        self.zookeeper = zookeeper
        self.programs: dict[str, Program] = {}
        where = f"zookeeper.connect={zookeeper}"
        self.brokers: dict[int, Broker] = {}
        for broker_id in IDS:
            folder = data / str(broker_id)
            folder.mkdir(parents=True)
            self.brokers[broker_id] = kind(folder, [f"broker.id={broker_id}", where, *settings])

    @property
    def bootstrap(self) -> str:
        """Return the address of the first broker, which never ends."""
        return self.brokers[1].bootstrap

    @property
    def names(self) -> Mapping[str, str]:
        """Return values that differ between clusters, and their common names."""
        found = {self.zookeeper: "ZOOKEEPER"}
        for broker_id, broker in self.brokers.items():
            found[broker.bootstrap] = f"HOST:PORT-{broker_id}"
            found[str(broker.data)] = f"DATA-{broker_id}"
        return found

    def start(self) -> None:
        """Start all brokers, the controller first."""
        self.brokers[1].start()
        with ThreadPoolExecutor() as pool:
            list(pool.map(Broker.start, [self.brokers[each] for each in IDS[1:]]))
        self.wait_until(lambda found: set(found.brokers) == set(IDS))

    def do(self, verb: str, broker_id: int) -> None:
        """Do `stop` (by SIGTERM), `start`, `pause` (by SIGSTOP) or `resume` to a broker."""
        broker = self.brokers[broker_id]
        if verb == "stop":
            broker.stop()
            self.wait_until(lambda found: broker_id not in found.brokers)
        elif verb == "start":
            broker.start()
            self.wait_until(lambda found: broker_id in found.brokers)
        else:
            broker.process.send_signal({"pause": signal.SIGSTOP, "resume": signal.SIGCONT}[verb])

    def wait_until(self, what: Callable[[ClusterMetadata], bool]) -> None:
        """Wait until `what` is True for the controller's metadata."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        deadline = time.monotonic() + PATIENCE_S
        while not what(admin.list_topics(timeout=PATIENCE_S)):
            assert time.monotonic() < deadline, self.brokers[1].output()[-4000:]
            time.sleep(0.05)

    def end(self) -> None:
        """Kill all programs and brokers, without waiting for their shutdowns."""
        for program in self.programs.values():
            program.kill()
        for each in self.brokers.values():
            if hasattr(each, "process"):
                each.kill()


@contextlib.contextmanager
def running(clusters: Sequence[ClusterOf]) -> Iterator[None]:
    """Run clusters during the block."""
    try:
        for each in clusters:
            each.start()
        yield
    finally:
        for each in clusters:
            each.end()
