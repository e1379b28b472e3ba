"""Ottla and Apache Kafka continue each other's log directories, and metadata is converted between all its forms."""

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from compat_tests.support.brokers import ApacheKafka, Broker, Ottla, QuickKafka
from compat_tests.support.history import HASTY, History, observed
from compat_tests.support.zookeeper import ZooKeeper, running

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.timeout(600)]
PATIENCE_S = 60.0
SETTINGS = ("broker.id=1", "offsets.topic.replication.factor=1", "zookeeper.session.timeout.ms=3000", *HASTY)


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[ZooKeeper]:
    """Yield a server with short sessions."""
    with running(tmp_path / "zookeeper", ["tickTime=200"]) as server:
        yield server


class Place:
    """A log directory that one broker after the other uses."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.broker: Broker | None = None

    def open(self, kind: type[Broker], *settings: str) -> Broker:
        """Start a broker on the directory."""
        self.broker = kind(self.folder, [*SETTINGS, *settings])
        self.broker.start()
        return self.broker

    def end(self, how: str, zookeeper: ZooKeeper | None = None) -> None:
        """Stop or kill the broker, and wait until its session in ZooKeeper has ended."""
        if self.broker is not None:
            broker, self.broker = self.broker, None
            getattr(broker, how)()
            if zookeeper is not None:
                wait_until_gone(zookeeper)


def transaction_indexes(place: Place) -> dict[Path, bytes]:
    """Return the transaction indexes with their bytes."""
    return {path: path.read_bytes() for path in (place.folder / "log").glob("*/*.txnindex") if path.stat().st_size}


def wait_until_gone(zookeeper: ZooKeeper) -> None:
    """Wait until no broker is registered."""
    client = KazooClient(zookeeper.connect)
    client.start()
    try:
        deadline = time.monotonic() + PATIENCE_S
        while client.get_children("/brokers/ids"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        client.stop()
        client.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Yield a directory, and stop its broker at the end."""
    place = Place(tmp_path)
    with contextlib.closing(contextlib.ExitStack()) as stack:
        stack.callback(place.end, "kill")
        yield place


def ottla_metadata(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run `ottla metadata`."""
    command = [sys.executable, "-P", "-m", "ottla", "metadata", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def moved(*arguments: object) -> str:
    """Return the output of `ottla metadata`, which must succeed."""
    done = ottla_metadata(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def without_configs(found: dict[str, Any]) -> dict[str, Any]:
    """Leave out metadata that a log directory of ZooKeeper mode does not have."""
    return {key: value for key, value in found.items() if key != "configs"}


@pytest.mark.parametrize(
    ("first", "second", "end"),
    [(QuickKafka, Ottla, "kill"), (Ottla, QuickKafka, "stop")],
)
def test_each_goes_on_in_the_directory_of_the_other(
    place: Place, zookeeper: ZooKeeper, first: type[Broker], second: type[Broker], end: str
) -> None:
    history, connect = History(), f"zookeeper.connect={zookeeper.connect}"
    broker = place.open(first, connect)
    history.fill(broker)
    if first is QuickKafka:
        history.fill_kafka(broker)
    expected = observed(broker)
    for kind in (second, first):
        place.end(end, zookeeper)
        aborted = transaction_indexes(place)
        assert bool(aborted) == (first is QuickKafka)
        broker = place.open(kind, connect)
        assert observed(broker) == expected
        # After a crash they are created anew.
        assert transaction_indexes(place) == aborted
        history.go_on(broker)
        expected = observed(broker)


def test_a_directory_of_kafka_moves_to_ottla_alone_and_back(place: Place, zookeeper: ZooKeeper, tmp_path: Path) -> None:
    history, log = History(), tmp_path / "log"
    broker = place.open(QuickKafka, f"zookeeper.connect={zookeeper.connect}")
    history.fill(broker)
    history.fill_kafka(broker)
    expected = observed(broker)
    place.end("stop")
    own = ("--override", f"log.dirs={log}")
    assert "topics new" in moved("import", log, *own)
    assert " 0 topics new, 0 changed" in moved("import", log, *own)
    broker = place.open(Ottla)
    assert without_configs(observed(broker)) == without_configs(expected)
    history.go_on(broker)
    expected = observed(broker)
    assert "in use" in ottla_metadata("export", tmp_path / "metadata.json", *own).stderr
    place.end("kill")
    moved("export", tmp_path / "metadata.json", *own)
    moved("import", tmp_path / "metadata.json", "--zookeeper", f"{zookeeper.connect}/other")
    broker = place.open(QuickKafka, f"zookeeper.connect={zookeeper.connect}/other")
    assert observed(broker) == expected
    history.go_on(broker)


def test_a_directory_of_kraft_moves_to_ottla(place: Place, tmp_path: Path) -> None:
    history, log = History(), tmp_path / "log"
    broker = place.open(ApacheKafka, "metadata.log.max.record.bytes.between.snapshots=2000")
    history.fill(broker)
    history.fill_kafka(broker)
    expected = observed(broker)
    place.end("kill")
    assert list((log / "__cluster_metadata-0").glob("*.checkpoint")), "there is no snapshot to read"
    copy = tmp_path / "copy"
    shutil.copytree(log, copy)
    own = ("--override", f"log.dirs={log}")
    assert "topics new" in moved("import", log, *own)
    assert " 0 topics new, 0 changed" in moved("import", log, *own)
    # A future directory without a current one stays as it was.
    elsewhere = ("--override", f"log.dirs={tmp_path / 'elsewhere'}")
    moved("import", copy, *elsewhere)
    assert "version=1" in (copy / "meta.properties").read_text()
    broker = place.open(Ottla)
    assert observed(broker) == expected
    history.go_on(broker)
