from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.log.config import LogConfig
from ottla.log.directory_contents import (
    DirectoryIdentity,
    PartitionFound,
    UnreadableDirectoryError,
    has_kraft_metadata,
    identify,
    kraft_records,
    partitions_in,
)
from ottla.log.manager import LogManager
from ottla.log.state.checkpoint import write_partition_metadata
from ottla.log.state.meta_properties import check_meta_properties, take_from_kraft
from ottla.wire.records.batch import ControlType, NewRecord, build_batch, build_control_batch
from ottla.wire.types import TopicPartition
from tests.log.building import NOW_MS, produced

ID = b"1" * 16
KRAFT = "version=1\nnode.id=7\ncluster.id=c\ndirectory.id=d\n"


def filled(directory: Path) -> LogManager:
    """Return a directory with a partition of two producers, in segments of one batch, and an empty partition."""
    logs = LogManager([directory], broker_id=3, cluster_id="c")
    config = LogConfig(segment_bytes=200)
    log = logs.get_or_create(TopicPartition("t", 0), ID, config, NOW_MS)
    for epoch, producer_id in ((2, 40), (4, 6)):
        log.append_as_leader(produced(1, value=bytes(80), producer_id=producer_id), epoch, NOW_MS)
    logs.get_or_create(TopicPartition("t", 1), ID, config, NOW_MS).flush()
    for new in logs.take_unmade():
        new.make()
    return logs


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_directory_lists_its_partitions(tmp_path: Path, is_clean: bool) -> None:
    logs = filled(tmp_path)
    if is_clean:
        logs.shutdown()
    else:
        logs.abandon()
    (tmp_path / "t-2.0123-delete").mkdir()
    (tmp_path / "__cluster_metadata-0").mkdir()
    before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
    assert identify(tmp_path) == DirectoryIdentity(3, "c")
    assert partitions_in(tmp_path) == [
        PartitionFound(TopicPartition("t", 0), ID, 4, 40),
        PartitionFound(TopicPartition("t", 1), ID, -1, -1),
    ]
    assert sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == before


def test_producers_are_found_in_the_batches_too(tmp_path: Path) -> None:
    filled(tmp_path).abandon()
    for path in tmp_path.rglob("*.snapshot"):
        path.write_bytes(b"damaged")
    with next(tmp_path.glob("t-0/*.log")).open("ab") as file:
        file.write(bytes(100))
    assert max(found.highest_producer_id for found in partitions_in(tmp_path)) == 40


@pytest.mark.parametrize("properties", [None, "", "version=0\nbroker.id=x\ncluster.id=c\n", "version=0\nbroker.id=1\n"])
def test_a_directory_without_valid_meta_properties_is_refused(tmp_path: Path, properties: str | None) -> None:
    if properties is not None:
        (tmp_path / "meta.properties").write_text(properties)
    with pytest.raises(UnreadableDirectoryError):
        identify(tmp_path)


def test_an_unreadable_partition_is_named(tmp_path: Path) -> None:
    filled(tmp_path).shutdown()
    (tmp_path / "t-0" / "partition.metadata").write_text("version: 9\n")
    with pytest.raises(UnreadableDirectoryError, match=r"t-0/partition\.metadata"):
        partitions_in(tmp_path)


def test_a_directory_of_kraft_is_taken_over_by_the_same_broker(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(KRAFT)
    assert identify(tmp_path) == DirectoryIdentity(7, "c")
    for _ in range(2):
        take_from_kraft(tmp_path)
        assert identify(tmp_path) == DirectoryIdentity(7, "c")
    check_meta_properties([tmp_path], 7, "c", lambda *told: None)


def test_a_broker_leaves_metadata_of_kraft_alone(tmp_path: Path) -> None:
    (tmp_path / "__cluster_metadata-0").mkdir()
    logs = LogManager([tmp_path], broker_id=3, cluster_id="c")
    logs.load(NOW_MS)
    logs.shutdown()
    assert logs.logs == {}
    assert not list((tmp_path / "__cluster_metadata-0").iterdir())


# KRaft's metadata log


def batch(offset: int, *values: bytes) -> bytes:
    return bytes(build_batch([NewRecord(value=each) for each in values], base_offset=offset))


CONTROL = bytes(
    build_control_batch(ControlType.LEADER_CHANGE, producer_id=-1, producer_epoch=-1, coordinator_epoch=0, timestamp=0)
)


def metadata_log(directory: Path, files: dict[str, Sequence[bytes]]) -> Path:
    folder = directory / "__cluster_metadata-0"
    folder.mkdir()
    for name, batches in files.items():
        (folder / name).write_bytes(b"".join(batches))
    return directory


SNAPSHOT = "00000000000000000003-0000000001.checkpoint"
LOG = "00000000000000000000.log"
LATER = "00000000000000000004.log"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({LOG: [CONTROL, batch(1, b"a", b"b")]}, [b"a", b"b"]),
        ({LOG: [CONTROL, batch(1, b"a", b"b"), batch(3, b"c")], LATER: [batch(4, b"d")]}, [b"a", b"b", b"c", b"d"]),
        (
            {LOG: [batch(0, b"a", b"b", b"x"), batch(3, b"c")], SNAPSHOT: [batch(0, b"s")], LATER: [batch(4, b"d")]},
            [b"s", b"c", b"d"],
        ),
        ({SNAPSHOT: [batch(0, b"s")]}, [b"s"]),
        ({SNAPSHOT: [batch(0, b"s")], "00000000000000000001-0000000001.checkpoint": [b"old"]}, [b"s"]),
        # A crash left the end.
        ({LOG: [batch(0, b"a"), batch(1, b"b")[:-1]]}, [b"a"]),
        ({LOG: [batch(0, b"a"), batch(1, b"b").replace(b"b", b"?")]}, [b"a"]),
        ({LOG: [batch(0, b"a"), bytes(100)]}, [b"a"]),
    ],
)
def test_the_metadata_is_the_snapshot_and_the_records_behind_it(
    tmp_path: Path, files: dict[str, Sequence[bytes]], expected: list[bytes]
) -> None:
    assert not has_kraft_metadata(tmp_path)
    directory = metadata_log(tmp_path, files)
    assert has_kraft_metadata(directory)
    assert list(kraft_records(directory)) == expected


@pytest.mark.parametrize(
    "files",
    [
        {SNAPSHOT: [batch(0, b"s")[:-1]]},
        {SNAPSHOT: [batch(0, b"s"), b"?"]},
        {SNAPSHOT: [batch(0, b"s"), batch(1, b"b").replace(b"b", b"?")]},
        {SNAPSHOT: [b"?" * 100]},
        {LOG: [batch(0, b"a")[:-1]], LATER: [batch(4, b"d")]},
        {LATER: [batch(4, b"d")]},
        {LATER: [batch(4, b"d")], SNAPSHOT: [batch(0, b"s")]},
    ],
)
def test_metadata_with_a_gap_is_refused(tmp_path: Path, files: dict[str, Sequence[bytes]]) -> None:
    with pytest.raises(UnreadableDirectoryError):
        list(kraft_records(metadata_log(tmp_path, files)))


def test_logs_of_old_topics_have_no_id(tmp_path: Path) -> None:
    filled(tmp_path).shutdown()
    (tmp_path / "t-0" / "partition.metadata").unlink()
    write_partition_metadata(tmp_path / "t-1" / "partition.metadata", ID)
    assert [found.topic_id for found in partitions_in(tmp_path)] == [None, ID]
