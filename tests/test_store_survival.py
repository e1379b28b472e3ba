"""The embedded store's disk fails, or its files are lost: the broker says so, and all else stays as it was."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from compat_tests.both import CLOSED, Side
from compat_tests.brokers import Ottla
from tests.disks import disk, fill, small_disk

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PATIENCE_S = 60.0
PRODUCER = {"transactional_id": None, "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
# No other file is written meanwhile.
SETTINGS = ("num.partitions=1", "replica.high.watermark.checkpoint.interval.ms=3600000")


class Fault(NamedTuple):
    """A file system, and what makes its writes fail and succeed again."""

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
            assert create(side, "before") == 0
            failing.begin()
            # It writes nothing but metadata.
            assert side.ask("InitProducerId", 4, PRODUCER) == CLOSED
            assert broker.process.wait(PATIENCE_S) == 1
            lines = broker.output().splitlines()
            told = "ottla-metadata.db cannot be written: "
            assert len([line for line in lines if told in line and "ERROR" in line]) == 1
            assert lines[-1].startswith("ottla: Shutdown broker because ")
            assert told in lines[-1]
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


def test_a_broker_that_cannot_write_its_metadata_at_its_start_says_why_in_one_line(tmp_path: Path) -> None:
    with full(tmp_path) as failing:
        broker = Ottla(tmp_path, [f"log.dirs={failing.path / 'log'},{tmp_path / 'other'}", *SETTINGS])
        broker.start()
        broker.kill()
        said = len(broker.output())
        failing.begin()
        with pytest.raises(RuntimeError, match="did not start"):
            broker.start()
        assert "Traceback" not in broker.output()[said:]
        assert broker.output().splitlines()[-1].startswith("ottla: ")
