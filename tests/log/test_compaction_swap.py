"""A crash at any step of the swap: a start finds the segments of before, or the one of after."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ottla.wire.record_batch import Record

from .building import NOW_MS, append, open_log, records_from
from .compacting import clean_log, clean_steps, keyed

KEYS = 4
CONFIG: dict[str, Any] = {"segment_bytes": 500, "segment_index_bytes": 240}
UNFINISHED = (".cleaned", ".swap", ".deleted")


def _newest(records: list[Record]) -> dict[bytes | None, Record]:
    return {record.key: record for record in records}


@pytest.mark.parametrize("keeps_old_files", [True, False])
def test_a_crash_at_any_step_leaves_a_log_that_opens_with_the_newest_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeps_old_files: bool
) -> None:
    directory = tmp_path / "log"
    log = open_log(directory, **CONFIG)
    for number in range(60):
        append(log, keyed((b"%d" % (number % KEYS), b"%d" % number), producer_id=3, sequence=number))
    log.roll(NOW_MS)
    (directory / f"{0:020d}.txnindex").touch()
    append(log, keyed((b"active", b"1")))
    before = {record.offset: record for record in records_from(log)}
    log.flush()
    rename, crashes = os.rename, 0

    def crash_before(old: str, new: str) -> None:
        nonlocal crashes
        shutil.copytree(directory, tmp_path / f"crash{crashes}")
        crashes += 1
        rename(old, new)

    monkeypatch.setattr("os.rename", crash_before)
    for removed in clean_steps(log):
        shutil.copytree(directory, tmp_path / f"crash{crashes}")
        crashes += 1
        if isinstance(removed, list) and not keeps_old_files:
            for path in removed:
                Path(path).unlink()
    monkeypatch.undo()
    assert crashes > 2 * (3 + 3)
    after = records_from(log)
    log.release()
    sizes = set()
    for crash in range(crashes):
        again = open_log(tmp_path / f"crash{crash}", clean=False, **CONFIG)
        found = records_from(again)
        sizes.add(len(found))
        assert again.log_end_offset == 61
        assert all(record == before[record.offset] for record in found)
        assert _newest(found) == _newest(list(before.values()))
        assert again.producers.entries[3].last_sequence == 59
        assert not [path for path in again.directory.iterdir() if path.suffix in UNFINISHED]
        again.close()
        cleaned_again = open_log(tmp_path / f"crash{crash}", **CONFIG)
        clean_log(cleaned_again)
        assert records_from(cleaned_again) == after
        cleaned_again.release()
    assert {len(before), len(after)} <= sizes


def test_positions_that_were_remembered_are_forgotten(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(9):
        append(log, keyed((b"%d" % (number % KEYS), b"%d" % number)))
        records_from(log, number)
    log.roll(NOW_MS)
    assert [record.offset for record in records_from(log, 5)] == [5, 6, 7, 8]
    clean_log(log)
    assert [record.offset for record in records_from(log, 3)] == [5, 6, 7, 8]
    assert log.read(0, 1 << 20, 5, True) == b""
    log.close()


def test_snapshots_of_segments_that_are_no_more_go(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=300)
    for number in range(20):
        append(log, keyed((b"k", b"%d" % number), producer_id=3, sequence=number))
    log.roll(NOW_MS)
    clean_log(log)
    bases = {segment.base_offset for segment in log.segments}
    assert set(log.producers.snapshot_offsets) <= bases
    assert {int(path.stem) for path in tmp_path.glob("*.snapshot")} == set(log.producers.snapshot_offsets)
    assert [record.offset for record in records_from(log)] == [19]
    log.close()
