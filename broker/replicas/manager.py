"""What handlers do with hosted partitions: append, read, wait for acknowledgements, take roles, stop.

Owns the way from a topic and a number to a partition or an error, and the roles. Notifies `OffsetSignal` of what moved,
and `PartitionEvents` of roles. Must not know requests of clients nor connections.
Counterpart in Kafka: ReplicaManager.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, islice
from typing import Final, TypeVar

import trio

from ottla.broker.cluster.metadata_cache import MetadataCache, Node
from ottla.broker.config.broker_config import BrokerConfig
from ottla.broker.config.log_levels import level_of_each, names
from ottla.broker.config.throttle import ReplicationQuota
from ottla.broker.loop.deferred import Deferred
from ottla.broker.replicas.closest_replica import closest_replica
from ottla.broker.replicas.partition import NO_LEADER, Partition
from ottla.broker.replicas.parts import ReplicaParts
from ottla.broker.replicas.reads import NO_REPLICA, Asked, Reader, ReadResult
from ottla.broker.replicas.record_rules import record_rules
from ottla.broker.replicas.role_queue import RoleChanges
from ottla.broker.replicas.stops import ReplicaStops
from ottla.broker.replicas.waits import PartitionWait
from ottla.broker.replicas.watchers import EVERYTHING, ISR_PROPOSED
from ottla.log.append_info import LogAppendInfo
from ottla.log.config import LogConfig
from ottla.log.new_log import make_logs
from ottla.log.state.verification import TransactionalAppend
from ottla.log.strays import make_way
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from ottla.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from ottla.wire.records.batch import ProducedBatch
from ottla.wire.types import NO_EPOCH, ZERO_UUID, TopicPartition
from ottla.wire.uuids import uuid_text

R = TypeVar("R")

logger = logging.getLogger("kafka.server.ReplicaManager")
state_change_logger = logging.getLogger("state.change.logger")

# Logs for each call in a worker thread, which cannot be cancelled.
_NEW_LOGS_AT_ONCE: Final = 100
# Partitions until the next checkpoint: they take a millisecond if each is of another topic.
_RECONFIGURED_AT_ONCE: Final = 50

# A topic's name and id, and the role in one of its partitions.
_Role = tuple[str, bytes, LeaderAndIsrPartitionState]


class ReplicaManager:
    """The hosted partitions of one broker."""

    def __init__(
        self,
        parts: ReplicaParts,
        *,
        metadata: MetadataCache,
        topic_config: Callable[[str], Mapping[str, str]],
        log_defaults: LogConfig,
        replica_lag_time_max_ms: int,
        leader_quota: ReplicationQuota,
        slice_clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._broker_id = parts.broker_id
        self.partitions = parts.hosted.partitions
        self._hosted = parts.hosted
        self._fence = parts.fence
        self._logs = parts.logs
        self._clock = parts.clock
        self._offload = parts.offload
        self._signal = parts.signal
        self._events = parts.events
        self._group_commit = parts.group_commit
        self._segment_checks = parts.segment_checks
        self._slow_appends = parts.slow_appends
        self._metadata = metadata
        self._topic_config = topic_config
        self._log_defaults = log_defaults
        self._max_lag_ms = replica_lag_time_max_ms
        self._leader_quota = leader_quota
        self._saved_high_watermarks: dict[TopicPartition, int] | None = None
        self._role_changes = RoleChanges(parts.start_soon, slice_clock)
        self._stops = ReplicaStops(parts, self._role_changes)

    def partition(self, topic: str, index: int) -> Partition:
        """Return the partition; KafkaError if it is not hosted here."""
        found = self.partitions.get((topic, index))
        if found is None:
            raise self._not_hosted(topic, index)
        return found

    def _not_hosted(self, topic: str, index: int) -> KafkaError:
        if (topic, index) in self._hosted.not_found:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic}-{index} is in an offline log directory")
        if self._metadata.contains(topic, index):
            return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic}-{index} is not on broker {self._broker_id}")
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {topic}-{index}")

    def current_leader(self, topic: str, index: int, listener: str) -> tuple[int, int, Node | None]:
        """Return the leader of a partition, its epoch, and its address.

        The hosted partition is asked before the metadata, because the controller sends LeaderAndIsr first.
        """
        hosted = self.partitions.get((topic, index))
        if hosted is not None and not hosted.is_offline:
            leader, epoch = hosted.leader_id, hosted.leader_epoch
        else:
            known = self._metadata.partition(topic, index)
            leader, epoch = (NO_LEADER, NO_EPOCH) if known is None else (known.leader, known.leader_epoch)
        return leader, epoch, self._metadata.node(leader, listener)

    # Appending

    def append(
        self,
        partition: Partition,
        batch: ProducedBatch,
        required_acks: int,
        now_ms: int,
        how: TransactionalAppend | None = None,
    ) -> LogAppendInfo:
        """Append one batch, notify its watchers, and begin a flush if one is due."""
        info, moved = partition.append_as_leader(batch, required_acks, now_ms, how)
        if moved:
            self._signal.notify(partition.topic_partition, moved)
            if partition.flushes_by_count:
                self._group_commit.maybe_flush(partition)
        return info

    def acks_error(self, partition: Partition, required_offset: int, required_acks: int) -> ErrorCode | None:
        """Return NONE if an append is acknowledged, an error if it never will be, and None while that is open."""
        if not self._hosted.hosts(partition):
            return self._not_hosted(*partition.topic_partition).code
        return partition.acks_error(required_offset, required_acks)

    def await_acks(
        self,
        appended: Sequence[tuple[Partition, int]],
        required_acks: int,
        timeout_ms: int,
        respond: Callable[[list[ErrorCode]], R],
    ) -> Deferred[R]:
        """Return a Deferred that completes with `respond(errors)`, one error code for each partition.

        It completes when each partition is acknowledged up to its offset (exclusive) or never will be, or after
        `timeout_ms` with REQUEST_TIMED_OUT.
        """

        def outcome(partition: Partition, end: int) -> ErrorCode | None:
            return self.acks_error(partition, end, required_acks)

        return PartitionWait(self._clock, self._signal, appended, outcome, timeout_ms, respond, applied=True)

    # Reading

    def read(
        self,
        reader: Reader,
        topic: str,
        index: int,
        topic_id: bytes,
        asked: Asked,
        max_bytes: int,
        *,
        at_least_one: bool,
        is_first_look: bool = True,
        may_copy: bool = True,
    ) -> ReadResult:
        """Read from one partition. A follower's position counts only at the first look, when its request arrived.

        Without `may_copy` no records are returned as bytes in memory.
        """
        partition = self.partitions.get((topic, index))
        if partition is None:
            return ReadResult(self._not_hosted(topic, index).code)
        try:
            if topic_id != ZERO_UUID and partition.log.topic_id not in (None, topic_id):
                return ReadResult(ErrorCode.INCONSISTENT_TOPIC_ID)
            if reader.replica_id >= 0:
                if partition.is_throttled_leader and self._holds_back(partition, reader.replica_id):
                    max_bytes, at_least_one = 0, False
                now_ms = self._clock.now_ms() if is_first_look else None
                result, moved = partition.read_as_follower(
                    reader.replica_id, reader.broker_epoch, asked, max_bytes, at_least_one, now_ms, may_copy=may_copy
                )
                self._signal.notify(partition.topic_partition, moved)
                if moved & ISR_PROPOSED:
                    self._events.isr_proposed.notify(partition)
                return result
            if reader.rack_id:
                preferred = self._closest(partition, reader, asked.fetch_offset)
                if preferred != NO_REPLICA:
                    return partition.refer(asked, preferred)
            return partition.read(
                asked,
                max_bytes,
                at_least_one,
                reader.how_far,
                from_leader_only=reader.from_leader_only,
                may_copy=may_copy,
            )
        except KafkaError as error:
            return self._segment_checks.answer(partition, error)

    def _closest(self, partition: Partition, reader: Reader, fetch_offset: int) -> int:
        def rack_of(broker_id: int) -> str | None:
            node = self._metadata.node(broker_id, reader.listener)
            return None if node is None else node.rack

        return closest_replica(partition, fetch_offset, reader.rack_id, rack_of)

    def _holds_back(self, partition: Partition, replica_id: int) -> bool:
        """Whether throttling denies a follower records now. In-sync replicas get them always, to stay in sync."""
        if replica_id in partition.in_sync.committed:
            return False
        return self._leader_quota.is_exceeded(1000 * self._clock.monotonic())

    def sent_to_follower(self, topic: str | None, index: int, size: int) -> None:
        """Count the bytes that a response to a follower holds, if the partition is throttled."""
        partition = self.partitions.get((topic or "", index))
        if partition is not None and partition.is_throttled_leader:
            self._leader_quota.record(size, 1000 * self._clock.monotonic())

    # Deleting

    def delete_records(self, partition: Partition, offset: int) -> int:
        """Move a log's start to `offset`; see `Partition.delete_records`. Fetch sessions have to name the partition."""
        before = partition.log.log_start_offset
        wanted = partition.delete_records(offset)
        if partition.log.log_start_offset > before:
            self._signal.notify(partition.topic_partition, EVERYTHING)
        return wanted

    def await_deletion(
        self, deleted: Sequence[tuple[Partition, int]], timeout_ms: int, respond: Callable[[list[ErrorCode]], R]
    ) -> Deferred[R]:
        """Complete with `respond(errors)` once all live replicas start at the offset of each partition."""
        outcome = self._deletion_error
        return PartitionWait(self._clock, self._signal, deleted, outcome, timeout_ms, respond, applied=False)

    def _deletion_error(self, partition: Partition, wanted: int) -> ErrorCode | None:
        if not self._hosted.hosts(partition):
            return self._not_hosted(*partition.topic_partition).code
        return partition.deletion_error(wanted)

    # Roles

    def become_leader_or_follower(self, request: LeaderAndIsrRequest) -> Deferred[LeaderAndIsrResponse]:
        """Take the roles that the controller gives; the response comes when all are taken."""
        failed = LeaderAndIsrResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        return self._role_changes.add(lambda: self._take_roles(request), failed, self._make_logs)

    async def _take_roles(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        if not self._fence.admit(request):
            return LeaderAndIsrResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
        roles: list[_Role] = [(state.topic_name, ZERO_UUID, state) for state in request.ungrouped_partition_states]
        ungrouped = len(roles)
        for topic in request.topic_states:
            roles += [(topic.topic_name, topic.topic_id, state) for state in topic.partition_states]
        errors: list[LeaderAndIsrPartitionError] = []
        configs = {name: self._config_of(name) for name in {name for name, _, _ in roles}}
        level = level_of_each(len(roles))
        if level < logging.INFO:
            leading = sum(state.leader == self._broker_id for _, _, state in roles)
            state_change_logger.info(
                "[Broker id=%d] Asked to lead %d and to follow %d partitions of %s",
                self._broker_id, leading, len(roles) - leading, names(configs),
            )  # fmt: skip
        for name, topic_id, state in roles:
            index = state.partition_index
            await self._slow_appends.idle((name, index))
            code = self._change_role(name, topic_id, state, configs[name], level)
            if code is ErrorCode.INCONSISTENT_TOPIC_ID:
                self._log_other_topic(TopicPartition(name, index), topic_id)
            errors.append(LeaderAndIsrPartitionError(topic_name=name, partition_index=index, error_code=code))
            await self._role_changes.rest()
        # Versions 0-4 answer by name, later ones by id. The codec leaves out the fields that a version does not have.
        grouped = iter(errors[ungrouped:])
        by_id = [
            LeaderAndIsrTopicError(
                topic_id=topic.topic_id, partition_errors=list(islice(grouped, len(topic.partition_states)))
            )
            for topic in request.topic_states
            if topic.partition_states
        ]
        return LeaderAndIsrResponse(error_code=ErrorCode.NONE, partition_errors=errors, topics=by_id)

    async def _make_logs(self) -> None:
        """Make the files of new logs in a worker thread, after the response."""
        unmade = self._logs.take_unmade()
        for start in range(0, len(unmade), _NEW_LOGS_AT_ONCE):
            some = unmade[start : start + _NEW_LOGS_AT_ONCE]
            for new, error in zip(some, await self._offload(make_logs, some), strict=True):
                partition = self.partitions.get(new.topic_partition)
                if partition is not None and error is None:
                    partition.log.made()
                elif partition is not None and error is not None:
                    self._logs.failures.failed(new.directory.parent, error, "creating a log in")

    def _change_role(
        self, topic: str, topic_id: bytes, state: LeaderAndIsrPartitionState, config: LogConfig, level: int
    ) -> ErrorCode:
        key = TopicPartition(topic, state.partition_index)
        if key in self._hosted.not_found:
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self.partitions.get(key)
        if partition is not None:
            error = partition.check_role(topic_id, state)
            if error is not None:
                return error
        elif state.leader_epoch <= NO_EPOCH:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if self._broker_id not in state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        try:
            if partition is None:
                leader_epoch = state.leader_epoch if state.leader == self._broker_id else NO_EPOCH
                partition = self._host(key, topic_id, config, leader_epoch, level, is_new=state.is_new)
            elif topic_id != ZERO_UUID and partition.log.topic_id is None:
                partition.log.set_topic_id(topic_id)
            if state.leader == self._broker_id:
                moved = partition.make_leader(state, self._clock.now_ms())
            else:
                moved = partition.make_follower(state)
        except KafkaError as error:
            if error.code == ErrorCode.KAFKA_STORAGE_ERROR and self._logs.failures.offline:
                logger.error("%s is not served until the broker is restarted: %s", key, error)
                self._hosted.not_found.add(key)
            return error.code
        state_change_logger.log(
            level,
            "[Broker id=%d] %s %s from leader epoch %d on, at offset %d, high watermark %d, ISR %s",
            self._broker_id,
            "Leading" if partition.is_leader else "Following",
            key,
            partition.leader_epoch,
            partition.log.log_end_offset,
            partition.high_watermark,
            list(state.isr),
        )
        self.partitions[key] = partition
        self._signal.notify(key, moved)
        (self._events.leading if partition.is_leader else self._events.following).notify(partition)
        self._group_commit.maybe_flush(partition)  # consumers see what a crash left unflushed only after that
        return ErrorCode.NONE

    def _log_other_topic(self, key: TopicPartition, topic_id: bytes) -> None:
        log = self._logs.logs[key]
        state_change_logger.error(
            "[Broker id=%d] Topic ID in memory: %s does not match the topic ID for partition %s received: %s. "
            "The partition is not served here while %s is there",
            self._broker_id, uuid_text(log.topic_id or ZERO_UUID), key, uuid_text(topic_id), log.directory,
        )  # fmt: skip

    def _host(
        self, key: TopicPartition, topic_id: bytes, config: LogConfig, leader_epoch: int, level: int, *, is_new: bool
    ) -> Partition:
        if self._saved_high_watermarks is None:
            self._saved_high_watermarks = self._logs.read_high_watermarks()
        known_id = None if topic_id == ZERO_UUID else topic_id
        if known_id is not None and key.topic in self._logs.strays:
            make_way(self._logs, key.topic, known_id)
        now_ms = self._clock.now_ms()
        log = self._logs.get_or_create(key, known_id, config, now_ms, leader_epoch, is_new=is_new, log_level=level)
        # A log that was found at start was opened before the topic's configs were known.
        log.config = config
        return Partition(
            key,
            log,
            record_rules(config),
            broker_id=self._broker_id,
            max_lag_ms=self._max_lag_ms,
            high_watermark=self._saved_high_watermarks.pop(key, 0),
            is_alive=self._metadata.is_alive,
        )

    def _config_of(self, topic: str) -> LogConfig:
        try:
            return LogConfig.from_topic(self._topic_config(topic), self._log_defaults)
        except ConfigError as error:
            logger.error("Topic %s is served with default configuration, because its own is invalid: %s", topic, error)
            return self._log_defaults

    def reconfigure(self, topic: str) -> None:
        """Apply the changed configs of a topic."""
        self._reconfigure(topic, [each for each in self.partitions.values() if each.topic_partition.topic == topic])

    async def broker_reconfigured(self, config: BrokerConfig) -> None:
        """Apply the broker's changed configs of logs to all topics that do not set them."""
        self._logs.expire_producers_after(config.values["producer.id.expiration.ms"])
        self._log_defaults = LogConfig.from_broker(config.values)
        by_topic = sorted(self.partitions.values(), key=lambda each: each.topic_partition)
        for first in range(0, len(by_topic), _RECONFIGURED_AT_ONCE):
            hosted = filter(self._hosted.hosts, by_topic[first : first + _RECONFIGURED_AT_ONCE])
            for topic, partitions in groupby(hosted, key=lambda each: each.topic_partition.topic):
                self._reconfigure(topic, partitions)
            await trio.lowlevel.checkpoint()

    def _reconfigure(self, topic: str, partitions: Iterable[Partition]) -> None:
        config = self._config_of(topic)
        rules = record_rules(config)
        for partition in partitions:
            partition.use_config(config, rules)
            if partition.flushes_by_count:
                self._group_commit.maybe_flush(partition)

    def stop_replica(self, request: StopReplicaRequest) -> Deferred[StopReplicaResponse]:
        """Stop replicas, and delete them if the controller says so; the response comes when that is done."""
        failed = StopReplicaResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, partition_errors=())
        return self._role_changes.add(lambda: self._stops.stop(request), failed)

    def step_down(self) -> None:
        """Resign from partitions with followers, because the broker ends. Their producers get an error at once."""
        for partition in (each for each in self.partitions.values() if each.followers):
            partition.resign()
            self._signal.notify(partition.topic_partition, EVERYTHING)

    # Checkpoints

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """Return the high watermarks of all partitions, for the checkpoint."""
        return {partition.topic_partition: partition.high_watermark for partition in self.partitions.values()}
