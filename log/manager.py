"""All logs of a broker: the log directories, what is in them, and the checkpoints that span them.

Owns the directories from lock to clean-shutdown marker. Must not know who leads what, nor when anything is due.
Counterpart in Kafka: LogManager.
"""

import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from ottla.log.checkpoint import (
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    CorruptCheckpointError,
    read_offsets,
    take_clean_shutdown,
    write_clean_shutdown,
    write_offsets,
)
from ottla.log.config import LogConfig
from ottla.log.meta_properties import DirectoryLocks, check_meta_properties
from ottla.log.new_log import NewLog
from ottla.log.open_files import OpenFiles
from ottla.log.partition_log import PartitionLog, storage_error
from ottla.log.recovery import LoadOptions
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition

DELETE_SUFFIX = "-delete"
# What KRaft brokers keep beside their logs.
KRAFT_METADATA_TOPIC = "__cluster_metadata"
_PASSED_OVER = ("-future", "-stray")
_LONGEST_NAME = 255
# What Kafka lets a topic be called, but for its length, which the file system minds.
_LEGAL_NAME = re.compile("[a-zA-Z0-9._-]+")

logger = logging.getLogger("kafka.log.LogManager")

OffsetsByFile = Mapping[Path, Mapping[TopicPartition, int]]


class DuplicateLogError(Exception):
    """A partition has a log in two directories."""


def parse_directory_name(name: str) -> TopicPartition | None:
    """The partition whose log a directory holds by its name, None if it is no such directory."""
    topic, dash, partition = name.rpartition("-")
    if topic and dash and partition.isascii() and partition.isdigit():
        return TopicPartition(topic, int(partition))
    return None


class Renaming(NamedTuple):
    """The directory of a deleted log, and the name by which it is known as that."""

    old: Path
    new: Path


def rename_directories(renamings: Iterable[Renaming]) -> list[OSError | None]:
    """Give the directories of deleted logs their new names; may run in a worker thread."""
    outcomes: list[OSError | None] = []
    for old, new in renamings:
        try:
            old.rename(new)
            outcomes.append(None)
        except OSError as error:
            outcomes.append(error)
    return outcomes


def remove_directories(directories: Iterable[Path]) -> None:
    """Remove the files of deleted logs; for a worker thread."""
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


def write_checkpoints(offsets: OffsetsByFile) -> None:
    """Write checkpoint files as a manager planned them; may run in a worker thread."""
    for path, by_partition in offsets.items():
        write_offsets(path, by_partition)


class LogManager:
    """Holds the locks of its directories from construction to `shutdown`."""

    def __init__(
        self,
        directories: Sequence[Path],
        *,
        broker_id: int,
        cluster_id: str,
        default_config: LogConfig | None = None,
        topic_config: Callable[[str], LogConfig] | None = None,
        producer_id_expiration_ms: int = 86_400_000,
        max_open_files: int = 4096,
        locks: DirectoryLocks | None = None,
    ) -> None:
        """`topic_config` answers for logs that `load` finds. `locks`: of all directories, where they are held already.

        DirectoryInUse or InconsistentMetaPropertiesError if a directory is not to be had.
        """
        self.directories = list(directories)
        self.files = OpenFiles(max_open_files)
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self._default_config = default_config or LogConfig()
        self._topic_config = topic_config or (lambda _: self._default_config)
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._deleted: list[Path] = []
        self._unmade: list[NewLog] = []
        self._log_counts = dict.fromkeys(self.directories, 0)
        self._locks = locks or DirectoryLocks(self.directories)
        try:
            check_meta_properties(self.directories, broker_id, cluster_id)
        except BaseException:
            self._locks.release()
            raise

    # Loading

    def load(self, now_ms: int) -> None:
        """Open all logs; recover those of directories that were not shut down cleanly. Takes its time."""
        started = time.monotonic()
        for directory in self.directories:
            clean = take_clean_shutdown(directory)
            recovery_points = _read_or_none(directory / RECOVERY_POINT_FILE)
            log_start_offsets = _read_or_none(directory / LOG_START_OFFSET_FILE)
            paths = sorted(path for path in directory.iterdir() if path.is_dir())
            how = "as they were shut down cleanly" if clean else "recovering them, as there was no clean shutdown"
            logger.info("Loading %d logs from %s, %s", len(paths), directory, how)
            for path in paths:
                topic_partition = self._identify(path)
                if topic_partition is None:
                    continue
                options = LoadOptions(
                    self._topic_config(topic_partition.topic),
                    now_ms,
                    log_start_offsets.get(topic_partition, 0),
                    recovery_points.get(topic_partition, 0),
                    clean,
                    self._producer_id_expiration_ms,
                )
                began = time.monotonic()
                log = self.logs[topic_partition] = PartitionLog(topic_partition, path, self.files, options)
                self._log_counts[directory] += 1
                logger.info(
                    "Loaded %s with %d segments, log start offset %d and log end offset %d in %d ms",
                    path,
                    len(log.segments),
                    log.log_start_offset,
                    log.log_end_offset,
                    (time.monotonic() - began) * 1000,
                )
        logger.info("Loaded %d logs in %d ms", len(self.logs), (time.monotonic() - started) * 1000)

    def _identify(self, path: Path) -> TopicPartition | None:
        """Whose log a directory is; those on their way out, and strangers, are nobody's."""
        if path.name.endswith(DELETE_SUFFIX):
            self._deleted.append(path)
            return None
        topic_partition = parse_directory_name(path.name)
        if topic_partition is not None and topic_partition.topic == KRAFT_METADATA_TOPIC:
            return None
        if topic_partition is None or path.name.endswith(_PASSED_OVER):
            logger.warning("%s is no log of a partition and is left alone", path)
            return None
        if topic_partition in self.logs:
            raise DuplicateLogError(f"{topic_partition} has logs in {path} and {self.logs[topic_partition].directory}")
        return topic_partition

    # One log

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """The log of a partition, if this broker has it."""
        return self.logs.get(topic_partition)

    def take_unmade(self) -> list[NewLog]:
        """Return the logs that are new, for `make_logs`; each is told once."""
        unmade, self._unmade = self._unmade, []
        return unmade

    def get_or_create(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes | None,
        config: LogConfig,
        now_ms: int = 0,
        leader_epoch: int = -1,
    ) -> PartitionLog:
        """The log of a partition; a new one goes into the directory that has the fewest, and is told by `take_unmade`.

        `leader_epoch`: of this broker, if it leads. KafkaError INCONSISTENT_TOPIC_ID if there is one of a topic of the
        same name, INVALID_TOPIC_EXCEPTION for a name that could lead out of the directory.
        """
        log = self.logs.get(topic_partition)
        if log is None:
            if not _LEGAL_NAME.fullmatch(topic_partition.topic) or topic_partition.partition < 0:
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"no log can be named {topic_partition}")
            directory = min(self.directories, key=self._log_counts.__getitem__)
            path = directory / str(topic_partition)
            new = None
            try:
                if not os.path.exists(path):  # noqa: PTH110 - thousands of times
                    new = NewLog(topic_partition, path, topic_id, leader_epoch, config.segment_index_bytes)
                expiration_ms = self._producer_id_expiration_ms
                options = LoadOptions(config, now_ms, producer_id_expiration_ms=expiration_ms, new=new)
                log = PartitionLog(topic_partition, path, self.files, options)
            except OSError as error:
                raise storage_error(error) from error
            if new is not None:
                self._unmade.append(new)
            self._log_counts[directory] += 1
            self.logs[topic_partition] = log
            logger.info("Created log for partition %s in %s", topic_partition, path)
        if topic_id is not None:
            log.set_topic_id(topic_id)
        return log

    def delete(self, topic_partition: TopicPartition) -> Renaming | None:
        """Give up a log. Its directory is to be renamed next, lest it be found again, and that be told to `renamed`."""
        log = self.logs.pop(topic_partition, None)
        if log is None:
            return None
        log.release()
        self._log_counts[log.directory.parent] -= 1
        suffix = f"-{topic_partition.partition}.{uuid4().hex}{DELETE_SUFFIX}"
        name = topic_partition.topic[: _LONGEST_NAME - len(suffix)] + suffix
        return Renaming(log.directory, log.directory.with_name(name))

    def renamed(self, renaming: Renaming) -> None:
        """Leave a renamed directory to be removed by whoever asks `take_deleted`."""
        logger.info("%s is renamed to %s, to be deleted", renaming.old, renaming.new.name)
        self._deleted.append(renaming.new)

    def take_deleted(self) -> list[Path]:
        """Directories of deleted logs, for `remove_directories`; each is told once."""
        deleted, self._deleted = self._deleted, []
        return deleted

    def expire_producers_after(self, milliseconds: int) -> None:
        """Have all logs forget producers that are silent for so long."""
        self._producer_id_expiration_ms = milliseconds
        for log in self.logs.values():
            log.producers.expiration_ms = milliseconds

    # Checkpoints: planned here, written wherever the disk may be waited for

    def recovery_points(self) -> OffsetsByFile:
        """What `checkpoint_recovery_points` writes."""
        return self._by_file(RECOVERY_POINT_FILE, {tp: log.recovery_point for tp, log in self.logs.items()})

    def log_start_offsets(self) -> OffsetsByFile:
        """What `checkpoint_log_start_offsets` writes: only those that the segments do not tell."""
        offsets = {
            tp: log.log_start_offset
            for tp, log in self.logs.items()
            if log.log_start_offset > log.segments[0].base_offset
        }
        return self._by_file(LOG_START_OFFSET_FILE, offsets)

    def high_watermarks(self, offsets: Mapping[TopicPartition, int]) -> OffsetsByFile:
        """What `write_high_watermarks` writes."""
        return self._by_file(HIGH_WATERMARK_FILE, offsets)

    def checkpoint_recovery_points(self) -> None:
        """Note up to where each log is flushed."""
        write_checkpoints(self.recovery_points())

    def checkpoint_log_start_offsets(self) -> None:
        """Note where logs start, after records were deleted."""
        write_checkpoints(self.log_start_offsets())

    def write_high_watermarks(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Note the high watermarks of partitions; those without a log here are left out."""
        write_checkpoints(self.high_watermarks(offsets))

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        """As they were last noted, for all partitions."""
        found: dict[TopicPartition, int] = {}
        for directory in self.directories:
            found |= _read_or_none(directory / HIGH_WATERMARK_FILE)
        return found

    def _by_file(self, name: str, offsets: Mapping[TopicPartition, int]) -> OffsetsByFile:
        planned: dict[Path, dict[TopicPartition, int]] = {directory / name: {} for directory in self.directories}
        for topic_partition, offset in offsets.items():
            log = self.logs.get(topic_partition)
            if log is not None:
                planned[log.directory.parent / name][topic_partition] = offset
        return planned

    # The end

    def shutdown(self) -> None:
        """Flush and close all logs and mark the directories as clean. Those where that fails will be recovered."""
        failed = set()
        for log in self.logs.values():
            try:
                log.close()
            except KafkaError as error:
                logger.error("Cannot close %s: %s", log, error)
                failed.add(log.directory.parent)
        try:
            self.checkpoint_recovery_points()
            self.checkpoint_log_start_offsets()
            for directory in self.directories:
                if directory not in failed:
                    write_clean_shutdown(directory)
            logger.info("Closed %d logs", len(self.logs))
        finally:
            self._locks.release()

    def abandon(self) -> None:
        """Let go of everything as a crash would: no flush, no marker. For a start that failed."""
        for log in self.logs.values():
            log.release()
        self._locks.release()


def _read_or_none(path: Path) -> dict[TopicPartition, int]:
    try:
        return read_offsets(path)
    except CorruptCheckpointError as error:
        logger.warning("%s; it is taken as empty", error)
        return {}
