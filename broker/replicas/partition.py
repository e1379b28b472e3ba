"""One hosted partition: role, epochs, high watermark, and what may be appended and read.

Owns the rules of leadership (fencing by leader epoch, min ISR), the high watermark, and the followers' positions.
Methods return what moved. Must not know requests, sessions or watchers. Plain blocking Python.
Counterpart in Kafka: Partition (and the high watermark of UnifiedLog).
"""

import logging
from collections.abc import Callable, Collection
from typing import Final

from ottla.broker.config.throttle import is_throttled
from ottla.broker.replicas import in_sync as isr
from ottla.broker.replicas.in_sync import InSyncReplicas, Replica
from ottla.broker.replicas.reads import TO_HIGH_WATERMARK, TO_LAST_STABLE_OFFSET, TO_LOG_END, Asked, ReadResult
from ottla.broker.replicas.watchers import EVERYTHING, HIGH_WATERMARK, ISR_PROPOSED, LOG_END, NOTHING
from ottla.log.append import Append
from ottla.log.append_info import LogAppendInfo
from ottla.log.config import LogConfig
from ottla.log.log import PartitionLog
from ottla.log.segments.segment import TimestampAndOffset
from ottla.log.state.leader_epochs import EpochEndOffset
from ottla.log.state.verification import TransactionalAppend, VerificationGuard
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.fetch import AbortedTransaction
from ottla.wire.messages.leader_and_isr import LeaderAndIsrPartitionState
from ottla.wire.records.batch import ProducedBatch, RecordRules
from ottla.wire.types import NO_EPOCH, ZERO_UUID, TopicPartition

logger = logging.getLogger("kafka.cluster.Partition")

NO_LEADER: Final = -1
NO_TIMESTAMP: Final = -1
# The offset by which DeleteRecords means all committed records.
UP_TO_HIGH_WATERMARK: Final = -1
_NEVER: Final = 0x7FFFFFFFFFFFFFFF

# Special timestamps of ListOffsets.
LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5


class Partition:
    """A replica on this broker."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        log: PartitionLog,
        rules: RecordRules,
        *,
        broker_id: int,
        max_lag_ms: int,
        high_watermark: int,
        is_alive: Callable[[int], bool],
    ) -> None:
        """`high_watermark` is from the checkpoint; `is_alive(broker_id)` says whether a broker is registered."""
        self.topic_partition = topic_partition
        self.log = log
        self._broker_id = broker_id
        self.use_config(log.config, rules)
        self.is_leader = False
        self.is_offline = False
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.leader_epoch_start_offset: int | None = None
        self.partition_epoch = -1
        self.high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        self.in_sync = InSyncReplicas(())
        self.followers: dict[int, Replica] = {}
        self._max_lag_ms = max_lag_ms
        self._is_alive = is_alive

    def use_config(self, config: LogConfig, rules: RecordRules) -> None:
        """Apply changed configs. The open segment keeps the spacing of its indexes."""
        self.log.config = config
        # The rules for produced batches.
        self.rules = rules
        # These are looked up once here, because every append and fetch asks for them.
        self.flushes_by_count = config.flush_messages < _NEVER
        here = self.topic_partition.partition, self._broker_id
        self.is_throttled_leader = is_throttled(config.values["leader.replication.throttled.replicas"], *here)
        self.is_throttled_follower = is_throttled(config.values["follower.replication.throttled.replicas"], *here)

    # Roles

    def check_role(self, topic_id: bytes, state: LeaderAndIsrPartitionState) -> ErrorCode | None:
        """Return the code that answers a role that is not taken; None if it is to be taken."""
        if self.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if topic_id != ZERO_UUID and self.log.topic_id not in (None, topic_id):
            return ErrorCode.INCONSISTENT_TOPIC_ID
        if state.leader_epoch > self.leader_epoch:
            return None
        if state.leader_epoch == self.leader_epoch and self.log.topic_id is None and topic_id != ZERO_UUID:
            # A controller that was upgraded gives a topic id to an old topic.
            self.log.set_topic_id(topic_id)
            return ErrorCode.NONE
        return ErrorCode.STALE_CONTROLLER_EPOCH

    def make_leader(self, state: LeaderAndIsrPartitionState, now_ms: int) -> int:
        """Lead in the state that the controller sent; return what moved."""
        log = self.log
        was_leader = self.is_leader
        if state.partition_epoch < self.partition_epoch:
            return NOTHING
        self.partition_epoch = state.partition_epoch
        self.in_sync = InSyncReplicas(state.isr)
        for broker_id in set(self.followers).difference(state.replicas):
            del self.followers[broker_id]
        for broker_id in state.replicas:
            if broker_id != self._broker_id:
                self.followers.setdefault(broker_id, Replica(broker_id))
        is_new_epoch = state.leader_epoch > self.leader_epoch
        if is_new_epoch:
            end = log.log_end_offset
            # Followers may hold records of a later epoch than any in this log. They find the offset to truncate to only
            # if this log has the epoch before its first record.
            log.assign_epoch(state.leader_epoch)
            for replica in self.followers.values():
                in_sync = replica.broker_id in state.isr
                replica.reset(now_ms, end, is_new_leader=not was_leader, is_in_sync=in_sync)
            self.leader_epoch = state.leader_epoch
            self.leader_epoch_start_offset = end
        self.leader_id = self._broker_id
        self.is_leader = not self.is_offline
        moved = self._raise_high_watermark(now_ms)
        # Watchers with an older epoch get an error.
        return EVERYTHING if is_new_epoch else moved

    def make_follower(self, state: LeaderAndIsrPartitionState) -> int:
        """Follow in the state that the controller sent; return what moved."""
        if state.partition_epoch < self.partition_epoch:
            return NOTHING
        self.partition_epoch = state.partition_epoch
        is_new_epoch = state.leader_epoch > self.leader_epoch
        self.is_leader = False
        self.leader_id = state.leader
        self.leader_epoch = state.leader_epoch
        self.leader_epoch_start_offset = None
        self.in_sync = InSyncReplicas(())
        self.followers.clear()
        return EVERYTHING if is_new_epoch else NOTHING

    def make_offline(self) -> None:
        """Serve nothing until the broker starts anew, because the disk failed."""
        self.is_offline = True
        self.is_leader = False

    def resign(self) -> None:
        """Stop leading, because the partition is deleted or the broker ends; holders of this object get errors."""
        self.is_leader = False

    # Appending

    def start_verification(
        self, producer_id: int, sequence: int, epoch: int, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationGuard | None:
        """Return the guard for an append in a transaction, None if the transaction is open."""
        if not self.is_leader:
            raise self._refusal()
        return self.log.producers.start_verification(producer_id, sequence, epoch, supports_epoch_bump, now_ms)

    def append_as_leader(
        self, batch: ProducedBatch, required_acks: int, now_ms: int, how: TransactionalAppend | None = None
    ) -> tuple[LogAppendInfo, int]:
        """Append a validated batch; return the log's result, and what moved."""
        self._require_appends(required_acks)
        info = self.log.append_as_leader(batch, self.leader_epoch, now_ms, how)
        return info, self.appended(info, now_ms)

    def begin_append(
        self, batch: ProducedBatch, required_acks: int, now_ms: int, how: TransactionalAppend | None = None
    ) -> Append:
        """Begin an append whose write a worker thread makes; `appended` ends it."""
        self._require_appends(required_acks)
        return self.log.begin_as_leader(batch, self.leader_epoch, now_ms, how)

    def _require_appends(self, required_acks: int) -> None:
        if not self.is_leader:
            raise self._refusal()
        if required_acks == -1 and self.is_under_min_isr:
            minimum = self.log.config.min_insync_replicas
            detail = f"{len(self.in_sync.committed)} in sync, min.insync.replicas is {minimum}"
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, detail)

    def appended(self, info: LogAppendInfo, now_ms: int) -> int:
        """Take in that the log holds an append; return what moved. KafkaError if the disk failed meanwhile."""
        if self.is_offline:
            raise self._refusal()
        if info.is_duplicate:
            return NOTHING
        if not self.is_leader:
            return LOG_END
        if not self.followers and not self.flushes_by_count:
            self.high_watermark = self.log.log_end_offset
            return EVERYTHING
        return LOG_END | self._raise_high_watermark(now_ms)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether fewer replicas are in sync than `min.insync.replicas`."""
        if not self.followers:
            return False
        min_isr = isr.effective_min_isr(self.log.config.min_insync_replicas, len(self.followers) + 1)
        return len(self.in_sync.committed) < min_isr

    @property
    def needs_flush(self) -> bool:
        """Whether an fsync is due by `flush.messages`; until then the high watermark does not rise."""
        log = self.log
        if not self.flushes_by_count:
            return False
        return log.log_end_offset - log.recovery_point >= log.config.flush_messages

    def flushed(self, now_ms: int) -> int:
        """Take in that the log was flushed; return what moved."""
        return self._raise_high_watermark(now_ms) if self.is_leader else NOTHING

    def acks_error(self, required_offset: int, required_acks: int) -> ErrorCode | None:
        """Return NONE if an append is acknowledged, an error if it never will be, and None while that is open."""
        log = self.log
        if not self.is_leader:
            return self._refusal().code
        if required_acks != -1:
            done = log.recovery_point >= required_offset or not self.needs_flush
            return ErrorCode.NONE if done else None
        if self.high_watermark < required_offset:
            return None
        # Replicas may have left the in-sync replicas since the append.
        min_isr = isr.effective_min_isr(log.config.min_insync_replicas, len(self.followers) + 1)
        enough = len(self.in_sync.maximal) >= min_isr
        return ErrorCode.NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def _raise_high_watermark(self, now_ms: int) -> int:
        log = self.log
        # Records are not visible before an fsync that is due for them.
        end = log.recovery_point if self.needs_flush else log.log_end_offset
        min_isr = isr.effective_min_isr(log.config.min_insync_replicas, len(self.followers) + 1)
        before = self.high_watermark
        self.high_watermark = isr.high_watermark(
            before, end, self.followers, self.in_sync, min_isr, now_ms, self._max_lag_ms, self._is_alive
        )
        return HIGH_WATERMARK if self.high_watermark > before else NOTHING

    # Deleting

    def delete_records(self, offset: int) -> int:
        """Move the log start to `offset` (UP_TO_HIGH_WATERMARK: the high watermark); return that offset."""
        log = self._log_for(NO_EPOCH, True)
        if not log.config.delete:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"cleanup.policy of {self.topic_partition} deletes nothing")
        wanted = self.high_watermark if offset == UP_TO_HIGH_WATERMARK else offset
        if not 0 <= wanted <= self.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{wanted} is not below {self.high_watermark}")
        if wanted > log.log_start_offset:
            log.increment_log_start_offset(wanted)
            logger.info("%s begins at offset %d now, records were deleted", self.topic_partition, wanted)
        return wanted

    @property
    def low_watermark(self) -> int:
        """The lowest log start offset of all live replicas."""
        followers = [each.log_start_offset for each in self.followers.values() if self._is_alive(each.broker_id)]
        return min([self.log.log_start_offset, *followers])

    def deletion_error(self, wanted: int) -> ErrorCode | None:
        """Return NONE if all live replicas start at `wanted` or later, an error if that fails, and None while open."""
        if not self.is_leader:
            return self._refusal().code
        return ErrorCode.NONE if self.low_watermark >= wanted else None

    # Reading

    @property
    def last_stable_offset(self) -> int:
        """The offset of the first open transaction, or the high watermark if that is lower."""
        log = self.log
        unstable = log.producers.first_unstable_offset(self.high_watermark)
        if unstable is None:
            return self.high_watermark
        return min(self.high_watermark, max(unstable, log.log_start_offset))

    def read(
        self,
        asked: Asked,
        max_bytes: int,
        at_least_one: bool,
        how_far: int,
        *,
        from_leader_only: bool,
        may_copy: bool = True,
    ) -> ReadResult:
        """Read records from the position of a request; KafkaError if that is not possible."""
        epoch = asked.current_leader_epoch
        # In a Fetch any negative epoch means NO_EPOCH, unlike elsewhere.
        log = self._log_for(epoch if epoch >= 0 else NO_EPOCH, from_leader_only)
        offset = asked.fetch_offset
        start = log.log_start_offset
        end = log.log_end_offset
        high_watermark = self.high_watermark
        stable = self.last_stable_offset
        if asked.last_fetched_epoch >= 0:
            diverging = self._divergence(log, asked.last_fetched_epoch, offset)
            if diverging is not None:
                return ReadResult(ErrorCode.NONE, b"", high_watermark, stable, start, True, diverging)
        if offset < start or offset > end:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is not within {start} and {end}")
        bound = end if how_far == TO_LOG_END else high_watermark if how_far == TO_HIGH_WATERMARK else stable
        if offset >= bound:
            return ReadResult(ErrorCode.NONE, b"", high_watermark, stable, start)
        if max_bytes < 0:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"cannot read {max_bytes} bytes")
        if max_bytes == 0 and not at_least_one:
            return ReadResult(ErrorCode.NONE, b"", high_watermark, stable, start, False)
        records = log.read(offset, max_bytes, bound, at_least_one, may_copy)
        result = ReadResult(ErrorCode.NONE, records, high_watermark, stable, start, False)
        if offset < log.segments.active.base_offset and result.size:
            segments = log.segments
            result.is_of_older_segment = segments.floor_slot(offset) < segments.floor_slot(bound)
        if not result.size and max_bytes > 0:
            # The first batch is larger than `max_bytes`. Kafka looks for no transactions then.
            result.aborted_transactions = None
        elif how_far == TO_LAST_STABLE_OFFSET and result.size:
            with log.storage():
                found = log.segments.aborted_transactions(offset, result.size, end)
            result.aborted_transactions = [
                AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset) for each in found
            ]
        return result

    def refer(self, asked: Asked, broker_id: int) -> ReadResult:
        """Return a result that sends a consumer to another replica; KafkaError if it asks in another epoch."""
        epoch = asked.current_leader_epoch
        log = self._log_for(epoch if epoch >= 0 else NO_EPOCH, False)
        stable, start = self.last_stable_offset, log.log_start_offset
        return ReadResult(ErrorCode.NONE, b"", self.high_watermark, stable, start, False, None, broker_id)

    def _divergence(self, log: PartitionLog, epoch: int, offset: int) -> tuple[int, int] | None:
        end = log.end_offset_for_epoch(epoch)
        if end.epoch == NO_EPOCH or end.end_offset < 0:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"the end of epoch {epoch} is not known")
        if offset < log.log_start_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is below {log.log_start_offset}")
        if end.epoch < epoch or end.end_offset < offset:
            return end.epoch, end.end_offset
        return None

    def read_as_follower(
        self,
        broker_id: int,
        broker_epoch: int,
        asked: Asked,
        max_bytes: int,
        at_least_one: bool,
        now_ms: int | None,
        *,
        may_copy: bool = True,
    ) -> tuple[ReadResult, int]:
        """Read for a follower; return the result, and what moved.

        The follower has all records before its position. That is taken in when its request arrives, and not when a
        waiting request is looked at again: `now_ms` is None then.
        """
        epoch = asked.current_leader_epoch
        log = self._log_for(epoch if epoch >= 0 else NO_EPOCH, True)
        replica = self.followers.get(broker_id)
        if replica is None:
            # One of the two has older state. The follower tries again.
            code = ErrorCode.UNKNOWN_LEADER_EPOCH if epoch >= 0 else ErrorCode.NOT_LEADER_OR_FOLLOWER
            raise KafkaError(code, f"broker {broker_id} is no replica of {self.topic_partition}")
        end = log.log_end_offset
        result = self.read(asked, max_bytes, at_least_one, TO_LOG_END, from_leader_only=True, may_copy=may_copy)
        if now_ms is None or result.is_diverging:
            return result, NOTHING
        starts_later = asked.log_start_offset > replica.log_start_offset
        replica.fetched(asked.fetch_offset, asked.log_start_offset, now_ms, end, broker_epoch)
        # The ISR first: the high watermark waits for a new member from its proposal on.
        moved = self._expand_isr(replica) | self._raise_high_watermark(now_ms)
        # Requests that wait for a follower to delete records watch the high watermark.
        return result, moved | HIGH_WATERMARK if starts_later else moved

    # In-sync replicas

    def _expand_isr(self, replica: Replica) -> int:
        start = self.leader_epoch_start_offset
        if start is None or not isr.may_join(replica, self.in_sync, self.high_watermark, start):
            return NOTHING
        if not self._is_alive(replica.broker_id):
            return NOTHING
        self.in_sync = self.in_sync.propose({*self.in_sync.committed, replica.broker_id})
        return ISR_PROPOSED

    def shrink_isr(self, now_ms: int) -> int:
        """Propose the in-sync replicas without the followers that lag; return ISR_PROPOSED if there are any."""
        if not self.is_leader:
            return NOTHING
        end = self.log.log_end_offset
        lagging = isr.out_of_sync(self.followers, self.in_sync, end, now_ms, self._max_lag_ms)
        if not lagging:
            return NOTHING
        self.in_sync = self.in_sync.propose(self.in_sync.committed - lagging)
        return ISR_PROPOSED

    def isr_changed(self, members: Collection[int], partition_epoch: int, now_ms: int) -> int:
        """Take over the in-sync replicas that the controller committed; return what moved."""
        self.in_sync = InSyncReplicas(members)
        self.partition_epoch = partition_epoch
        return self._raise_high_watermark(now_ms)

    def isr_unchanged(self) -> None:
        """Drop the proposal, because the controller refused it."""
        self.in_sync = InSyncReplicas(self.in_sync.order)

    # Offsets

    def offset_for_timestamp(
        self, timestamp: int, how_far: int, current_leader_epoch: int, *, from_leader_only: bool
    ) -> TimestampAndOffset | None:
        """Return the first offset with a timestamp not below the given one, or the offset of a special timestamp."""
        log = self._log_for_lookup(current_leader_epoch, from_leader_only)
        if timestamp == LATEST_TIMESTAMP:
            self._check_offsets_are_available(how_far)
            return TimestampAndOffset(NO_TIMESTAMP, self._bound(how_far), self.leader_epoch)
        if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            start = log.log_start_offset
            return TimestampAndOffset(NO_TIMESTAMP, start, log.leader_epochs.epoch_for_offset(start))
        if timestamp == LATEST_TIERED_TIMESTAMP:
            found: TimestampAndOffset | None = TimestampAndOffset(NO_TIMESTAMP, -1, NO_EPOCH)
        elif timestamp == MAX_TIMESTAMP:
            found = log.offset_of_max_timestamp()
        else:
            found = log.offset_for_timestamp(timestamp)
        if found is None or found.offset >= self._bound(how_far):
            self._check_offsets_are_available(how_far)
            return None
        return found

    def _bound(self, how_far: int) -> int:
        if how_far == TO_LOG_END:
            return self.log.log_end_offset
        return self.high_watermark if how_far == TO_HIGH_WATERMARK else self.last_stable_offset

    def _check_offsets_are_available(self, how_far: int) -> None:
        """KafkaError while a new leader's high watermark may be lower than the one that its predecessor returned."""
        start = self.leader_epoch_start_offset
        if how_far != TO_LOG_END and start is not None and start > self.high_watermark:
            detail = f"the high watermark {self.high_watermark} is below the start of the epoch, {start}"
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, detail)

    def end_offset_for_epoch(self, epoch: int, current_leader_epoch: int) -> EpochEndOffset:
        """Return the end of a leader epoch in the leader's log."""
        return self._log_for_lookup(current_leader_epoch, True).end_offset_for_epoch(epoch)

    # Fencing

    def _log_for_lookup(self, current_leader_epoch: int, from_leader_only: bool) -> PartitionLog:
        """As `_log_for`; only -1 means NO_EPOCH, where in a Fetch any negative epoch does, as in Kafka."""
        if current_leader_epoch < NO_EPOCH:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"leader epoch {current_leader_epoch}")
        return self._log_for(current_leader_epoch, from_leader_only)

    def _log_for(self, current_leader_epoch: int, from_leader_only: bool) -> PartitionLog:
        if self.is_offline:
            raise self._refusal()
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:
            is_old = current_leader_epoch < self.leader_epoch
            code = ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
            raise KafkaError(code, f"leader epoch {current_leader_epoch}, here {self.leader_epoch}")
        if from_leader_only and not self.is_leader:
            raise self._refusal()
        return self.log

    def _refusal(self) -> KafkaError:
        if self.is_offline:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {self.topic_partition} is offline")
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {self._broker_id} does not lead")
