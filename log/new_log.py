"""The files of a new log.

Owns which files a new log consists of. Must not know how logs are used, nor when a file is opened.
Counterpart in Kafka: the creating half of LogManager.getOrCreateLog.

A new log serves before its files exist, because creating a topic must not wait for thousands of files. A worker thread
creates the files right after; the first append creates them if it comes earlier. Both may run at once, because `make`
leaves existing files alone.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ottla.log.segments.index import OffsetIndex, TimeIndex
from ottla.log.segments.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from ottla.log.state.checkpoint import (
    LEADER_EPOCH_FILE,
    PARTITION_METADATA_FILE,
    EpochEntry,
    epochs_text,
    partition_metadata_text,
)
from ottla.wire.types import TopicPartition


class NewLog(NamedTuple):
    """Everything that the files of a new log depend on. `leader_epoch` is -1 if this broker does not lead."""

    topic_partition: TopicPartition
    directory: Path
    topic_id: bytes | None
    leader_epoch: int
    index_bytes: int

    @property
    def epochs(self) -> list[EpochEntry]:
        """The entries of the leader-epoch file."""
        return [EpochEntry(self.leader_epoch, 0)] if self.leader_epoch >= 0 else []

    def make(self) -> None:
        """Create the directory and the files; OSError if the disk fails."""
        # As few system calls as possible, because after each of them the thread waits for the interpreter's lock.
        prefix = f"{self.directory}/"
        with suppress(FileExistsError):
            os.mkdir(self.directory)  # noqa: PTH102
        _make_file(f"{prefix}{0:020d}{LOG_SUFFIX}")
        _make_file(f"{prefix}{0:020d}{INDEX_SUFFIX}", size=OffsetIndex.longest(self.index_bytes))
        _make_file(f"{prefix}{0:020d}{TIME_INDEX_SUFFIX}", size=TimeIndex.longest(self.index_bytes))
        if self.leader_epoch >= 0:
            _make_file(prefix + LEADER_EPOCH_FILE, epochs_text(self.epochs))
        if self.topic_id is not None:
            _make_file(prefix + PARTITION_METADATA_FILE, partition_metadata_text(self.topic_id))


def make_logs(new_logs: Iterable[NewLog]) -> list[OSError | None]:
    """Create the files of many logs; return an error or None for each. May run in a worker thread."""
    outcomes: list[OSError | None] = []
    for new in new_logs:
        try:
            new.make()
            outcomes.append(None)
        except OSError as error:
            outcomes.append(error)
    return outcomes


def _make_file(path: str, text: str = "", size: int = 0) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        return
    try:
        if size:
            os.ftruncate(fd, size)
        if text:
            os.write(fd, text.encode())
    finally:
        os.close(fd)
