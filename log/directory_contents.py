"""What a closed log directory tells about its cluster: of this broker, or of Kafka in either mode.

Owns reading a directory that no broker has open; changes nothing. Must not know what a cluster's metadata is.
Counterparts in Kafka: the reading halves of LogManager and KafkaRaftLog.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ottla.log.config import LogConfig
from ottla.log.manager import KRAFT_METADATA_TOPIC, parse_directory_name
from ottla.log.segments.open_files import OpenFiles
from ottla.log.segments.segment import LOG_SUFFIX, Segment
from ottla.log.state.checkpoint import (
    LEADER_EPOCH_FILE,
    PARTITION_METADATA_FILE,
    CorruptCheckpointError,
    read_epochs,
    read_partition_metadata,
)
from ottla.log.state.meta_properties import META_PROPERTIES_FILE, read_meta_properties
from ottla.log.state.producer_snapshot import SNAPSHOT_SUFFIX, CorruptSnapshotError, decode_snapshot
from ottla.wire.records.batch import CorruptBatch, crc_is_valid, iter_batches, iter_records
from ottla.wire.types import TopicPartition

_CHECKPOINT_SUFFIX = ".checkpoint"
_KRAFT_DIRECTORY = f"{KRAFT_METADATA_TOPIC}-0"


class UnreadableDirectoryError(Exception):
    """A path that is no log directory, or a log directory with an unreadable file."""


class DirectoryIdentity(NamedTuple):
    """The broker and the cluster that a log directory belongs to."""

    broker_id: int
    cluster_id: str


class PartitionFound(NamedTuple):
    """A partition with a log in the directory; `leader_epoch` is the newest epoch, -1 if there is none."""

    topic_partition: TopicPartition
    topic_id: bytes | None
    leader_epoch: int
    highest_producer_id: int


def identify(directory: Path) -> DirectoryIdentity:
    """Return the broker and the cluster in meta.properties; UnreadableDirectoryError if one is missing."""
    path = directory / META_PROPERTIES_FILE
    found = read_meta_properties(directory)
    if found is None:
        raise UnreadableDirectoryError(f"{directory} is no log directory: it has no {META_PROPERTIES_FILE}")
    number = found.get("node.id" if found.get("version") == "1" else "broker.id", "")
    if not number.isdecimal() or not found.get("cluster.id"):
        raise UnreadableDirectoryError(f"{path} has no broker id or no cluster id")
    return DirectoryIdentity(int(number), found["cluster.id"])


def partitions_in(directory: Path) -> list[PartitionFound]:
    """Return all partitions with a log in `directory`."""
    found = []
    for path in sorted(directory.iterdir()):
        topic_partition = parse_directory_name(path.name) if path.is_dir() else None
        if topic_partition is None or topic_partition.topic == KRAFT_METADATA_TOPIC:
            continue
        try:
            topic_id = read_partition_metadata(path / PARTITION_METADATA_FILE)
            epochs = read_epochs(path / LEADER_EPOCH_FILE)
        except CorruptCheckpointError as error:
            raise UnreadableDirectoryError(str(error)) from error
        leader_epoch = epochs[-1].epoch if epochs else -1
        found.append(PartitionFound(topic_partition, topic_id, leader_epoch, _highest_producer_id(path)))
    return found


def _highest_producer_id(directory: Path) -> int:
    """Return the highest producer id of all snapshots and of the batches behind the newest snapshot."""
    highest, known_up_to = -1, 0
    for path in directory.glob(f"*{SNAPSHOT_SUFFIX}"):
        try:
            entries = decode_snapshot(path.read_bytes())
        except CorruptSnapshotError:
            continue
        highest = max([highest, *(entry.producer_id for entry in entries)])
        known_up_to = max(known_up_to, int(path.stem))
    segments = _segments(directory)
    below = [segment for segment in segments if segment.base_offset <= known_up_to]
    for segment in segments[max(len(below) - 1, 0) :]:
        try:
            for _, header in segment.headers(0):
                highest = max(highest, header.producer_id)
        except CorruptBatch:
            # A crash left this; recovery will cut it off.
            break
        finally:
            segment.release()
    return highest


def _segments(directory: Path) -> list[Segment]:
    files, config = OpenFiles(), LogConfig()
    offsets = sorted(int(path.stem) for path in directory.glob(f"*{LOG_SUFFIX}"))
    segments = [Segment(files, directory, offset, config, 0) for offset in offsets]
    for segment in segments:
        segment.load_size()
    return segments


def has_kraft_metadata(directory: Path) -> bool:
    """Whether a KRaft broker kept the cluster's metadata in `directory`."""
    return (directory / _KRAFT_DIRECTORY).is_dir()


def kraft_records(directory: Path) -> Iterator[bytes]:
    """Return the records of KRaft's metadata: the newest snapshot, and the records of the log behind it."""
    folder = directory / _KRAFT_DIRECTORY
    snapshots = sorted(folder.glob(f"*{_CHECKPOINT_SUFFIX}"))
    end = 0
    if snapshots:
        # The name of a snapshot is the offset that follows it, and the epoch of that offset.
        end = int(snapshots[-1].name.partition("-")[0])
        yield from _records(snapshots[-1], 0, must_be_whole=True)
    logs = sorted(folder.glob(f"*{LOG_SUFFIX}"))
    for path in _reaching(logs, end):
        yield from _records(path, end, must_be_whole=path is not logs[-1])


def _reaching(logs: Sequence[Path], offset: int) -> Sequence[Path]:
    below = sum(int(path.stem) <= offset for path in logs)
    if logs and not below:
        raise UnreadableDirectoryError(f"{logs[0].parent} has no records from offset {offset} up to {logs[0].name}")
    return logs[max(below - 1, 0) :]


def _records(path: Path, offset: int, *, must_be_whole: bool) -> Iterator[bytes]:
    """Return all records from `offset` on, without control records.

    The last log may end within a batch, because of a crash; with `must_be_whole` that is UnreadableDirectoryError.
    """
    data = memoryview(path.read_bytes())
    size = 0
    try:
        for header, batch in iter_batches(data):
            if not crc_is_valid(batch):
                break
            size += header.size
            if header.base_offset >= offset and not header.is_control:
                yield from (record.value for record in iter_records(batch) if record.value is not None)
    except CorruptBatch as error:
        if must_be_whole:
            raise UnreadableDirectoryError(f"{path}: {error}") from error
    if must_be_whole and size < len(data):
        raise UnreadableDirectoryError(f"{path} is damaged at position {size}")
