import os
from pathlib import Path

import pytest

from ottla.log.flushing import FlushJob


def test_a_file_that_was_deleted_meanwhile_keeps_no_other_from_being_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the snapshot of producers at the start of a segment that retention took."""
    left = tmp_path / "left"
    left.touch()
    synced: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").readlink()))
    job = FlushJob(0, [], [tmp_path / "gone", left], [tmp_path / "gone-too", tmp_path])
    job.run()
    assert synced == [left, tmp_path]
