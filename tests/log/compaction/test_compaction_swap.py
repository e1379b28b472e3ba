"""A crash at any step of the swap: a start finds the old segments or the new one."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ottla.wire.records.batch import Record
from tests.log.building import NOW_MS, append, open_log, records_from
from tests.log.compaction.compacting import clean_log, clean_steps, keyed

KEYS = 4
CONFIG: dict[str, Any] = {"segment_bytes": 500, "segment_index_bytes": 240}
UNFINISHED = (".cleaned", ".swap", ".deleted")


def _newest(records: list[Record]) -> dict[bytes | None, Record]:
    return {record.key: record for record in records}


def test_a_crash_at_any_step_leaves_a_log_that_opens_with_the_newest_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "log"
    log = open_log(directory, **CONFIG)
    for number in range(10):
        append(log, keyed((b"%d" % (number % KEYS), b"%d" % number), producer_id=3, sequence=number))
        if number % 2:
            log.roll(NOW_MS)
    (directory / f"{0:020d}.txnindex").touch()
    append(log, keyed((b"active", b"1")))
    before = {record.offset: record for record in records_from(log)}
    log.flush()
    rename, crashes = os.rename, 0

    def crash_here() -> None:
        nonlocal crashes
        shutil.copytree(directory, tmp_path / f"crash{crashes}")
        crashes += 1

    def rename_and_crash(old: str, new: str) -> None:
        crash_here()
        rename(old, new)

    monkeypatch.setattr("os.rename", rename_and_crash)
    swaps = 0
    for removed in clean_steps(log):
        crash_here()
        if isinstance(removed, list):
            swaps += 1
            for path in removed:
                Path(path).unlink()
                crash_here()
    monkeypatch.undo()
    assert swaps == 2
    after = records_from(log)
    log.release()
    sizes = set()
    for crash in range(crashes):
        again = open_log(tmp_path / f"crash{crash}", clean=False, cleanup_policy=["compact"], **CONFIG)
        found = records_from(again)
        sizes.add(len(found))
        assert again.log_end_offset == 11
        assert all(record == before[record.offset] for record in found)
        assert _newest(found) == _newest(list(before.values()))
        assert again.producers.entries[3].last_sequence == 9
        assert not [path for path in again.directory.iterdir() if path.suffix in UNFINISHED]
        clean_log(again)
        assert records_from(again) == after
        again.release()
    assert sizes >= {len(before), len(after)}


def test_a_swap_forgets_remembered_positions(tmp_path: Path) -> None:
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


def test_a_swap_deletes_the_snapshots_of_replaced_segments(tmp_path: Path) -> None:
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
