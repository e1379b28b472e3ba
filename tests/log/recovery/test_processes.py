"""Recovery of logs in other processes while a broker starts."""

import logging
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.log.manager import LogManager
from ottla.log.recovery import processes as recovery_process
from ottla.log.recovery.processes import RecoveryJob, recover_in_processes
from ottla.wire.records.batch import ProducedBatch
from ottla.wire.types import TopicPartition
from tests.log.building import NOW_MS, append, checked, open_log, produced, values_from

RATE = 100 << 20
"""The least bytes a second that recovery scans on a busy machine: a GiB in ten seconds."""


def _crashed(directory: Path, batches: int = 50, torn: int = 0) -> None:
    log = open_log(directory, segment_bytes=2000, index_interval_bytes=100)
    for number in range(batches):
        append(log, produced(2, value=b"%d" % number, producer_id=3, sequence=2 * number), epoch=number // 20)
    log.release()
    path = max(directory.glob("*.log"))
    os.truncate(path, path.stat().st_size - torn)


def _job(directory: Path, recovery_point: int = 0) -> RecoveryJob:
    return RecoveryJob(str(directory), NOW_MS, 0, recovery_point, 86_400_000, 100, 10 << 20, ["delete"], False)


def _files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes().rstrip(b"\0") for path in directory.iterdir()}


def test_an_interrupt_on_the_brokers_terminal_does_not_reach_recovery_processes(tmp_path: Path) -> None:
    _crashed(tmp_path / "orders-0")
    groups: list[tuple[int, int]] = []

    def children() -> list[int]:
        return list(map(int, Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()))

    # Brokers of other tests may still run.
    others = children()

    def look(recovered: Path) -> None:
        groups.extend((each, os.getpgid(each)) for each in children() if each not in others)

    recover_in_processes([_job(tmp_path / "orders-0")], 1, look)
    assert groups
    assert all(group == process for process, group in groups)


def test_recovery_processes_leave_the_files_of_a_recovery_in_the_broker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    names = [f"orders-{number}" for number in range(5)]
    for where in ("here", "there"):
        (tmp_path / where).mkdir()
        for number, name in enumerate(names):
            _crashed(tmp_path / where / name, torn=number)
    caplog.clear()
    jobs = [_job(tmp_path / "there" / name) for name in names]
    recovered: list[Path] = []
    recover_in_processes(jobs, 2, recovered.append)
    assert sorted(recovered) == [Path(job.directory) for job in jobs]
    told = [record.getMessage() for record in caplog.records]
    assert sum("Recovering unflushed segment" in each for each in told) > len(names)
    assert sum("Cut " in each for each in told) == len(names) - 1
    for name in names:
        log = open_log(tmp_path / "here" / name, clean=False, index_interval_bytes=100)
        log.close()
        assert _files(tmp_path / "here" / name) == _files(tmp_path / "there" / name)


def test_the_broker_recovers_a_log_whose_process_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _crashed(tmp_path / "good-0")
    jobs = [_job(tmp_path / "missing-0"), _job(tmp_path / "good-0")]
    recovered: list[Path] = []
    recover_in_processes(jobs, 2, recovered.append)
    assert recovered == [tmp_path / "good-0"]
    assert f"The process that recovers {tmp_path / 'missing-0'} has ended" in caplog.text


def _loaded(directories: Sequence[Path], processes: int) -> LogManager:
    manager = LogManager(directories, broker_id=1, cluster_id="c")
    manager.load(NOW_MS, processes)
    return manager


@pytest.mark.parametrize("processes", [1, 2])
def test_a_start_after_a_crash_uses_recovery_processes_and_takes_nothing_as_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, processes: int
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(recovery_process, "WORTH_A_PROCESS", 1)
    directory = tmp_path / "data"
    directory.mkdir()
    for number in range(3):
        _crashed(directory / f"orders-{number}", torn=1)
    manager = _loaded([directory], processes)
    assert ("Recovering 3 logs in 2 processes" in caplog.messages) is (processes == 2)
    assert "Rebuilding" not in caplog.text
    for number in range(3):
        log = manager.logs[TopicPartition("orders", number)]
        assert (log.log_end_offset, log.recovery_point) == (98, 0)
        assert log.producers.entries[3].last_sequence == 97
        assert values_from(checked(log)) == [b"%d" % (each // 2) for each in range(98)]
    manager.shutdown()
    caplog.clear()
    _loaded([directory], processes).shutdown()
    assert "processes" not in caplog.text


@pytest.mark.slow
@pytest.mark.measured
def test_a_gibibyte_of_unflushed_log_is_recovered_within_ten_seconds(tmp_path: Path) -> None:
    """A quarter of a GiB, in batches of 16 KB."""
    batch = produced(16, value=bytes(1000))
    size = 256 << 20
    for partition in range(2):
        log = open_log(tmp_path / f"orders-{partition}", segment_bytes=1 << 26)
        while log.size < size // 2:
            append(log, ProducedBatch(batch.header, memoryview(bytearray(batch.data)), batch.max_timestamp))
        log.release()
    began = time.perf_counter()
    manager = _loaded([tmp_path], 2)
    took = time.perf_counter() - began
    manager.abandon()
    assert took < size / RATE, f"{size / took / 1e6:.0f} MB/s"
