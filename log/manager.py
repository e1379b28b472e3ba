"""All logs of a broker: the log directories, the logs in them, and the checkpoints for all logs of a directory.

Owns the directories from lock to clean-shutdown marker. Must not know leaders, nor when a task is due.
Counterpart in Kafka: LogManager.
"""

import logging
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from ottla.log.config import LogConfig
from ottla.log.log import PartitionLog
from ottla.log.new_log import NewLog
from ottla.log.recovery.processes import recover_ahead
from ottla.log.recovery.progress import RecoveryProgress
from ottla.log.recovery.recovery import LoadOptions
from ottla.log.segments.open_files import OpenFiles
from ottla.log.state.checkpoint import (
    CLEANER_OFFSET_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    CorruptCheckpointError,
    OffsetsByFile,
    read_offsets,
    take_clean_shutdown,
    write_checkpoints,
    write_clean_shutdown,
)
from ottla.log.state.directory_failures import DirectoryFailures, NoLogDirectoryError, metadata_failed
from ottla.log.state.meta_properties import DirectoryLocks, check_meta_properties
from ottla.log.write_pace import WritePace
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition

DELETE_SUFFIX = "-delete"
# KRaft brokers keep this log beside the logs of partitions.
KRAFT_METADATA_TOPIC = "__cluster_metadata"
FUTURE_SUFFIX = "-future"
STRAY_SUFFIX = "-stray"
LONGEST_NAME = 255
_LEGAL_NAME = re.compile("[a-zA-Z0-9._-]+")  # Kafka's rule for topics, but for the length
_FUTURE = re.compile(r"(.+-\d+)\.\w+" + FUTURE_SUFFIX)

logger = logging.getLogger("kafka.log.LogManager")

_DUPLICATE = (
    "Duplicate log directories for {} are found in both {} and {}. It is likely because log directory failure happened "
    "while broker was replacing current replica with future replica. Recover broker from this failure by manually "
    "deleting one of the two directories for this partition. It is recommended to delete the partition in the log "
    "directory that is known to have failed recently."
)


class DuplicateLogError(Exception):
    """A partition has a log in two directories."""


def parse_directory_name(name: str) -> TopicPartition | None:
    """Return the partition that the name of a directory tells, None if the directory holds no log."""
    topic, _, partition = name.rpartition("-")
    return TopicPartition(topic, int(partition)) if topic and partition.isascii() and partition.isdigit() else None


class Renaming(NamedTuple):
    """The directory of a log that is deleted or set aside, and the new name of the directory."""

    old: Path
    new: Path


def renaming(log: PartitionLog, suffix: str = DELETE_SUFFIX) -> Renaming:
    """Return the new name for the directory of a log that is to be deleted, or set aside with STRAY_SUFFIX."""
    topic, partition = log.topic_partition
    suffix = f"-{partition}.{uuid4().hex}{suffix}"
    return Renaming(log.directory, log.directory.with_name(topic[: LONGEST_NAME - len(suffix)] + suffix))


def rename_directories(renamings: Iterable[Renaming]) -> list[OSError | None]:
    """Rename the directories of deleted logs; return an error or None for each. May run in a worker thread."""
    outcomes: list[OSError | None] = []
    for old, new in renamings:
        try:
            old.rename(new)
            outcomes.append(None)
        except OSError as error:
            outcomes.append(error)
    return outcomes


def remove_directories(directories: Iterable[Path]) -> None:
    """Remove the directories of deleted logs; for a worker thread."""
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


class LogManager:
    """Holds the locks of its directories from construction to `shutdown`."""

    def __init__(
        self,
        directories: Sequence[Path],
        *,
        broker_id: int,
        cluster_id: str,
        default_config: LogConfig | None = None,
        producer_id_expiration_ms: int = 86_400_000,
        locks: DirectoryLocks | None = None,
    ) -> None:
        """`default_config`: of the logs that `load` finds. `locks`: of the directories, if the caller holds them.

        DirectoryInUse or InconsistentMetaPropertiesError if a directory is another one's, NoLogDirectoryError if none
        can be used.
        """
        self.directories = list(directories)
        self.files = OpenFiles()
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.futures: dict[TopicPartition, PartitionLog] = {}  # logs on their way into another directory
        self.preferred: dict[TopicPartition, Path] = {}  # the directory for logs that do not exist yet
        self.strays: dict[str, set[int]] = {}  # by topic, the partitions that the metadata lacked at the start
        self._default_config = default_config or LogConfig()
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._deleted: list[Path] = []
        self._unmade: list[NewLog] = []
        self.log_counts = dict.fromkeys(self.directories, 0)
        self._paces = {directory: WritePace() for directory in self.directories}
        self._locks = locks or DirectoryLocks(self.directories)
        self.failures = DirectoryFailures(set(self.directories).difference(self._locks.directories))
        try:
            check_meta_properties(self.online, broker_id, cluster_id, self.failures.failed)
        except BaseException:
            self._locks.release()
            raise

    # Directories

    @property
    def online(self) -> Sequence[Path]:
        """The directories that did not fail."""
        return [each for each in self.directories if each not in self.failures.offline]

    def log_directory(self, path: str) -> Path:
        """Return the log directory with this absolute path; KafkaError if there is none, or if it failed."""
        for directory in self.directories:
            if str(directory.absolute()) == path:
                if directory in self.failures.offline:
                    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {path} is offline")
                return directory
        raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"Log dir {path} is not found in the config.")

    def close_failed(self, directory: Path) -> None:
        """Close all logs of a failed directory; NoLogDirectoryError if it was the last one, or `failures.vital`."""
        logger.warning("Stopping serving logs in dir %s", directory)
        gone = [log for log in self.everything() if log.directory.parent == directory]
        for log in gone:
            log.release()
        for logs in (self.logs, self.futures):
            for topic_partition in [tp for tp, log in logs.items() if log.directory.parent == directory]:
                del logs[topic_partition]
        self._unmade = [new for new in self._unmade if new.directory.parent != directory]
        self._deleted = [path for path in self._deleted if path.parent != directory]
        names = ",".join(log.directory.name for log in gone)
        logger.warning("Logs for partitions %s are offline due to failure on log directory %s", names, directory)
        self._locks.release_one(directory)
        if directory == self.failures.vital:
            raise metadata_failed(directory)
        if not self.online:
            directories = ", ".join(map(str, self.directories))
            raise NoLogDirectoryError(f"Shutdown broker because all log dirs in {directories} have failed")

    # Loading

    def load(self, now_ms: int, recovery_processes: int = 1) -> None:
        """Open all logs. Recover the logs of directories without a clean shutdown, which may take minutes.

        `recovery_processes`: how many processes recover logs of one directory; with 1 this process does.
        """
        started = time.monotonic()
        found: dict[Path, dict[Path, LoadOptions]] = {}
        for directory in self.online:
            with self._loading(directory):
                found[directory] = self._find_logs(directory, now_ms)
        progress = RecoveryProgress(found.values())
        recover_ahead(found.values(), recovery_processes, progress)
        for directory, logs in found.items():
            with self._loading(directory):
                self._open_logs(directory, logs, progress)
        for directory in self.failures.offline:
            self.close_failed(directory)
        if not self.failures.offline:
            self._end_replacements()
        logger.info("Loaded %d logs in %d ms", len(self.logs), (time.monotonic() - started) * 1000)

    @contextmanager
    def _loading(self, directory: Path) -> Iterator[None]:
        """Report an OSError as the failure of `directory`."""
        try:
            yield
        except OSError as error:
            self.failures.failed(directory, error, "loading")
            if directory not in self.failures.offline:
                raise

    def _find_logs(self, directory: Path, now_ms: int) -> dict[Path, LoadOptions]:
        clean = take_clean_shutdown(directory)
        recovery_points = _read_or_none(directory / RECOVERY_POINT_FILE)
        log_start_offsets = _read_or_none(directory / LOG_START_OFFSET_FILE)
        compacted = _read_or_none(directory / CLEANER_OFFSET_FILE)
        paths = sorted(path for path in directory.iterdir() if path.is_dir())
        how = "as they were shut down cleanly" if clean else "recovering them, as there was no clean shutdown"
        logger.info("Loading %d logs from %s%s", len(paths), directory, f", {how}" if paths else "")
        found = {}
        for path in paths:
            topic_partition = self._identify(path)
            if topic_partition is not None:
                found[path] = LoadOptions(
                    self._default_config,
                    now_ms,
                    log_start_offsets.get(topic_partition, 0),
                    recovery_points.get(topic_partition, 0),
                    clean,
                    self._producer_id_expiration_ms,
                    was_compacted=topic_partition in compacted,
                )
        return found

    def _open_logs(self, directory: Path, found: Mapping[Path, LoadOptions], progress: RecoveryProgress) -> None:
        for count, (path, options) in enumerate(found.items(), 1):
            began = time.monotonic()
            future = _FUTURE.fullmatch(path.name)
            logs = self.logs if future is None else self.futures
            topic_partition = parse_directory_name(path.name if future is None else future[1])
            assert topic_partition is not None
            if topic_partition in logs:
                raise DuplicateLogError(_DUPLICATE.format(topic_partition, path, logs[topic_partition].directory))
            if progress.is_done(path):
                options = options._replace(clean=True, recovered=True)
            log = logs[topic_partition] = self.open(topic_partition, path, options)
            self.log_counts[directory] += 1
            progress.done(path)
            logger.info(
                "Loaded %s with %d segments, log start offset %d and log end offset %d in %d ms "
                "(%d/%d completed in %s)",
                path,
                len(log.segments),
                log.log_start_offset,
                log.log_end_offset,
                (time.monotonic() - began) * 1000,
                count,
                len(found),
                directory,
            )

    def _end_replacements(self) -> None:
        """Complete replacements that a crash interrupted after the old log was renamed: rename the future log."""
        renamed = {path.name.rpartition(".")[0] for path in self._deleted}
        for topic_partition in self.futures.keys() - self.logs.keys():
            if renaming(self.futures[topic_partition]).new.name.rpartition(".")[0] not in renamed:
                continue
            log = self.logs[topic_partition] = self.futures.pop(topic_partition)
            path = log.directory.rename(log.directory.with_name(str(topic_partition)))
            logger.warning("Completed an interrupted replacement: %s is the log of %s", path, topic_partition)
            log.moved_to(path)

    def open(self, topic_partition: TopicPartition, path: Path, options: LoadOptions) -> PartitionLog:
        """Open a log and connect it to the failures and the pace of its directory; OSError if the disk fails."""
        log = PartitionLog(topic_partition, path, self.files, options)
        log.on_disk_error = self.failures.failed
        log.pace = self._paces[path.parent]
        return log

    def _identify(self, path: Path) -> TopicPartition | None:
        """Return the partition whose log `path` is; None for a deleted or stray log, or no log at all."""
        if path.name.endswith(DELETE_SUFFIX):
            self._deleted.append(path)
            return None
        future = _FUTURE.fullmatch(path.name)
        topic_partition = parse_directory_name(path.name if future is None else future[1])
        if topic_partition is not None and topic_partition.topic == KRAFT_METADATA_TOPIC:
            return None
        if topic_partition is None or path.name.endswith(STRAY_SUFFIX):
            kind = "a stray log" if path.name.endswith(STRAY_SUFFIX) else "no log of a partition"
            logger.warning("%s is %s: the broker leaves it alone", path, kind)
            return None
        return topic_partition

    # One log

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """Return the log of a partition, None if this broker has none."""
        return self.logs.get(topic_partition)

    def everything(self) -> Iterator[PartitionLog]:
        """Return all logs, future logs too."""
        return chain(self.logs.values(), self.futures.values())

    def take_unmade(self) -> list[NewLog]:
        """Return the new logs for `make_logs`; each is returned once."""
        unmade, self._unmade = self._unmade, []
        return unmade

    def get_or_create(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes | None,
        config: LogConfig,
        now_ms: int = 0,
        leader_epoch: int = -1,
        *,
        is_new: bool = True,
        log_level: int = logging.INFO,
    ) -> PartitionLog:
        """Return the log of a partition; create it in the online directory with the fewest logs if there is none.

        `take_unmade` returns a new log. `leader_epoch`: -1 if this broker does not lead. Without `is_new` no log is
        created while a directory is offline, because the log may be there. KafkaError INCONSISTENT_TOPIC_ID if the log
        belongs to another topic of this name, INVALID_TOPIC_EXCEPTION for a name that no directory may have.
        """
        log = self.logs.get(topic_partition)
        if log is None:
            is_too_long = len(str(topic_partition)) > LONGEST_NAME  # the file system would fail like a broken disk
            if is_too_long or not _LEGAL_NAME.fullmatch(topic_partition.topic) or topic_partition.partition < 0:
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"no log can be named {topic_partition}")
            if not is_new or not self.online:
                self.check_none_offline(topic_partition)
            directory = self.preferred.get(topic_partition) or min(self.online, key=self.log_counts.__getitem__)
            if directory in self.failures.offline:
                detail = f"Can not create log {topic_partition} because log directory {directory} is offline"
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, detail)
            path = directory / str(topic_partition)
            new = None
            with self.failures.storage(directory, "creating a log in"):
                if not os.path.exists(path):  # noqa: PTH110 - thousands of times
                    new = NewLog(topic_partition, path, topic_id, leader_epoch, config.segment_index_bytes)
                expiration_ms = self._producer_id_expiration_ms
                options = LoadOptions(config, now_ms, producer_id_expiration_ms=expiration_ms, new=new)
                log = self.open(topic_partition, path, options)
            if new is not None:
                self._unmade.append(new)
            self.log_counts[directory] += 1
            self.logs[topic_partition] = log
            self.preferred.pop(topic_partition, None)
            logger.log(log_level, "Created log for partition %s in %s", topic_partition, path)
        if topic_id is not None:
            log.set_topic_id(topic_id)
        return log

    def delete(self, topic_partition: TopicPartition) -> Renaming | None:
        """Release a log; None if there is none. The caller renames its directory, then calls `renamed`."""
        log = self.logs.pop(topic_partition, None)
        return None if log is None else self.give_up(log)

    def give_up(self, log: PartitionLog) -> Renaming:
        """Release a log that is in no list any more; return how its directory is to be renamed."""
        log.release()
        self.log_counts[log.directory.parent] -= 1
        return renaming(log)

    def check_none_offline(self, topic_partition: TopicPartition) -> None:
        """KafkaError if a directory is offline, because the log may exist there."""
        if self.failures.offline:
            offline = ",".join(map(str, self.failures.offline))
            detail = f"Can not create log for {topic_partition} because log directories {offline} are offline"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, detail)

    def rename(self, renaming: Renaming) -> None:
        """Rename the directory of a log; KafkaError if the disk fails."""
        with self.failures.storage(renaming.old.parent, "renaming a log of"):
            renaming.old.rename(renaming.new)

    def renamed(self, renaming: Renaming) -> None:
        """Note a renamed directory for `take_deleted`."""
        logger.info("%s is renamed to %s, to be deleted", renaming.old, renaming.new.name)
        self._deleted.append(renaming.new)

    def take_deleted(self) -> list[Path]:
        """Return the directories of deleted logs for `remove_directories`; each is returned once."""
        deleted, self._deleted = self._deleted, []
        return deleted

    def expire_producers_after(self, milliseconds: int) -> None:
        """Set `producer.id.expiration.ms` of all logs."""
        self._producer_id_expiration_ms = milliseconds
        for log in self.everything():
            log.producers.expiration_ms = milliseconds

    # Checkpoints: planned here, written by `write_checkpoints` where the disk may block

    def recovery_points(self) -> OffsetsByFile:
        """Return the recovery points of all logs by checkpoint file."""
        return self._by_file(RECOVERY_POINT_FILE, ((log, log.recovery_point) for log in self.everything()))

    def log_start_offsets(self) -> OffsetsByFile:
        """Return the log start offsets by checkpoint file, but for logs that start where their first segment does."""
        offsets = (
            (log, log.log_start_offset)
            for log in self.everything()
            if log.log_start_offset > log.segments.first_base_offset
        )
        return self._by_file(LOG_START_OFFSET_FILE, offsets)

    def high_watermarks(self, offsets: Mapping[TopicPartition, int]) -> OffsetsByFile:
        """Return high watermarks by checkpoint file, without partitions that have no log here."""
        return self._by_file(HIGH_WATERMARK_FILE, self._with_log(offsets))

    def cleaner_offsets(self, offsets: Mapping[TopicPartition, int]) -> OffsetsByFile:
        """Return the ends of the compacted parts by checkpoint file."""
        return self._by_file(CLEANER_OFFSET_FILE, self._with_log(offsets))

    def not_written(self, failed: Mapping[Path, OSError]) -> None:
        """Report the failures that `write_checkpoints` returned."""
        for path, error in failed.items():
            self.failures.failed(path.parent, error, f"writing {path.name} of")

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        """Return the high watermarks of the checkpoint files."""
        return self._read(HIGH_WATERMARK_FILE)

    def read_cleaner_offsets(self) -> dict[TopicPartition, int]:
        """Return the ends of the compacted parts of the checkpoint files."""
        return self._read(CLEANER_OFFSET_FILE)

    def _read(self, name: str) -> dict[TopicPartition, int]:
        """Return the offsets of all checkpoint files; a file counts only for logs of its own directory."""
        found: dict[TopicPartition, int] = {}
        for directory in self.online:
            for topic_partition, offset in _read_or_none(directory / name).items():
                log = self.logs.get(topic_partition)
                if log is not None and log.directory.parent == directory:
                    found[topic_partition] = offset
        return found

    def _with_log(self, offsets: Mapping[TopicPartition, int]) -> Iterator[tuple[PartitionLog, int]]:
        return ((self.logs[each], offset) for each, offset in offsets.items() if each in self.logs)

    def _by_file(self, name: str, offsets: Iterable[tuple[PartitionLog, int]]) -> OffsetsByFile:
        planned: dict[Path, dict[TopicPartition, int]] = {directory / name: {} for directory in self.online}
        for log, offset in offsets:
            if log.directory.parent not in self.failures.offline:
                planned[log.directory.parent / name][log.topic_partition] = offset
        return planned

    # The end

    def shutdown(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> None:
        """Flush and close all logs; mark each directory as clean if all its logs closed."""
        self.failures.listener = lambda directory: None  # the broker serves nothing any more
        unclean = set()
        for log in self.everything():
            try:
                log.close()
            except KafkaError as error:
                logger.error("Cannot close %s, the next start recovers the logs of its log directory: %s", log, error)
                unclean.add(log.directory.parent)
        try:
            self.not_written(write_checkpoints(self.recovery_points()))
            self.not_written(write_checkpoints(self.log_start_offsets()))
            if high_watermarks is not None:
                self.not_written(write_checkpoints(self.high_watermarks(high_watermarks)))
            for directory in self.online:
                if directory not in unclean:
                    write_clean_shutdown(directory)
            logger.info("Closed %d logs", len(self.logs))
        finally:
            self._locks.release()

    def abandon(self) -> None:
        """Release all logs and locks after a failed start, without a flush or a marker."""
        for log in self.everything():
            log.release()
        self._locks.release()


def _read_or_none(path: Path) -> dict[TopicPartition, int]:
    try:
        return read_offsets(path)
    except CorruptCheckpointError as error:
        logger.warning("%s; the broker takes the checkpoint as empty", error)
        return {}
