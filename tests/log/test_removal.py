"""Old segments are removed: from the log at once, from the disk step by step, with a crash after any step."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.log.log import PartitionLog
from ottla.log.removal import delete_old_segments, remove_files, sync_directories
from ottla.wire.errors import ErrorCode, KafkaError
from tests.log.building import NOW_MS, append, content, open_log, produced, records_from, values_from

pytestmark = pytest.mark.once

DAY_MS = 86_400_000
# Of a batch with one digit.
SIZE = len(produced(value=b"0").data)


def fill(log: PartitionLog, count: int, *, age_ms: int = 0, producer_id: int = -1) -> None:
    """Append batches of one record, with its offset as value, each to a segment of its own."""
    for sequence in range(count):
        append(
            log,
            produced(
                value=b"%d" % log.log_end_offset,
                timestamp=NOW_MS - age_ms,
                producer_id=producer_id,
                sequence=sequence,
            ),
        )


def delete(log: PartitionLog, high_watermark: int | None = None) -> list[str]:
    return delete_old_segments(log, log.log_end_offset if high_watermark is None else high_watermark, NOW_MS)


def names(directory: Path, suffix: str) -> list[str]:
    return sorted(path.name.removesuffix(suffix) for path in directory.iterdir() if path.name.endswith(suffix))


def files_of(*offsets: int, kinds: str = "index log timeindex") -> list[str]:
    return [f"{offset:020d}.{kind}" for offset in offsets for kind in kinds.split()]


def test_old_segments_are_renamed_at_once_and_removed_after_the_delay(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=SIZE + 1, retention_ms=DAY_MS)
    fill(log, 2, age_ms=DAY_MS + 1)
    fill(log, 2)
    removed = delete(log)
    assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (2, 4, 2)
    assert values_from(log, 2) == [b"2", b"3"]
    assert names(tmp_path, ".log") == names(tmp_path, ".index") == [f"{offset:020d}" for offset in (2, 3)]
    assert names(tmp_path, ".deleted") == files_of(0) + files_of(1, kinds="index log snapshot timeindex")
    assert sorted(removed) == sorted(str(path) for path in tmp_path.glob("*.deleted"))
    remove_files(removed)
    assert names(tmp_path, ".deleted") == []
    remove_files(removed)
    assert delete(log) == []
    log.close()


def test_a_fetch_below_the_log_start_is_offset_out_of_range(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=SIZE, retention_bytes=SIZE)
    fill(log, 4)
    assert values_from(log) == [b"0", b"1", b"2", b"3"]
    delete(log)
    with pytest.raises(KafkaError) as refused:
        log.read(log.log_start_offset - 1, 100, log.log_end_offset, True)
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    log.close()


def test_a_region_of_a_deleted_segment_stays_readable(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=SIZE + 1, retention_bytes=0)
    fill(log, 2)
    region = log.read(0, 100, 2, True, may_copy=False)
    expected = content(region)
    remove_files(delete(log))
    assert names(tmp_path, ".deleted") == []
    assert content(region) == expected != b""
    log.close()


def test_a_log_of_old_segments_only_goes_on_behind_its_last_record(tmp_path: Path) -> None:
    log = open_log(tmp_path, retention_ms=DAY_MS)
    fill(log, 3, age_ms=DAY_MS + 1, producer_id=7)
    delete(log)
    assert (log.log_start_offset, log.log_end_offset, log.size) == (3, 3, 0)
    assert names(tmp_path, ".log") == [f"{3:020d}"]
    assert delete(log) == []
    fill(log, 1)
    assert values_from(log, 3) == [b"3"]
    again = produced(value=b"2", timestamp=NOW_MS, producer_id=7, sequence=2)
    assert append(log, again).is_duplicate
    log.close()
    log = open_log(tmp_path)
    assert (log.log_start_offset, values_from(log, 3)) == (3, [b"3"])
    log.close()


def test_the_epochs_of_deleted_records_are_forgotten(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=SIZE, retention_bytes=2 * SIZE)
    for epoch in range(4):
        append(log, produced(value=b"v"), epoch=epoch)
    delete(log)
    entries = [tuple(entry) for entry in log.leader_epochs.entries]
    assert entries == [(2, 2), (3, 3)]
    log.close()


def test_transaction_indexes_are_removed_too(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=SIZE, retention_bytes=SIZE)
    fill(log, 2)
    (tmp_path / f"{0:020d}.txnindex").touch()
    delete(log)
    assert names(tmp_path, ".deleted") == files_of(0, kinds="index log timeindex txnindex")
    log.close()


def test_many_old_segments_are_deleted_a_few_at_a_time(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=SIZE + 1, retention_ms=0)
    fill(log, 25, age_ms=1)
    starts = []
    while delete(log):
        starts.append(log.log_start_offset)
    assert starts == [10, 20, 25]
    log.close()


def test_a_failing_disk_is_reported_and_leaves_a_log_that_a_start_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path, segment_bytes=SIZE, retention_bytes=SIZE)
    fill(log, 4)
    with steps(monkeypatch, Steps(fails_from=5)), pytest.raises(KafkaError) as refused:
        delete(log)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    log.release()
    log = open_log(tmp_path)
    assert log.log_start_offset == 2
    assert values_from(log, 2) == [b"2", b"3"]
    log.close()


def test_directories_are_synced_unless_they_are_missing(tmp_path: Path) -> None:
    sync_directories([tmp_path, tmp_path / "gone"])


class Steps:
    """Counts renames, and calls a function after each."""

    def __init__(self, fails_from: int = 1 << 30) -> None:
        self.count = 0
        self.fails_from = fails_from

    def behind(self) -> None:
        self.count += 1


@contextmanager
def steps(monkeypatch: pytest.MonkeyPatch, seen: Steps) -> Iterator[Steps]:
    rename = os.rename

    def watched(old: Any, new: Any) -> None:
        if seen.count >= seen.fails_from:
            raise OSError("Input/output error")
        rename(old, new)
        seen.behind()

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", watched)
        yield seen


class Crashes(Steps):
    """Copies the directory after each step."""

    def __init__(self, directory: Path, copies: Path) -> None:
        super().__init__()
        self._directory = directory
        self._copies = copies

    def behind(self) -> None:
        super().behind()
        shutil.copytree(self._directory, self._copies / str(self.count))


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("keeps", [0, 1, 3])
def test_a_crash_after_any_step_leaves_a_log_without_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeps: int, clean: bool
) -> None:
    directory, copies = tmp_path / "log", tmp_path / "copies"
    log = open_log(directory, segment_bytes=SIZE, retention_bytes=SIZE * keeps)
    for epoch in range(6):
        append(log, produced(value=b"%d" % epoch, producer_id=epoch), epoch=epoch)
    log.flush()
    before = log.log_start_offset
    with steps(monkeypatch, Crashes(directory, copies)) as seen:
        delete(log)
    after = log.log_start_offset
    assert (before, after) == (0, 6 - keeps)
    assert seen.count >= 3 * (6 - keeps)
    log.release()
    starts = []
    for step in range(1, seen.count + 1):
        crashed = open_log(copies / str(step), clean=clean, recovery_point=log.recovery_point)
        start = crashed.log_start_offset
        starts.append(start)
        assert crashed.log_end_offset == 6
        assert [record.offset for record in records_from(crashed, start)] == list(range(start, 6))
        assert [entry.start_offset for entry in crashed.leader_epochs.entries] == (list(range(start, 6)) or [6])
        assert names(copies / str(step), ".deleted") == []
        crashed.release()
    assert starts == sorted(starts)
    assert starts[0] == 1, "the log file goes first"
    assert starts[-1] == after


@given(
    sizes=st.lists(st.integers(0, 60), min_size=1, max_size=30),
    keeps=st.integers(0, 1500),
    cut=st.integers(0, 30),
    clean=st.booleans(),
)
def test_any_deletion_leaves_the_end_of_the_log(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], keeps: int, cut: int, clean: bool
) -> None:
    directory = tmp_path_factory.mktemp("log")
    log = open_log(directory, segment_bytes=300, retention_bytes=keeps, segment_index_bytes=240)
    for sequence, size in enumerate(sizes):
        append(log, produced(value=bytes(size), producer_id=1, sequence=sequence))
    end = len(sizes)
    high_watermark = min(cut, end)
    expected = values_from(log)
    while delete(log, high_watermark):
        pass
    start = log.log_start_offset
    assert start <= high_watermark
    assert start == 0 or log.size >= keeps
    assert values_from(log, start) == expected[start:]
    log.close() if clean else log.release()
    log = open_log(directory, clean=clean, recovery_point=log.recovery_point, segment_index_bytes=240)
    assert (log.log_start_offset, log.log_end_offset) == (start, end)
    assert values_from(log, start) == expected[start:]
    log.release()


def test_the_files_of_truncated_segments_are_removed_too(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=SIZE + 1)
    fill(log, 4)
    log.truncate_to(2)
    assert names(tmp_path, ".deleted") == files_of(3)
    log.truncate_fully_and_start_at(9)
    removed = delete(log)
    assert sorted(removed) == sorted(str(path) for path in tmp_path.glob("*.deleted"))
    assert names(tmp_path, ".deleted") == files_of(0, 1, 2, 3)
    remove_files(removed)
    assert delete(log) == []
    assert names(tmp_path, ".log") == [f"{9:020d}"]
    log.close()
