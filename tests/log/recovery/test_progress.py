"""The log lines about the progress of recovery."""

import logging
from pathlib import Path

import pytest

from ottla.log.config import LogConfig
from ottla.log.recovery.progress import RecoveryProgress, bytes_to_scan
from ottla.log.recovery.recovery import LoadOptions

MB = 10**6


def _log(directory: Path, sizes: dict[int, int]) -> Path:
    directory.mkdir(parents=True)
    for offset, size in sizes.items():
        (directory / f"{offset:020d}.log").write_bytes(bytes(size))
    return directory


def test_flushed_bytes_are_not_counted(tmp_path: Path) -> None:
    path = _log(tmp_path / "a-0", {0: 1, 100: 20, 200: 300})
    assert [bytes_to_scan(path, point) for point in (0, 99, 100, 10**9)] == [321, 321, 320, 300]
    assert bytes_to_scan(tmp_path / "missing", 0) == 0


def test_progress_is_logged_once_a_second_and_not_at_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    times = iter([0.0, 0.5, 1.5, 1.6, 3.0])
    options = LoadOptions(LogConfig(), 0, clean=False)
    paths = [_log(tmp_path / f"a-{number}", {0: 2 * MB}) for number in range(4)]
    clean = _log(tmp_path / "clean", {0: MB})
    logs = {**dict.fromkeys(paths, options), clean: options._replace(clean=True)}
    progress = RecoveryProgress([logs], lambda: next(times))
    for path in paths:
        progress.done(path)
    (record,) = caplog.records
    assert record.getMessage() == "Recovered 4 of 8 MB, 2 of 4 logs"
    assert vars(record)["share"] == 0.5
