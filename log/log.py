"""The log of one partition: appending in order, reading by offset, truncating.

Owns offsets, which segment is active, and when the next segment begins. Must not know leaders, replicas or high
watermarks, sockets or tasks. Counterpart in Kafka: UnifiedLog, LocalLog.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ottla.log.append import Append, SegmentWrite, batches_for, replicated_batches
from ottla.log.append_info import LogAppendInfo
from ottla.log.flushing import Flushes, FlushJob
from ottla.log.recovery.recovery import LoadOptions, load_log, rebuild_producers
from ottla.log.segments.open_files import FileRegion, OpenFile, OpenFiles
from ottla.log.segments.segment import Segment, TimestampAndOffset
from ottla.log.segments.segments import Segments
from ottla.log.state.checkpoint import PARTITION_METADATA_FILE, write_partition_metadata
from ottla.log.state.directory_failures import storage_error
from ottla.log.state.leader_epochs import EpochEndOffset
from ottla.log.state.producer_entry import BatchMetadata
from ottla.log.state.verification import TransactionalAppend
from ottla.log.write_pace import WritePace
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.records.batch import CONTROL_FLAG, LOG_OVERHEAD, BatchHeader, ProducedBatch, place
from ottla.wire.types import TopicPartition

_NO_TIME = -1


def _closed_error(topic_partition: TopicPartition) -> KafkaError:
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log of {topic_partition} is closed")


class PartitionLog:
    """`log_end_offset` is exclusive: the offset that the next record gets."""

    __slots__ = (
        "_files", "_flushes", "_is_closed", "_is_ready", "_new", "_now_ms", "_on_its_way", "config", "directory",
        "leader_epochs", "log_end_offset", "log_start_offset", "on_disk_error", "pace", "producers", "recovery_point",
        "segments", "topic_id", "topic_partition",
    )  # fmt: skip

    def __init__(
        self, topic_partition: TopicPartition, directory: Path, files: OpenFiles, options: LoadOptions
    ) -> None:
        """Open the log in `directory`; recover the log if it was not closed cleanly.

        The directory exists and may be empty. Only a new log (`options.new`) has no directory yet.
        """
        loaded = load_log(directory, files, options)
        self.topic_partition = topic_partition
        self.directory = directory
        self.topic_id = loaded.topic_id
        self.config = options.config
        self.leader_epochs = loaded.leader_epochs
        self.producers = loaded.producers
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.recovery_point = loaded.recovery_point
        self._files = files
        self.segments = Segments(loaded.segments, loaded.log_end_offset)
        self._flushes = Flushes()
        self._new = options.new
        if options.new is None:
            self._sync_identity()  # the process before may have written the files without a sync
        self._now_ms = options.now_ms
        self._is_closed = False
        self._is_ready = options.new is None
        """Whether an append can begin: the files exist, the log is not closed, and no append is on its way."""
        self._on_its_way: Append | None = None
        self.pace = WritePace()
        """The pace of the log directory; the manager sets it."""
        self.on_disk_error: Callable[[Path, OSError], None] = lambda directory, error: None

    def disk_error(self, error: OSError) -> KafkaError:
        """Report an error of the disk to the owner of the log directory; return the error for the caller."""
        self.on_disk_error(self.directory.parent, error)
        return storage_error(error)

    @contextmanager
    def storage(self) -> Iterator[None]:
        """Raise errors of the disk as KAFKA_STORAGE_ERROR. Hot paths use a try statement, because it is faster."""
        try:
            yield
        except OSError as error:
            raise self.disk_error(error) from error

    def __repr__(self) -> str:
        return f"PartitionLog({self.topic_partition}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return sum(segment.size for segment in self.segments)

    # Appending

    def append_as_leader(
        self, batch: ProducedBatch, leader_epoch: int, now_ms: int, how: TransactionalAppend | None = None
    ) -> LogAppendInfo:
        """Give the batch the next offsets and append it.

        Of a duplicate, return the earlier offsets and append nothing. KafkaError if the producer may not append the
        batch now, if the batch is larger than a segment, or if the disk fails. `how`: of a batch in a transaction.
        """
        append = self.begin_as_leader(batch, leader_epoch, now_ms, how)
        if append.segment is not None:
            self._write(append, append.segment)
        return append.leader_info

    def begin_as_leader(
        self, batch: ProducedBatch, leader_epoch: int, now_ms: int, how: TransactionalAppend | None = None
    ) -> Append:
        """Check the batch and give it the next offsets: the first half of `append_as_leader`."""
        if not self._is_ready:
            self._make_changeable()
        header = batch.header
        first_offset = self.log_end_offset
        last_offset = first_offset + header.last_offset_delta
        size = header.batch_length + LOG_OVERHEAD
        max_timestamp = batch.max_timestamp
        if size > self.config.segment_bytes:
            # Before the checks of the producer, as in Kafka.
            raise self._too_large(size)
        try:
            if header.producer_id >= 0:
                if header.attributes & CONTROL_FLAG:
                    self.producers.check_marker(header, batch.data, 0 if how is None else how.transaction_version)
                else:
                    duplicate = self.producers.check(header, self.segments.headers_before, how)
                    if duplicate is not None:
                        return Append((), None, first_offset, 0, self._already_appended(duplicate))
            if leader_epoch != self.leader_epochs.saved_epoch:
                self.leader_epochs.assign(leader_epoch, first_offset)
            segment = self.segments.active
            if segment.should_roll(self.config, size, max_timestamp, last_offset, now_ms):
                segment = self.roll(now_ms, first_offset)
        except OSError as error:
            raise self.disk_error(error) from error
        place(batch.data, first_offset, leader_epoch)
        time_ms = max_timestamp if self.config.log_append_time else _NO_TIME
        info = LogAppendInfo(first_offset, last_offset, time_ms, self.log_start_offset, size)
        return Append((batch,), segment, first_offset, size, info)

    def append_as_follower(self, records: memoryview, now_ms: int) -> None:
        """Append whole batches with the offsets and epochs of their leader; KafkaError as `replicated`."""
        left = self.replicated(records)
        while left:
            append = self.begin_as_follower(left, now_ms)
            assert append.segment is not None
            self._write(append, append.segment)
            left = left[len(append.batches) :]

    def replicated(self, records: memoryview) -> list[ProducedBatch]:
        """Return the checked batches of a leader for `begin_as_follower`; KafkaError as `replicated_batches`."""
        self._make_ready()
        return replicated_batches(records, self.log_end_offset)

    def begin_as_follower(self, batches: Sequence[ProducedBatch], now_ms: int) -> Append:
        """Check the first batches that one write can append to one segment: the first half of an append."""
        if not self._is_ready:
            self._make_changeable()
        first = batches[0].header
        try:
            segment = self.segments.active
            if segment.should_roll(self.config, first.size, first.max_timestamp, first.last_offset, now_ms):
                if first.size > self.config.segment_bytes:
                    raise self._too_large(first.size)
                segment = self.roll(now_ms, first.base_offset)
            together, size = batches_for(segment, batches, self.config, now_ms)
            for each in together:
                if each.header.partition_leader_epoch > self.leader_epochs.latest:
                    self.leader_epochs.assign_unsaved(each.header.partition_leader_epoch, each.header.base_offset)
            self.leader_epochs.save()
        except OSError as error:
            raise self.disk_error(error) from error
        return Append(together, segment, first.base_offset, size, None)

    def _write(self, append: Append, segment: Segment) -> None:
        clock = self.pace.clock
        started = clock()
        try:
            segment.write(append.buffers(), append.size)
        except OSError as error:
            raise self.disk_error(error) from error
        self.pace.took(clock() - started)
        self._count(append, segment)

    def begin_write(self, append: Append) -> SegmentWrite:
        """Return the write of `append` for a worker thread. Nothing else may change the log before `end_append`."""
        assert append.segment is not None
        self.require_idle()
        with self.storage():
            write = SegmentWrite(append, append.segment)
        self._on_its_way = append
        self._is_ready = False
        return write

    def end_append(self, append: Append, write: SegmentWrite) -> None:
        """Count the written batches. KafkaError if the disk failed, or if the log was closed meanwhile."""
        if self._on_its_way is not append:
            raise _closed_error(self.topic_partition)
        self.cancel_append()
        self.pace.took(write.seconds)
        if write.error is not None:
            raise self.disk_error(write.error) from write.error
        assert append.segment is not None
        self._count(append, append.segment)

    def cancel_append(self) -> None:
        """Forget the append that is on its way; no thread may be writing it."""
        self._on_its_way = None
        self._is_ready = not self._is_closed

    def _count(self, append: Append, segment: Segment) -> None:
        offset = append.first_offset
        for batch in append.batches:
            header = batch.header
            if append.info is None:
                offset = header.base_offset  # a leader's batches may have gaps between them
            last_offset = offset + header.last_offset_delta
            segment.added(header.batch_length + LOG_OVERHEAD, last_offset, batch.max_timestamp)
            if header.producer_id >= 0:
                self._note_producer(header, batch.data, offset, batch.max_timestamp)
            offset = last_offset + 1
            self._advance(offset, segment.size)
        if append.info is not None:
            append.info.log_start_offset = self.log_start_offset

    def require_idle(self) -> None:
        """RuntimeError while an append is on its way, because the log must not change before its end."""
        if self._on_its_way is not None:
            raise RuntimeError(f"an append to {self.topic_partition} is on its way")

    def _make_changeable(self) -> None:
        self.require_idle()
        self._make_ready()

    def _note_producer(self, header: BatchHeader, batch: memoryview, first_offset: int, timestamp: int) -> None:
        if header.is_control:
            aborted = self.producers.end_transaction(header, batch, first_offset)
            if aborted is not None:
                self.segments.active.transactions.append(aborted)
                self._flushes.new_names = True
        else:
            self.producers.update(header, first_offset, timestamp)

    def _already_appended(self, batch: BatchMetadata) -> LogAppendInfo:
        return LogAppendInfo(
            batch.first_offset, batch.last_offset, batch.timestamp, self.log_start_offset, 0, is_duplicate=True
        )

    def _advance(self, end_offset: int, position: int) -> None:
        self.log_end_offset = self.producers.end_offset = end_offset
        self.segments.remember(end_offset, self.segments.active, position)

    def _too_large(self, size: int) -> KafkaError:
        return KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"Message batch size is {size} bytes in append to partition {self.topic_partition}, "
            f"which exceeds the maximum configured segment size of {self.config.segment_bytes}.",
        )

    def roll(self, now_ms: int, base_offset: int | None = None) -> Segment:
        """Begin a new active segment at `base_offset` (default: the log end), and return the active segment."""
        self.require_idle()
        base_offset = self.log_end_offset if base_offset is None else base_offset
        old = self.segments.active
        if base_offset == old.base_offset:
            return old
        segment = Segment(self._files, self.directory, base_offset, self.config, now_ms)
        try:
            segment.create()
            old.become_inactive()
            self.producers.end_offset = base_offset
            snapshot = self.producers.take_snapshot(sync=False)
        except OSError:
            segment.delete()
            old.resize_indexes_to_max()
            raise
        if snapshot is not None:
            self._flushes.add_path(snapshot)
        self.segments.add(segment)
        self._flushes.new_names = True
        self._now_ms = now_ms
        return segment

    def _make_ready(self) -> None:
        """Create the files of a new log, unless they exist; KafkaError if the log is closed."""
        if self._is_closed:
            raise _closed_error(self.topic_partition)
        if self._new is not None:
            with self.storage():
                self._new.make()
            self.made()

    def made(self) -> None:
        """Note that the files of a new log exist."""
        if self._new is not None:
            new, self._new = self._new, None
            self._is_ready = not self._is_closed
            self.leader_epochs.was_saved(new.epochs)
            self._sync_identity()

    # Reading

    def read(
        self, offset: int, max_bytes: int, end_offset_exclusive: int, min_one_message: bool, may_copy: bool = True
    ) -> FileRegion | bytes | bytearray:
        """Return batches of one segment, from the batch with `offset` on; `max_bytes` may cut the last batch.

        A small result in the page cache is returned as bytes (`may_copy`), any other as a region of a file. With
        `min_one_message` the first batch is whole, whatever its size; without, a first batch larger than `max_bytes`
        is left out. The result ends before `end_offset_exclusive`. KafkaError OFFSET_OUT_OF_RANGE.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Received request for offset {offset} for partition {self.topic_partition}, but we only have log "
                f"segments in the range {self.log_start_offset} to {self.log_end_offset}.",
            )
        if offset >= end_offset_exclusive:
            return b""
        self._make_ready()
        try:
            # No search for the end of the log, because the last segment ends there.
            end_offset = None if end_offset_exclusive >= self.log_end_offset else end_offset_exclusive
            return self.segments.read(offset, max_bytes, end_offset, min_one_message, may_copy, self.disk_error)
        except OSError as error:
            raise self.disk_error(error) from error

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampAndOffset | None:
        """Return the first record that is not older than `timestamp_ms`, None if there is none."""
        self._make_ready()
        with self.storage():
            return self.segments.offset_for_timestamp(timestamp_ms, self.log_start_offset)

    def offset_of_max_timestamp(self) -> TimestampAndOffset | None:
        """Return the first record with the largest timestamp, None in a log without timestamps."""
        self._make_ready()
        with self.storage():
            return self.segments.offset_of_max_timestamp()

    # Leader epochs and identity

    def assign_epoch(self, leader_epoch: int) -> None:
        """Note that `leader_epoch` begins at the log end."""
        self.require_idle()
        self.leader_epochs.assign_unsaved(leader_epoch, self.log_end_offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        """Return the end offset of `epoch` in this replica."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    def set_topic_id(self, topic_id: bytes) -> None:
        """Write the id of the topic; KafkaError INCONSISTENT_TOPIC_ID if the log has another id."""
        if self.topic_id is None:
            self._make_ready()
            with self.storage():
                write_partition_metadata(self.directory / PARTITION_METADATA_FILE, topic_id)
            self.topic_id = topic_id
            self._sync_identity()
        elif self.topic_id != topic_id:
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, f"{self.topic_partition} has another topic id")

    def _sync_identity(self) -> None:
        if self.topic_id is not None:
            self._flushes.add_path(self.directory / PARTITION_METADATA_FILE)
        self.leader_epochs.unsynced |= bool(self.leader_epochs.entries)

    def moved_to(self, directory: Path) -> None:
        """Note the new name of the directory. No flush may be on its way."""
        self.require_idle()
        self.directory = directory
        for each in (self._flushes, self.leader_epochs, self.producers, *self.segments):
            each.moved_to(directory)

    # Truncating

    def truncate_to(self, offset: int) -> None:
        """Drop all records from `offset` on, and the whole batch that contains `offset`."""
        if offset < 0:
            raise ValueError(f"Cannot truncate {self.topic_partition} to {offset}")
        self.require_idle()
        if offset >= self.log_end_offset:
            # An epoch without a record may contradict the epochs of the new leader.
            self.leader_epochs.truncate_from_end(self.log_end_offset)
            return
        if self.segments.first_base_offset > offset:
            self.truncate_fully_and_start_at(offset)
            return
        self._make_ready()
        with self.storage():
            self.segments.delete_from(self.segments.floor_slot(offset) + 1)
            self.segments.active.truncate_to(offset)
            self.segments.forget()
            self._truncated(offset, min(offset, self.log_start_offset))
            self.leader_epochs.truncate_from_end(offset)
            rebuild_producers(self.producers, self.segments, self.log_start_offset, offset, self._now_ms)

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Drop all records; the next record gets `offset`."""
        self._make_changeable()
        with self.storage():
            self.segments.delete_from(0)
            segment = Segment(self._files, self.directory, offset, self.config, self._now_ms)
            segment.create()
            self.segments.add(segment)
            self._truncated(offset, offset if log_start_offset is None else log_start_offset)
            self.leader_epochs.clear()
            self.producers.truncate_fully(offset)

    def _truncated(self, log_end_offset: int, log_start_offset: int) -> None:
        self.log_end_offset = log_end_offset
        self.log_start_offset = log_start_offset
        self.recovery_point = min(self.recovery_point, log_end_offset)
        self.segments.lowest_cut = min(self.segments.lowest_cut, log_end_offset)
        self._discard_flushes()

    def increment_log_start_offset(self, offset: int) -> None:
        """Hide records below `offset`, even in a segment that keeps later records."""
        self._make_ready()
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            with self.storage():
                self.leader_epochs.truncate_from_start(offset)

    # Flushing and closing

    def flush_job(self, up_to: int | None = None) -> FlushJob | None:
        """Return the flush of all records below `up_to` (default: all); None if nothing is to be flushed."""
        end_offset = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        if end_offset <= self.recovery_point:
            return None
        files: list[OpenFile] = []
        try:
            # The segment that ends at the recovery point counts too: rolling it wrote the last entries of its indexes.
            for segment in self.segments.reaching(self.recovery_point - 1):
                if segment.base_offset < end_offset:
                    files += segment.unsynced_files()
        except OSError as error:
            self._discard_flushes()
            raise self.disk_error(error) from error
        if self.leader_epochs.unsynced:
            self._flushes.add_path(self.leader_epochs.path)
            self.leader_epochs.unsynced = False
        return self._flushes.begin(end_offset, files, self.directory)

    def flushed(self, job: FlushJob) -> None:
        """Note that a job has run. The recovery point moves when all jobs before it have run."""
        end_offset = self._flushes.done(job)
        if end_offset is not None:
            self.recovery_point = max(self.recovery_point, end_offset)

    def flush_failed(self, job: FlushJob, error: Exception) -> None:
        """Note that a job failed. The next job syncs everything again, because the disk may have kept nothing."""
        self._discard_flushes()
        if isinstance(error, OSError):
            self.on_disk_error(self.directory.parent, error)

    def _discard_flushes(self) -> None:
        self._flushes.discard()
        for segment in self.segments.reaching(self.recovery_point):
            segment.mark_unsynced()

    def flush(self, up_to: int | None = None) -> None:
        """Flush all records below `up_to` (default: all), and wait."""
        job = self.flush_job(up_to)
        if job is not None:
            try:
                job.run()
            except OSError as error:
                self.flush_failed(job, error)
                raise storage_error(error) from error
            self.flushed(job)

    def close(self) -> None:
        """Complete and sync the files, so that the next start needs no recovery."""
        if self._is_closed:
            return
        self._make_changeable()
        with self.storage():
            self.segments.active.become_inactive()
            self.leader_epochs.save()
            self.producers.take_snapshot(sync=True)
        self._discard_flushes()
        self.flush()
        self.release()

    def release(self) -> None:
        """Close all files as they are, for a log that is deleted or abandoned. Regions of open files stay readable.

        An append on its way is forgotten; its write goes on, because it has a descriptor of its own.
        """
        self._is_closed = True
        self.cancel_append()
        for segment in self.segments:
            segment.release()
