"""Moves of replicas from one log directory of this broker to another.

Owns the tasks that copy, one for each replica, at most one at a time for each directory. The future log follows the
current log as a follower follows its leader, and replaces it once both end at the same offset. A task runs while its
log is among the future logs: removing the log from there ends the move. Must not know requests.
Counterparts in Kafka: ReplicaManager.alterReplicaLogDirs, ReplicaAlterLogDirsThread.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import trio

from ottla.broker.config.throttle import ReplicationQuota
from ottla.broker.replicas.manager import ReplicaManager
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.parts import ReplicaParts
from ottla.broker.replication.apply import restart_in_batch
from ottla.broker.replication.decisions import truncation_offset
from ottla.log.append_info import UnexpectedAppendOffsetError
from ottla.log.future_logs import create_future, delete_future, future_name, replace_current
from ottla.log.log import PartitionLog
from ottla.log.manager import rename_directories
from ottla.log.segments.open_files import FileRegion
from ottla.log.segments.segments import UncheckedSegmentError
from ottla.log.state.checkpoint import sync_directory
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition

logger = logging.getLogger("kafka.server.ReplicaAlterLogDirsThread")

_CHUNK_BYTES: Final = 1 << 20
_THROTTLED_SECONDS: Final = 0.1
_RETRY_SECONDS: Final = 1.0


class LogDirMoves:
    """All moves of one broker."""

    def __init__(
        self,
        replicas: ReplicaManager,
        parts: ReplicaParts,
        quota: ReplicationQuota,
        checkpoint: Callable[[], Awaitable[None]],
    ) -> None:
        """`checkpoint` writes all checkpoint files of the log directories."""
        self._replicas = replicas
        self._logs = parts.logs
        self._clock = parts.clock
        self._offload = parts.offload
        self._start_soon = parts.start_soon
        self._hosted = parts.hosted
        self._group_commit = parts.group_commit
        self._segment_checks = parts.segment_checks
        self._slow_appends = parts.slow_appends
        self._log_replaced = parts.events.log_replaced
        self._quota = quota
        self._checkpoint = checkpoint
        self._slots = trio.CapacityLimiter(len(self._logs.directories))
        self._moving: set[PartitionLog] = set()

    def move(self, topic_partition: TopicPartition, path: str) -> None:
        """Move a replica to the directory with this absolute path; KafkaError if that is not possible.

        A replica that this broker does not host yet will be created there. A replica that is there already stays, and a
        move of it to another directory ends.
        """
        future_name(topic_partition)
        directory = self._logs.log_directory(path)
        present, future = self._logs.logs.get(topic_partition), self._logs.futures.get(topic_partition)
        try:
            partition: Partition | None = self._replicas.partition(*topic_partition)
        except KafkaError as error:
            partition, absent = None, error
        if partition.is_offline if partition is not None else absent.code == ErrorCode.KAFKA_STORAGE_ERROR:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Partition {topic_partition} is offline")
        if future is not None and future.directory.parent != directory:
            self._cancel(topic_partition)
            future = None
        if directory not in {log.directory.parent for log in (present, future) if log is not None}:
            self._logs.preferred[topic_partition] = directory
        if partition is None:
            is_elsewhere = absent.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, absent.detail) if is_elsewhere else absent
        if future is None and partition.log.directory.parent != directory:
            create_future(self._logs, topic_partition, directory, self._clock.now_ms())
            self._begin(partition)

    def _cancel(self, topic_partition: TopicPartition) -> None:
        renaming = delete_future(self._logs, topic_partition)
        if renaming is not None:
            (error,) = rename_directories([renaming])
            if error is None:
                self._logs.renamed(renaming)
            else:
                self._logs.failures.failed(renaming.old.parent, error, "deleting a log of")

    def go_on(self, partition: Partition) -> None:
        """Begin to copy if the partition has a future log."""
        if partition.topic_partition in self._logs.futures:
            self._begin(partition)

    def _begin(self, partition: Partition) -> None:
        future = self._logs.futures[partition.topic_partition]
        if future not in self._moving:
            self._moving.add(future)
            self._start_soon(self._run, partition, future)

    async def _run(self, partition: Partition, future: PartitionLog) -> None:
        try:
            async with self._slots:
                while self._goes_on(partition, future):
                    try:
                        await self._move(partition, future)
                    except (KafkaError, OSError) as error:
                        where = future.directory
                        logger.error("%s cannot be copied to %s, retrying: %s", partition.topic_partition, where, error)
                        await trio.sleep(_RETRY_SECONDS)
        except Exception:
            logger.exception("A bug: the move of %s ends, its current log is served on", partition.topic_partition)
        finally:
            self._moving.discard(future)

    def _goes_on(self, partition: Partition, future: PartitionLog) -> bool:
        is_wanted = self._logs.futures.get(partition.topic_partition) is future
        return is_wanted and self._hosted.hosts(partition) and not partition.is_offline

    async def _move(self, partition: Partition, future: PartitionLog) -> None:
        """Copy all records and flush; copy the records that came meanwhile, and replace the current log at once."""
        if not await self._catch_up(partition, future):
            return
        job = future.flush_job()
        if job is not None:
            try:
                await self._offload(job.run)
            except OSError as error:
                future.flush_failed(job, error)
                raise
            future.flushed(job)
        # The log start offset is only in a checkpoint file.
        await self._checkpoint()
        if not await self._catch_up(partition, future):
            return
        if future.recovery_point < partition.log.recovery_point:
            # Records that were acknowledged after an fsync have to be on the disk. They are few, once for each move.
            future.flush()
        renaming = replace_current(self._logs, partition.topic_partition)
        partition.log = future
        self._log_replaced.notify(partition)
        self._group_commit.maybe_flush(partition)
        for directory in (future.directory.parent, renaming.new.parent):
            try:
                await self._offload(sync_directory, directory)
            except OSError as error:
                self._logs.failures.failed(directory, error)
        await self._checkpoint()
        self._logs.renamed(renaming)

    async def _catch_up(self, partition: Partition, future: PartitionLog) -> bool:
        """Return True with both logs at the same end, or False if the move has ended."""
        while await self._goes_on_idle(partition, future):
            source = partition.log
            align(source, future)
            if future.log_end_offset == source.log_end_offset:
                return True
            if self._quota.is_exceeded(1000 * trio.current_time()):
                await trio.sleep(_THROTTLED_SECONDS)
                continue
            end = source.log_end_offset
            try:
                region = source.read(future.log_end_offset, _CHUNK_BYTES, end, min_one_message=True, may_copy=False)
            except UncheckedSegmentError as unchecked:
                await self._segment_checks.finish(partition, unchecked)
                continue
            if not isinstance(region, FileRegion):
                # The log ends with offsets without records, until more records are appended.
                await trio.sleep(_RETRY_SECONDS)
                continue
            read = region.reader()
            try:
                data = await self._offload(read)
            except OSError as error:
                region.failed(error)
                raise
            if self._goes_on(partition, future):
                await self._append(future, memoryview(data))
                self._quota.record(len(data), 1000 * trio.current_time())
        return False

    async def _goes_on_idle(self, partition: Partition, future: PartitionLog) -> bool:
        """Wait until no append to the current log is under way, then return `_goes_on`."""
        await self._slow_appends.idle(partition.topic_partition)
        return self._goes_on(partition, future)

    async def _append(self, future: PartitionLog, records: memoryview) -> None:
        if future.pace.is_slow:
            with suppress(UnexpectedAppendOffsetError):  # the future log may have to start over first, as below
                await self._slow_appends.append_as_follower(future, records)
                return
        append(future, records, self._clock.now_ms())


def align(source: PartitionLog, future: PartitionLog) -> None:
    """Truncate the future log where it differs from the source, and move its start to the source's."""
    while future.log_end_offset > source.log_start_offset:
        epoch = min(future.leader_epochs.latest, source.leader_epochs.latest)
        if epoch < 0:
            offset = min(source.log_end_offset, future.log_end_offset)
        else:
            offset = truncation_offset(future, *source.end_offset_for_epoch(epoch))
        if offset >= future.log_end_offset:
            break
        logger.info("Truncating %s to %d, as the current log was", future.directory, offset)
        future.truncate_to(offset)
    if future.log_end_offset < source.log_start_offset:
        future.truncate_fully_and_start_at(source.log_start_offset)
    future.increment_log_start_offset(source.log_start_offset)


def append(future: PartitionLog, records: memoryview, now_ms: int) -> None:
    """Append records of the source at the end of the future log."""
    start = future.log_start_offset
    try:
        future.append_as_follower(records, now_ms)
    except UnexpectedAppendOffsetError as error:
        restart_in_batch(future, error, records, now_ms)
        future.increment_log_start_offset(start)
