"""Reading how far a job has come."""

from pathlib import Path

import pytest

from ottla.pipeline.checkpoint import Checkpoint, CheckpointError
from ottla.pipeline.server.checkpoint import offsets


def write(checkpoint: Path, batch: int, *sources: str, version: str = "v1", is_done: bool = True) -> None:
    for folder in ("offsets", "commits"):
        (checkpoint / "spark" / folder).mkdir(exist_ok=True, parents=True)
    (checkpoint / "spark" / "offsets" / str(batch)).write_text("\n".join([version, '{"batchWatermarkMs":0}', *sources]))
    if is_done:
        (checkpoint / "spark" / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
        (checkpoint / "spark" / "commits" / f".{batch}.crc").write_text("")


def test_a_job_that_has_done_nothing_has_no_offsets(tmp_path: Path) -> None:
    assert offsets(tmp_path / "none") == []
    write(tmp_path, 0, '{"orders":{"0":5}}', is_done=False)
    assert offsets(tmp_path) == []


def test_offsets_in_topics_are_told_as_those_of_a_sink_connector(tmp_path: Path) -> None:
    write(tmp_path, 9, '{"orders":{"0":1,"1":2}}')
    write(tmp_path, 10, '{"orders":{"10":4,"2":3},"bills":{"0":7}}')
    write(tmp_path, 11, '{"orders":{"2":30,"10":40}}', is_done=False)
    assert offsets(tmp_path) == [
        {"partition": {"kafka_topic": topic, "kafka_partition": partition}, "offset": {"kafka_offset": offset}}
        for topic, partition, offset in [("bills", 0, 7), ("orders", 2, 3), ("orders", 10, 4)]
    ]


def test_a_job_that_was_moved_is_where_it_is_to_begin(tmp_path: Path) -> None:
    write(tmp_path, 0, '{"orders":{"0":1,"1":2}}')
    Checkpoint(tmp_path).move({"orders": {"0": 0}})
    partition = {"kafka_topic": "orders", "kafka_partition": 0}
    assert offsets(tmp_path) == [{"partition": partition, "offset": {"kafka_offset": 0}}]


def test_offsets_of_other_sources_are_told_as_spark_writes_them(tmp_path: Path) -> None:
    write(tmp_path, 0, '{"logOffset":3}', "-", "12", "{}")
    assert offsets(tmp_path) == [
        {"partition": {"source": 0}, "offset": {"logOffset": 3}},
        {"partition": {"source": 2}, "offset": {"offset": 12}},
        {"partition": {"source": 3}, "offset": {}},
    ]


def test_a_checkpoint_that_is_not_as_expected_is_named(tmp_path: Path) -> None:
    write(tmp_path, 3, "{}", version="v9")
    with pytest.raises(CheckpointError, match="offsets/3 is of the unknown version v9"):
        offsets(tmp_path)
    write(tmp_path, 4, "{")
    with pytest.raises(CheckpointError, match="offsets/4 cannot be read"):
        offsets(tmp_path)
    (tmp_path / "spark" / "offsets" / "4").unlink()
    with pytest.raises(CheckpointError, match="offsets/4 cannot be read"):
        offsets(tmp_path)
