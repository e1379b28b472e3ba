"""One of two disks fills under load: its directory goes offline, and the other directory serves on."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.differential.both import Side
from compat_tests.support.brokers import Ottla
from compat_tests.support.writing import Writer, read_all
from tests.support.disks import fill, small_disk

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.timeout(1800)]

DISK_BYTES = 24 << 20
PATIENCE_S = 60.0
TOPICS = ("one", "two")
SETTINGS = ("num.partitions=1", "log.segment.bytes=1100000", "log.index.size.max.bytes=4096")
STORAGE_ERROR = 56


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Return a file system of 24 MiB."""
    with small_disk(tmp_path, DISK_BYTES) as path:
        yield path


def test_a_full_directory_goes_offline_and_the_others_serve_on(disk: Path, tmp_path: Path) -> None:
    small, large = str(disk / "log"), str(tmp_path / "large")
    broker = Ottla(tmp_path, ["broker.id=1", f"log.dirs={large},{small}", *SETTINGS])
    broker.start()
    try:
        side = Side(broker)
        for topic, path in (("well", large), ("ill", small)):
            moved = {"path": path, "topics": [{"name": topic, "partitions": [0]}]}
            side.ask("AlterReplicaLogDirs", 2, {"dirs": [moved]})
            topics = [{"name": topic, "num_partitions": 1, "replication_factor": 1}]
            side.ask("CreateTopics", 7, {"topics": topics, "timeout_ms": 10_000})
        ill, well = (Writer(broker.bootstrap, topic) for topic in ("ill", "well"))
        for writer in (ill, well):
            writer.start()
            writer.wait_for_acknowledgement()
        fill(disk, 30_000)
        wait_until(lambda: directories(side)[small] == STORAGE_ERROR)
        wait_until(lambda: leader(side, "ill") == -1)
        well.wait_for_acknowledgement()
        assert directories(side)[large] == 0
        assert leader(side, "well") == 1
        (disk / "ballast").unlink()
        broker.stop()
        broker.start()
        for writer in (ill, well):
            writer.wait_for_acknowledgement()
            writer.stopping.set()
            writer.join(120)
            there = read_all(broker.bootstrap, writer.topic)
            assert {there[offset]: offset for offset in writer.acknowledged.values()} == writer.acknowledged
            assert len(there) == len(writer.acknowledged) == writer.sent
        side.close()
    finally:
        broker.stop()


def directories(side: Side) -> dict[str, Any]:
    answer = side.ask("DescribeLogDirs", 4, {"topics": []})
    return {each["log_dir"]: each["error_code"] for each in answer["results"]}


def leader(side: Side, topic: str) -> int:
    wanted = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
    (found,) = side.ask("Metadata", 7, wanted)["topics"]
    return int(found["partitions"][0]["leader_id"])


def wait_until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)
