"""Checkpoints: small text files with offsets, epochs and ids, each replaced as a whole.

Owns the formats of *-checkpoint files, partition.metadata and the clean-shutdown marker, and how a file is replaced.
Must not know logs. Counterpart in Kafka: CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile,
PartitionMetadataFile, CleanShutdownFileHandler.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ottla.wire.types import TopicPartition
from ottla.wire.uuids import parse_uuid, uuid_text

RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
HIGH_WATERMARK_FILE = "replication-offset-checkpoint"
LOG_START_OFFSET_FILE = "log-start-offset-checkpoint"
CLEANER_OFFSET_FILE = "cleaner-offset-checkpoint"
LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE = "partition.metadata"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"

OffsetsByFile = Mapping[Path, Mapping[TopicPartition, int]]

_VERSION = 0


class CorruptCheckpointError(Exception):
    """A checkpoint file that neither Kafka nor this broker wrote."""


class EpochEntry(NamedTuple):
    """The start offset of a leader epoch."""

    epoch: int
    start_offset: int


def sync_directory(directory: Path | str) -> None:
    """Sync a directory, so that created and renamed files keep their names after a power failure."""
    fd = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_file(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Replace a file as a whole. A crash leaves the old or the new file; with `sync`, so does a power failure."""
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    temporary.replace(path)
    if sync:
        sync_directory(path.parent)


def _text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in (str(_VERSION), str(len(lines)), *lines))


def _read_lines(path: Path) -> list[str]:
    """Return the entries; none for a missing file, or an empty file as Kafka creates it."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError as error:
        raise CorruptCheckpointError(f"{path} is not text: {error}") from None
    if len(lines) < 2:
        return []
    if lines[0] != str(_VERSION):
        raise CorruptCheckpointError(f"{path} has version {lines[0]!r}, expected {_VERSION}")
    entries = lines[2:]
    if lines[1] != str(len(entries)):
        raise CorruptCheckpointError(f"{path} announces {lines[1]!r} entries and has {len(entries)}")
    return entries


def write_offsets(path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace a checkpoint file with one offset for each partition."""
    text = _text([f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items()])
    replace_file(path, text.encode())


def write_checkpoints(offsets: OffsetsByFile) -> dict[Path, OSError]:
    """Write checkpoint files; return the errors of those that failed. May run in a worker thread."""
    failed = {}
    for path, by_partition in offsets.items():
        try:
            write_offsets(path, by_partition)
        except OSError as error:
            failed[path] = error
    return failed


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """Return the offsets of a checkpoint file; CorruptCheckpointError for any other content."""
    offsets = {}
    for line in _read_lines(path):
        try:
            topic, partition, offset = line.split()
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise CorruptCheckpointError(f"Malformed line in {path}: {line!r}") from None
    return offsets


def write_epochs(path: Path, epochs: Iterable[EpochEntry]) -> None:
    """Replace the leader-epoch file without a sync, because the next flush of the log syncs it."""
    replace_file(path, epochs_text(epochs).encode(), sync=False)


def epochs_text(epochs: Iterable[EpochEntry]) -> str:
    """Return the content of the leader-epoch file."""
    return _text([f"{epoch} {start_offset}" for epoch, start_offset in epochs])


def read_epochs(path: Path) -> list[EpochEntry]:
    """Return the entries of the leader-epoch file, oldest first; CorruptCheckpointError for any other content."""
    entries = []
    for line in _read_lines(path):
        try:
            epoch, start_offset = map(int, line.split())
        except ValueError:
            raise CorruptCheckpointError(f"Malformed line in {path}: {line!r}") from None
        entries.append(EpochEntry(epoch, start_offset))
    return entries


def write_partition_metadata(path: Path, topic_id: bytes) -> None:
    """Replace partition.metadata without a sync, because the next flush of the log syncs it."""
    replace_file(path, partition_metadata_text(topic_id).encode(), sync=False)


def partition_metadata_text(topic_id: bytes) -> str:
    """Return the content of partition.metadata."""
    return f"version: {_VERSION}\ntopic_id: {uuid_text(topic_id)}"


def read_partition_metadata(path: Path) -> bytes | None:
    """Return the topic id, None for a missing or empty file; CorruptCheckpointError for any other content."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise CorruptCheckpointError(f"{path} is not text: {error}") from None
    if not text:
        return None
    try:
        fields = dict(line.split(": ", 1) for line in text.splitlines() if line)
        if fields["version"] != str(_VERSION):
            raise ValueError(f"version {fields['version']}")
        return parse_uuid(fields["topic_id"])
    except (ValueError, KeyError) as error:
        raise CorruptCheckpointError(f"Cannot read {path}: {error!r}") from None


def write_clean_shutdown(directory: Path) -> None:
    """Write the clean-shutdown marker. With the marker, the next start recovers no log of the directory."""
    replace_file(directory / CLEAN_SHUTDOWN_FILE, b'{"version":0,"brokerEpoch":-1}')


def take_clean_shutdown(directory: Path) -> bool:
    """Remove the clean-shutdown marker; return whether it was there. A crash while loading thus counts as a crash."""
    try:
        (directory / CLEAN_SHUTDOWN_FILE).unlink()
    except FileNotFoundError:
        return False
    sync_directory(directory)
    return True
