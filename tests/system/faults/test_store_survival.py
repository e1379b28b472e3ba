"""The disk of the embedded store fails, or its files are lost: the broker reports it, and all else stays."""

import resource
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from compat_tests.differential.both import CLOSED, Side
from compat_tests.support.brokers import Ottla
from compat_tests.support.writing import read_all
from ottla import Cluster
from ottla.embedded.broker import BrokerError
from tests.ottla.embedded.test_broker import ends
from tests.support.disks import disk, fill, small_disk

STORE = "ottla-metadata.db"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PATIENCE_S = 60.0
PRODUCER = {"transactional_id": None, "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
# The broker writes no other file meanwhile.
SETTINGS = ("num.partitions=1", "replica.high.watermark.checkpoint.interval.ms=3600000")


class Fault(NamedTuple):
    """A file system, with functions that make its writes fail and succeed."""

    path: Path
    begin: Callable[[], object]
    end: Callable[[], object]


@contextmanager
def full(folder: Path) -> Iterator[Fault]:
    with small_disk(folder, 4 << 20) as path:
        yield Fault(path, lambda: fill(path, 0), lambda: (path / "ballast").unlink())


@contextmanager
def broken(folder: Path) -> Iterator[Fault]:
    with disk(folder, 32) as made:
        yield Fault(made.path, made.cut_power, made.power_on)


def create(side: Side, topic: str) -> int:
    topics = [{"name": topic, "num_partitions": 1, "replication_factor": 1}]
    answer = side.ask("CreateTopics", 7, {"topics": topics, "timeout_ms": 10_000})
    return int(answer["topics"][0]["error_code"])


@pytest.mark.parametrize("fault", [full, broken])
def test_a_broker_that_cannot_write_its_metadata_ends_at_once_and_goes_on_when_it_can(
    fault: Callable[[Path], AbstractContextManager[Fault]], tmp_path: Path
) -> None:
    with fault(tmp_path) as failing:
        broker = Ottla(tmp_path, [f"log.dirs={failing.path / 'log'},{tmp_path / 'other'}", *SETTINGS])
        broker.start()
        try:
            side = Side(broker)
            moved = {"path": str(tmp_path / "other"), "topics": [{"name": "before", "partitions": [0]}]}
            side.ask("AlterReplicaLogDirs", 2, {"dirs": [moved]})
            assert create(side, "before") == 0
            failing.begin()
            # The disk holds only metadata.
            assert side.ask("InitProducerId", 4, PRODUCER) == CLOSED
            assert broker.process.wait(PATIENCE_S) == 1
            lines = broker.output().splitlines()
            told = f"{failing.path / 'log' / STORE} cannot be written: "
            assert len([line for line in lines if told in line and "ERROR" in line]) == 1
            assert lines[-1] == f"ottla: Shutdown broker because the metadata log dir {failing.path / 'log'} has failed"
            assert "Traceback" not in broker.output()
            failing.end()
            broker.start()
            side = Side(broker)
            assert side.ask("InitProducerId", 4, PRODUCER)["error_code"] == 0
            assert create(side, "before") == 36
            assert create(side, "after") == 0
            side.close()
        finally:
            broker.stop()


def test_a_cluster_in_one_process_ends_when_its_store_cannot_be_written() -> None:
    cluster = Cluster(1)
    with cluster:
        # Room for a few log lines, but not for the znodes of many partitions.
        limit = len(cluster.output) + (16 << 10)
        resource.prlimit(cluster.pid, resource.RLIMIT_FSIZE, (limit, limit))
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("large", 500, 1)])
        assert ends(cluster.pid)
        output, folder = cluster.output, cluster.folder
        with pytest.raises(BrokerError, match="the broker ended with 1"):
            cluster.close()
    assert f"{folder / 'metadata.db'} cannot be written: " in output
    assert output.splitlines()[-1] == f"ottla: Shutdown broker because the metadata log dir {folder} has failed"
    assert "Traceback" not in output


# Lost files of the store


def write(broker: Ottla, topic: str, *values: bytes) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def directories(log: Path, topic: str) -> list[str]:
    return sorted(path.name.partition(".")[0] for path in log.glob(f"{topic}-*"))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Ottla]:
    broker = Ottla(tmp_path, ["num.partitions=2"])
    broker.start()
    yield broker
    broker.stop()


def imported(broker: Ottla, log: Path) -> str:
    arguments = ("metadata", "import", str(log), "--override", f"log.dirs={log}")
    command = [sys.executable, "-P", "-m", "ottla", *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=broker.data).stdout


def topics_in(database_file: bytes, folder: Path) -> set[str]:
    """Return the topics with leaders in a copy of the database file without its -wal."""
    (folder / STORE).write_bytes(database_file)
    with closing(sqlite3.connect(folder / STORE)) as database, suppress(sqlite3.DatabaseError):
        found = database.execute("SELECT path FROM znodes WHERE path LIKE '/brokers/topics/%/partitions/1/state'")
        return {path.split("/")[3] for (path,) in found}
    # The copy was made during a write, or before the first write.
    return set()


def test_a_broker_whose_store_is_lost_names_the_logs_and_an_import_brings_their_topics_back(
    broker: Ottla, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    write(broker, "kept", b"1")
    write(broker, "taken", b"old")
    # After a while the database file holds all topics.
    (copies := tmp_path / "copies").mkdir()
    wait_until(lambda: topics_in((log / STORE).read_bytes(), copies) == {"kept", "taken"})
    broker.kill()
    (log / f"{STORE}-wal").unlink()
    broker.start()
    assert "is stray" not in broker.output()
    write(broker, "kept", b"2")
    broker.kill()
    for path in log.glob(f"{STORE}*"):
        path.unlink()
    broker.start()
    lines = broker.output().splitlines()
    for name in ("kept-0", "kept-1", "taken-0", "taken-1"):
        (line,) = (each for each in lines if f"Log {log / name} is stray" in each)
        assert "WARN" in line
        assert f"ottla metadata import {log} --override log.dirs={log}" in line
    # A new topic has the same name; the old records are set aside.
    write(broker, "taken", b"new")
    assert read_all(broker.bootstrap, "taken") == {0: b"new"}
    assert len(list(log.glob("taken-[01].*-stray"))) == 2
    assert directories(log, "kept") == ["kept-0", "kept-1"]
    with closing(Side(broker)) as side:
        deleted = side.ask("DeleteTopics", 3, {"topic_names": ["taken"], "timeout_ms": 10_000})
    assert deleted["responses"][0]["error_code"] == 0
    broker.stop()
    assert "1 topics new" in imported(broker, log)
    for stray in log.glob("taken-*-stray"):
        stray.rename(log / stray.name.partition(".")[0])
    assert "1 topics new" in imported(broker, log)
    broker.start()
    assert read_all(broker.bootstrap, "kept") == {0: b"1", 1: b"2"}
    assert read_all(broker.bootstrap, "taken") == {0: b"old"}
    assert broker.output().count("is stray") == 4


def wait_until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)
