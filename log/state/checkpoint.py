"""Small text files that say how far a log has come, each replaced as a whole and durably.

Owns the formats of *-checkpoint files, partition.metadata and the clean-shutdown marker, and how a file is replaced.
Must not know logs. Counterpart in Kafka: CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile,
PartitionMetadataFile, CleanShutdownFileHandler.
"""

import json
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
    """A checkpoint file that is not as Kafka or we write it."""


class EpochEntry(NamedTuple):
    """The first offset that a leader epoch wrote."""

    epoch: int
    start_offset: int


def sync_directory(directory: Path | str) -> None:
    """Make names just created or renamed in a directory survive a crash."""
    fd = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_file(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Replace a file as a whole: there is the old one or the new one, with `sync` even after a power failure."""
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
    """The entries; none where there is no file, or an empty one as Kafka creates them."""
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
    """One offset a partition."""
    text = _text([f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items()])
    replace_file(path, text.encode())


def write_checkpoints(offsets: OffsetsByFile) -> dict[Path, OSError]:
    """Write checkpoint files as a manager planned them; may run in a worker thread. Returns which failed, and how."""
    failed = {}
    for path, by_partition in offsets.items():
        try:
            write_offsets(path, by_partition)
        except OSError as error:
            failed[path] = error
    return failed


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """What `write_offsets` wrote; CorruptCheckpointError where it is not that."""
    offsets = {}
    for line in _read_lines(path):
        try:
            topic, partition, offset = line.split()
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise CorruptCheckpointError(f"Malformed line in {path}: {line!r}") from None
    return offsets


def write_epochs(path: Path, epochs: Iterable[EpochEntry]) -> None:
    """Replace the file of `epochs_text`. Not synced: that is part of flushing the log."""
    replace_file(path, epochs_text(epochs).encode(), sync=False)


def epochs_text(epochs: Iterable[EpochEntry]) -> str:
    """The leader epochs of one partition, oldest first."""
    return _text([f"{epoch} {start_offset}" for epoch, start_offset in epochs])


def read_epochs(path: Path) -> list[EpochEntry]:
    """What `write_epochs` wrote; CorruptCheckpointError where it is not that."""
    entries = []
    for line in _read_lines(path):
        try:
            epoch, start_offset = map(int, line.split())
        except ValueError:
            raise CorruptCheckpointError(f"Malformed line in {path}: {line!r}") from None
        entries.append(EpochEntry(epoch, start_offset))
    return entries


def write_partition_metadata(path: Path, topic_id: bytes) -> None:
    """Replace the file of `partition_metadata_text`. Not synced: that is part of flushing the log."""
    replace_file(path, partition_metadata_text(topic_id).encode(), sync=False)


def partition_metadata_text(topic_id: bytes) -> str:
    """The id of the topic whose records stand beside the file."""
    return f"version: {_VERSION}\ntopic_id: {uuid_text(topic_id)}"


def read_partition_metadata(path: Path) -> bytes | None:
    """The topic id, None where there is no file or an empty one; CorruptCheckpointError where it cannot be read."""
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


def write_clean_shutdown(directory: Path, broker_epoch: int = -1) -> None:
    """Leave the marker by which the next start knows that no log needs recovery."""
    content = json.dumps({"version": _VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    replace_file(directory / CLEAN_SHUTDOWN_FILE, content.encode())


def take_clean_shutdown(directory: Path) -> bool:
    """Whether the marker was there. It is taken away: a crash while loading must count as one."""
    try:
        (directory / CLEAN_SHUTDOWN_FILE).unlink()
    except FileNotFoundError:
        return False
    sync_directory(directory)
    return True
