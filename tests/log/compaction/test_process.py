"""The process that cleans logs: its pipes, its pace and its end."""

import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.log.compaction.cleaner import CleanedGroup, CleaningJob, CleaningStats, CorruptLogError
from ottla.log.compaction.compaction import CleanerLimits, cleaning_job
from ottla.log.compaction.process import Outcome, decode_job, decode_outcome, encode_job
from ottla.log.log import PartitionLog
from tests.log.building import NOW_MS, append, open_log
from tests.log.compaction.compacting import dirt_of, keyed

FULL_SPEED = 1e308
PATIENCE_S = 120


@pytest.fixture
def log(tmp_path: Path) -> Iterator[PartitionLog]:
    """Some 100,000 bytes in three segments."""
    log = open_log(tmp_path / "log", segment_bytes=40_000)
    for number in range(100):
        append(log, keyed((b"%d" % (number % 7), bytes(1000)), producer_id=number % 3, sequence=number // 3))
    log.roll(NOW_MS)
    yield log
    log.release()


def job_of(log: PartitionLog) -> CleaningJob:
    return cleaning_job(log, dirt_of(log), log.segments[:-1], CleanerLimits(1000, 1 << 16), NOW_MS)


class Child:
    def __init__(self) -> None:
        command = [sys.executable, "-P", "-m", "ottla.log.compaction.process"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def begin(self, job: CleaningJob, bytes_per_second: float = FULL_SPEED) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(encode_job(job, bytes_per_second))
        self.process.stdin.flush()

    def outcome(self) -> Outcome:
        assert self.process.stdout is not None
        return decode_outcome(self.process.stdout.readline())

    def close_input(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE_S)


def test_a_job_goes_through_a_pipe(log: PartitionLog) -> None:
    job = job_of(log)
    assert decode_job(encode_job(job, 12.5).decode()) == (job, 12.5)
    assert job.producers == {0: (99, 0), 1: (97, 0), 2: (98, 0)}


def test_an_outcome_goes_through_a_pipe() -> None:
    assert decode_outcome(b'["group",[5,3]]') == CleanedGroup(5, 3)
    stats = CleaningStats(9, 8, 7.5, 0.5, 6, 5, 4, 3, 2, 1.5)
    assert decode_outcome(json.dumps(["done", stats]).encode()) == stats
    with pytest.raises(CorruptLogError, match="why"):
        decode_outcome(b'["corrupt",["why"]]')
    with pytest.raises(OSError, match="full") as failed:
        decode_outcome(b'["failed",[28,"full"]]')
    assert failed.value.errno == errno.ENOSPC


@pytest.mark.slow
def test_jobs_run_one_after_the_other_at_the_lowest_priority(log: PartitionLog, tmp_path: Path) -> None:
    with Child() as child:
        for _ in range(2):
            child.begin(job_of(log))
            groups = []
            while isinstance(outcome := child.outcome(), CleanedGroup):
                groups.append(outcome)
            assert [group.segment_count for group in groups] == [1] * (len(log.segments) - 1)
            assert (outcome.end_offset, outcome.messages_read, outcome.messages_written) == (100, 100, 7)
            assert all((log.directory / f"{group.base_offset:020d}.log.cleaned").exists() for group in groups)
        assert os.getpriority(os.PRIO_PROCESS, child.process.pid) == 19
        child.begin(job_of(log)._replace(directory=str(tmp_path / "gone")))
        with pytest.raises(OSError, match="No such file"):
            child.outcome()
        path = Path(log.segments[0].file.path)
        path.write_bytes(path.read_bytes()[:-1] + b"x")
        child.begin(job_of(log))
        with pytest.raises(CorruptLogError):
            child.outcome()
        assert not list(log.directory.glob("*.cleaned"))
        assert child.close_input() == 0


@pytest.mark.slow
def test_the_process_keeps_to_its_bytes_per_second(log: PartitionLog) -> None:
    with Child() as child:
        child.begin(job_of(log))
        while not isinstance(stats := child.outcome(), CleaningStats):
            pass
        moved = stats.map_bytes_read + stats.bytes_read + stats.bytes_written
        began = time.monotonic()
        child.begin(job_of(log), moved / 1.5)
        while not isinstance(child.outcome(), CleaningStats):
            pass
        assert time.monotonic() - began > 1.0


@pytest.mark.slow
def test_the_process_ends_with_its_broker_and_leaves_no_files(log: PartitionLog) -> None:
    with Child() as child:
        child.begin(job_of(log), 60_000)
        assert isinstance(child.outcome(), CleanedGroup)
        assert list(log.directory.glob("*.cleaned"))
        assert child.close_input() == 0
        assert child.process.stdout is not None
        assert b"done" not in child.process.stdout.read()
        assert not list(log.directory.glob("*.cleaned"))
