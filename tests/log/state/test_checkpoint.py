from pathlib import Path

import pytest

from ottla.log.state.checkpoint import (
    CorruptCheckpointError,
    EpochEntry,
    read_epochs,
    read_offsets,
    read_partition_metadata,
    take_clean_shutdown,
    write_clean_shutdown,
    write_epochs,
    write_offsets,
    write_partition_metadata,
)
from ottla.wire.types import TopicPartition


def test_an_offset_checkpoint_is_written_as_kafka_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    offsets = {TopicPartition("a.b_c-d", 0): 17, TopicPartition("t", 12): 2**62}
    write_offsets(path, offsets)
    assert path.read_bytes() == b"0\n2\na.b_c-d 0 17\nt 12 4611686018427387904\n"
    assert read_offsets(path) == offsets
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def test_epochs_are_written_as_kafka_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    entries = [EpochEntry(0, 0), EpochEntry(5, 100)]
    write_epochs(path, entries)
    assert path.read_bytes() == b"0\n2\n0 0\n5 100\n"
    assert read_epochs(path) == entries


@pytest.mark.parametrize("text", ["", "0\n"])
def test_a_checkpoint_that_kafka_only_created_has_no_entries(tmp_path: Path, text: str) -> None:
    path = tmp_path / "checkpoint"
    assert read_offsets(path) == {}
    path.write_text(text)
    assert read_offsets(path) == {}
    assert read_epochs(path) == []


@pytest.mark.parametrize(
    "data",
    [b"1\n0\n", b"0\n2\nt 0 1\n", b"0\n1\nt 0\n", b"0\n1\nt 0 x\n", b"0\nx\n", b"0\n1\n\xff\xfe\n", b"zero\n0\n"],
)
def test_a_damaged_checkpoint_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(data)
    with pytest.raises(CorruptCheckpointError):
        read_offsets(path)
    with pytest.raises(CorruptCheckpointError):
        read_epochs(path)


def test_partition_metadata_is_written_as_kafka_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "partition.metadata"
    assert read_partition_metadata(path) is None
    topic_id = bytes(range(240, 256))
    write_partition_metadata(path, topic_id)
    assert path.read_bytes() == b"version: 0\ntopic_id: 8PHy8_T19vf4-fr7_P3-_w"
    assert read_partition_metadata(path) == topic_id


@pytest.mark.parametrize(
    "text", ["version: 1\ntopic_id: 8PHy8_T19vf4-fr7_P3-_w", "version: 0\n", "x", "version: 0\ntopic_id: AA"]
)
def test_damaged_partition_metadata_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "partition.metadata"
    path.write_text(text)
    with pytest.raises(CorruptCheckpointError):
        read_partition_metadata(path)


def test_the_clean_shutdown_marker_has_kafkas_form_and_is_taken_once(tmp_path: Path) -> None:
    assert not take_clean_shutdown(tmp_path)
    write_clean_shutdown(tmp_path)
    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":-1}'
    assert take_clean_shutdown(tmp_path)
    assert not take_clean_shutdown(tmp_path)
