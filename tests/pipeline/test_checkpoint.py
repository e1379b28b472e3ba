"""Where a job keeps where it is."""

from pathlib import Path

import pytest

from ottla.pipeline.checkpoint import Checkpoint, CheckpointError


def _spark(checkpoint: Checkpoint, batch: int, *sources: str, done: bool = True) -> None:
    for name in ("offsets", "commits"):
        (checkpoint.spark / name).mkdir(parents=True, exist_ok=True)
    text = "\n".join(["v1", '{"batchWatermarkMs":0}', *sources])
    (checkpoint.spark / "offsets" / str(batch)).write_text(text)
    if done:
        (checkpoint.spark / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def test_a_job_is_where_its_last_finished_batch_ended(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    assert (checkpoint.batch(), checkpoint.offsets(), checkpoint.start()) == (None, [], None)
    _spark(checkpoint, 9, '{"orders":{"0":3}}')
    _spark(checkpoint, 10, '{"orders":{"0":5,"1":7}}', "-", '{"value":3}')
    _spark(checkpoint, 11, '{"orders":{"0":6,"1":7}}', done=False)
    (checkpoint.spark / "commits" / ".10.crc").touch()
    assert checkpoint.batch() == 10
    assert checkpoint.offsets() == [{"orders": {"0": 5, "1": 7}}]


def test_a_job_that_was_moved_begins_there_and_nothing_is_lost(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    _spark(checkpoint, 1, '{"orders":{"0":3}}')
    checkpoint.move({"orders": {"0": 1}})
    assert checkpoint.start() == {"orders": {"0": 1}}
    assert checkpoint.batch() is None
    (kept,) = tmp_path.glob("spark-until-*")
    assert (kept / "offsets" / "1").exists()


def test_a_job_that_begins_anew_has_no_place_and_nothing_is_lost(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.move({"orders": {"0": 1}})
    assert checkpoint.offsets() == [{"orders": {"0": 1}}]
    _spark(checkpoint, 1, '{"orders":{"0":3}}')
    assert checkpoint.offsets() == [{"orders": {"0": 3}}]
    checkpoint.forget()
    assert (checkpoint.batch(), checkpoint.start(), checkpoint.offsets()) == (None, None, [])
    (kept,) = tmp_path.glob("spark-until-*")
    assert (kept / "offsets" / "1").exists()


def test_a_job_runs_once(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "deep" / "job")
    with checkpoint.locked(), pytest.raises(CheckpointError, match="the job runs already"), checkpoint.locked():
        pass
    with checkpoint.locked():
        pass


def test_what_spark_wrote_otherwise_is_refused(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    _spark(checkpoint, 0, '{"orders":{"0":3}}')
    (checkpoint.spark / "offsets" / "0").write_text("v9\n{}\n")
    with pytest.raises(CheckpointError, match="is of the unknown version v9"):
        checkpoint.offsets()


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="Not a directory"), Checkpoint(tmp_path / "file" / "job").locked():
        pass
