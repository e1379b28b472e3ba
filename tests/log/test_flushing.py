import os
from pathlib import Path

import pytest

from ottla.log.flushing import FlushJob
from tests.log.building import NOW_MS, append, open_log, produced


def test_a_file_deleted_meanwhile_does_not_stop_a_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An example is the producer snapshot at the start of a segment that retention deleted."""
    left = tmp_path / "left"
    left.touch()
    synced: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").readlink()))
    job = FlushJob(0, [], [tmp_path / "gone", left], [tmp_path / "gone-too", tmp_path])
    job.run()
    assert synced == [left, tmp_path]


def test_the_indexes_of_a_rolled_segment_are_synced_after_its_records(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=80)
    append(log)
    log.flush()
    append(log)
    assert len(log.segments) == 2
    log.flush()
    assert log.segments[0].unsynced_files() == []
    log.close()


def test_a_time_index_of_zeros_does_not_make_its_segment_old(tmp_path: Path) -> None:
    """A power cut leaves zeros if the bytes did not reach the disk."""
    log = open_log(tmp_path, segment_bytes=80)
    append(log, produced(timestamp=NOW_MS))
    append(log, produced(timestamp=NOW_MS))
    log.release()
    path = tmp_path / f"{0:020d}.timeindex"
    path.write_bytes(bytes(path.stat().st_size))
    log = open_log(tmp_path, clean=False, recovery_point=1)
    assert log.segments[0].largest_timestamp() == NOW_MS
    log.release()
