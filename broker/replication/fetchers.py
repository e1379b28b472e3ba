"""The tasks that fetch from leaders for the partitions that follow, and carry out the decisions on each response.

Owns the tasks, at most `num.replica.fetchers` for each leader, each with a connection of its own. `PartitionEvents`
calls `follow` and `unfollow`. Must not know how a decision is made.
Counterparts in Kafka: ReplicaFetcherManager, ReplicaFetcherThread.
"""

import logging
from collections.abc import Callable
from typing import Final, Protocol

import trio

from ottla.broker.config.broker_config import BrokerConfig
from ottla.broker.config.throttle import ReplicationQuota
from ottla.broker.loop.clock import Slice
from ottla.broker.loop.hindrance import Hindrance
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.parts import ReplicaParts
from ottla.broker.replicas.watchers import LOG_END, NOTHING
from ottla.broker.replication import apply as following
from ottla.broker.replication.decisions import Append, Decision, FetchSettings, Followed, FollowerFetch, TruncateTo
from ottla.log.append_info import UnexpectedAppendOffsetError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.schema import Request, Response
from ottla.wire.types import TopicPartition

logger = logging.getLogger("kafka.server.ReplicaFetcherThread")

# The records were damaged on the way: they are fetched again.
_BROKEN_ON_THE_WAY: Final = frozenset({ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD})


class Asker(Protocol):
    """A connection to a leader."""

    async def ask(self, request: Request, version: int) -> Response:
        """Return the response; OSError if there is none."""

    async def close(self) -> None:
        """Close the connection."""


class ReplicaFetchers:
    """All fetchers of this broker."""

    def __init__(
        self,
        parts: ReplicaParts,
        asker: Callable[[int], Asker],
        config: BrokerConfig,
        *,
        quota: ReplicationQuota,
        fetch_version: int,
        list_offsets_version: int,
    ) -> None:
        """`asker` makes a connection to a broker. The versions are those of `inter.broker.protocol.version`."""
        settings = FetchSettings(
            parts.broker_id,
            fetch_version,
            list_offsets_version,
            config.replica_fetch_wait_max_ms,
            config.replica_fetch_min_bytes,
            config.replica_fetch_response_max_bytes,
            config.replica_fetch_max_bytes,
            config.replica_fetch_backoff_ms / 1000,
        )
        self._new_fetcher: Callable[[int], _Fetcher] = lambda leader_id: _Fetcher(
            leader_id, asker(leader_id), parts, settings, quota
        )
        self._start_soon = parts.start_soon
        self._hosted = parts.hosted
        self._slow_appends = parts.slow_appends
        self._per_leader = max(1, config.num_replica_fetchers)
        # By leader, and the number of the fetcher.
        self._fetchers: dict[tuple[int, int], _Fetcher] = {}
        self._fetcher_of: dict[TopicPartition, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._fetchers)

    async def reconfigured(self, config: BrokerConfig) -> None:
        """Apply a changed `num.replica.fetchers`."""
        self._per_leader = max(1, config.num_replica_fetchers)
        for topic_partition in tuple(self._fetcher_of):
            await self._slow_appends.idle(topic_partition)
            if topic_partition in self._fetcher_of:
                self.follow(self._hosted.partitions[topic_partition])

    def follow(self, partition: Partition) -> None:
        """Fetch for a partition from its leader, if that is another broker."""
        if partition.is_leader or partition.leader_id < 0:
            self.unfollow(partition)
        else:
            self._assign(partition, (partition.leader_id, hash(partition.topic_partition) % self._per_leader))

    def unfollow(self, partition: Partition) -> None:
        """Fetch for a partition no more."""
        self._assign(partition, None)

    def _assign(self, partition: Partition, key: tuple[int, int] | None) -> None:
        topic_partition = partition.topic_partition
        before = self._fetcher_of.pop(topic_partition, None)
        if before is not None and before != key and self._fetchers[before].unfollow(partition):
            self._fetchers.pop(before).stop()
        if key is not None:
            fetcher = self._fetchers.get(key)
            if fetcher is None:
                fetcher = self._fetchers[key] = self._new_fetcher(key[0])
                self._start_soon(fetcher.run)
            self._fetcher_of[topic_partition] = key
            fetcher.follow(partition)


class _Fetcher:
    """One task and its connection."""

    def __init__(
        self,
        leader_id: int,
        asker: Asker,
        parts: ReplicaParts,
        settings: FetchSettings,
        quota: ReplicationQuota,
    ) -> None:
        self._asker = asker
        self._clock = parts.clock
        self._hosted = parts.hosted
        self._group_commit = parts.group_commit
        self._slow_appends = parts.slow_appends
        self._quota = quota
        self._broker_epoch = parts.broker_epoch
        self._fetch = FollowerFetch(settings)
        self._partitions: dict[TopicPartition, Partition] = {}
        self._changed = trio.Event()
        self._scope = trio.CancelScope()
        self._unreached = Hindrance(
            logger, f"Broker {leader_id}", "cannot be fetched from", "can be fetched from again"
        )

    def follow(self, partition: Partition) -> None:
        """Fetch for a partition in its present leader epoch."""
        self._partitions[partition.topic_partition] = partition
        self._changed.set()
        first = self._fetch.follow(
            partition.topic_partition, partition.leader_epoch, partition.log, partition.high_watermark
        )
        if first is not None:
            self._carry_out(first)

    def unfollow(self, partition: Partition) -> bool:
        """Fetch for a partition no more; return whether no partition is left."""
        del self._partitions[partition.topic_partition]
        self._fetch.unfollow(partition.topic_partition)
        return not self._partitions

    def stop(self) -> None:
        """End the task."""
        self._scope.cancel()

    async def run(self) -> None:
        """Fetch until stopped."""
        with self._scope:
            try:
                while True:
                    try:
                        await self._turn()
                    except Exception:
                        logger.exception("A bug: a fetch from a leader failed, it is tried again")
                        self._fetch.failed(trio.current_time())
            finally:
                await self._asker.close()

    async def _turn(self) -> None:
        now = trio.current_time()
        is_throttled = self._is_throttled if self._quota.is_exceeded(1000 * now) else None
        question = self._fetch.next_question(now, self._broker_epoch(), is_throttled)
        if question is None:
            self._changed = trio.Event()
            with trio.move_on_at(self._fetch.wakes_at()):
                await self._changed.wait()
            return
        try:
            response = await self._asker.ask(question.request, question.version)
        except OSError as error:
            self._unreached.met(str(error))
            self._fetch.failed(trio.current_time())
            return
        self._unreached.passed()
        unflushed: list[Followed] = []
        time_slice = Slice()
        for decision in self._fetch.decide(question, response, trio.current_time()):
            partition = self._partitions[decision.followed.topic_partition]
            if partition.log.pace.is_slow:
                await self._carry_out_in_turn(partition, decision)
            else:
                self._carry_out(decision)
            if partition.flushes_by_count:
                unflushed.append(decision.followed)
            await time_slice.rest()
        for followed in unflushed:
            await self._flush(followed)

    async def _flush(self, followed: Followed) -> None:
        """Wait for an fsync that is due, because the next fetch position acknowledges all records before it."""
        partition = self._partitions.get(followed.topic_partition)
        if partition is not None:
            await self._group_commit.settled(partition)
            if partition.is_offline:
                self._fetch.drop(followed)

    def _is_throttled(self, topic_partition: TopicPartition) -> bool:
        return self._partitions[topic_partition].is_throttled_follower

    async def _carry_out_in_turn(self, partition: Partition, decision: Decision) -> None:
        """Carry out a decision in the log's turn; a worker thread writes the records."""
        followed = decision.followed
        async with self._slow_appends.turn(followed.topic_partition):
            if not self._fetch.is_followed(followed):
                return
            if isinstance(decision, Append) and decision.records:
                before = partition.log.log_end_offset
                try:
                    log = following.followed_log(partition, followed.leader_epoch)
                    await self._slow_appends.append_as_follower(log, decision.records)
                except UnexpectedAppendOffsetError:
                    pass  # the log may have to start over first, as below
                except Exception as error:
                    self._failed(partition, followed, error)
                    return
                else:
                    self._count(partition, decision.records)
                    decision = decision._replace(records=memoryview(b""))
                    self._group_commit.moved(partition, LOG_END if log.log_end_offset > before else NOTHING)
            self._carry_out(decision)

    def _count(self, partition: Partition, records: memoryview) -> None:
        if partition.is_throttled_follower:
            self._quota.record(len(records), 1000 * trio.current_time())

    def _carry_out(self, decision: Decision) -> None:
        followed = decision.followed
        partition = self._partitions[followed.topic_partition]
        epoch = followed.leader_epoch
        try:
            if isinstance(decision, Append):
                _, records, high_watermark, log_start_offset = decision
                now_ms = self._clock.now_ms()
                moved = following.append(partition, epoch, records, high_watermark, log_start_offset, now_ms)
                self._count(partition, records)
            elif isinstance(decision, TruncateTo):
                moved = following.truncate(partition, epoch, decision.offset)
            else:
                moved = following.start_at(partition, epoch, decision.offset)
        except Exception as error:
            self._failed(partition, followed, error)
        else:
            if followed.hindrance.why:
                followed.hindrance.passed()
            self._group_commit.moved(partition, moved)

    def _failed(self, partition: Partition, followed: Followed, error: Exception) -> None:
        """Fetch damaged records again; any other error ends the fetching for this partition."""
        if not isinstance(error, KafkaError):
            logger.error(
                "A bug: this broker stops fetching %s until the controller sends the partition's leader again",
                followed.topic_partition,
                exc_info=error,
            )
        elif error.code in _BROKEN_ON_THE_WAY:
            followed.hindrance.met(f"what it fetched from offset {partition.log.log_end_offset} on is broken: {error}")
            self._fetch.rest(followed, trio.current_time())
            return
        elif error.code == ErrorCode.KAFKA_STORAGE_ERROR:
            self._hosted.take_offline(partition, f"it cannot follow: {error}")
        else:
            logger.error("%s is not fetched until its next role: %s", followed.topic_partition, error)
        self._fetch.drop(followed)
