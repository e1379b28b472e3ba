"""Appends to log directories whose writes are slow: written by worker threads, one after the other for each log.

Owns the queue of each partition, and the turns in which a log is changed: by an append, a follower's append, a change
of role, a truncation or retention. An append is decided on the loop when its turn comes, so that role, epoch, sequence
and offsets are those of that moment. Must not know requests.
Counterpart in Kafka: the lock of UnifiedLog, and the request handler threads that wait for it.
"""

import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

import trio

from ottla.broker.loop.clock import Clock, Offload, StartSoon
from ottla.broker.replicas.fsync import GroupCommit
from ottla.broker.replicas.partition import Partition
from ottla.log.append import Append
from ottla.log.append_info import LogAppendInfo
from ottla.log.log import PartitionLog
from ottla.log.state.verification import TransactionalAppend
from ottla.log.write_pace import WritePace
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.records.batch import ProducedBatch

logger = logging.getLogger("kafka.server.ReplicaManager")

Result = LogAppendInfo | KafkaError


class _Waiting:
    """An append in a queue."""

    __slots__ = ("batch", "done", "how", "pace", "required_acks")

    def __init__(
        self,
        batch: ProducedBatch,
        required_acks: int,
        pace: WritePace,
        done: Callable[[Result], None],
        how: TransactionalAppend | None,
    ) -> None:
        self.batch = batch
        self.required_acks = required_acks
        self.pace = pace
        self.done = done
        self.how = how


class SlowAppends:
    """The slow appends of one broker."""

    def __init__(self, clock: Clock, offload: Offload, start_soon: StartSoon, group_commit: GroupCommit) -> None:
        """`offload` is for these writes alone, so that other work finds free threads."""
        self._clock = clock
        self._offload = offload
        self._start_soon = start_soon
        self._group_commit = group_commit
        self._queues: dict[Partition, deque[_Waiting]] = {}
        self._turns: dict[tuple[str, int], trio.Lock] = {}

    # Turns

    @asynccontextmanager
    async def turn(self, topic_partition: tuple[str, int]) -> AsyncIterator[None]:
        """Hold the log of a partition exclusively, in the order of the calls."""
        lock = self._turns.setdefault(topic_partition, trio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._turns.pop(topic_partition, None)

    async def idle(self, topic_partition: tuple[str, int]) -> None:
        """Return when no append is under way. None begins before the caller's next await."""
        if topic_partition in self._turns:
            async with self.turn(topic_partition):
                pass

    # Leaders

    def append(
        self,
        partition: Partition,
        batch: ProducedBatch,
        required_acks: int,
        done: Callable[[Result], None],
        how: TransactionalAppend | None = None,
    ) -> None:
        """Append a batch after those in the queue, and call `done(result)`."""
        pace = partition.log.pace
        pace.enter()
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = deque()
            self._start_soon(self._work_off, partition, queue)
        queue.append(_Waiting(batch, required_acks, pace, done, how))

    def append_all(
        self,
        entries: Sequence[tuple[Partition, ProducedBatch]],
        required_acks: int,
        done: Callable[[list[Result]], None],
        how: Mapping[tuple[str, int], TransactionalAppend] | None = None,
    ) -> None:
        """Append to many partitions, and call `done` once, with all results in the order of `entries`.

        `how`: by partition, for the batches in transactions.
        """
        results: dict[int, Result] = {}

        def take(slot: int, result: Result) -> None:
            results[slot] = result
            if len(results) == len(entries):
                done([results[each] for each in range(len(entries))])

        for slot, (partition, batch) in enumerate(entries):
            of_transaction = None if how is None else how.get(partition.topic_partition)
            self.append(partition, batch, required_acks, partial(take, slot), of_transaction)

    async def _work_off(self, partition: Partition, queue: deque[_Waiting]) -> None:
        try:
            while queue:
                async with self.turn(partition.topic_partition):
                    waiting = queue.popleft()
                    try:
                        result = await self._append(partition, waiting)
                    finally:
                        waiting.pace.leave()
                try:
                    waiting.done(result)
                except Exception:
                    logger.exception("A bug: a producer gets no answer to its append to %s", partition.topic_partition)
        finally:
            del self._queues[partition]

    async def _append(self, partition: Partition, waiting: _Waiting) -> Result:
        batch, required_acks, how = waiting.batch, waiting.required_acks, waiting.how
        try:
            # A move to another directory may have replaced the log since the append was queued.
            log = partition.log
            if log.pace.is_slow:
                append = partition.begin_append(batch, required_acks, self._clock.now_ms(), how)
                await self._write(log, append)
                info = append.leader_info
                moved = partition.appended(info, self._clock.now_ms())
            else:
                info, moved = partition.append_as_leader(batch, required_acks, self._clock.now_ms(), how)
        except KafkaError as error:
            return error
        except Exception:
            logger.exception("A bug: an append to %s failed, and is answered with an error", partition.topic_partition)
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "an append failed")
        self._group_commit.moved(partition, moved)
        return info

    # Followers

    async def append_as_follower(self, log: PartitionLog, records: memoryview) -> None:
        """Append as `PartitionLog.append_as_follower` does; the caller holds the log's turn."""
        left = log.replicated(records)
        while left:
            append = log.begin_as_follower(left, self._clock.now_ms())
            await self._write(log, append)
            left = left[len(append.batches) :]

    async def _write(self, log: PartitionLog, append: Append) -> None:
        if append.segment is None:
            return
        write = log.begin_write(append)
        log.pace.enter()
        try:
            await self._offload(write.run)
        except BaseException:
            # Cancelled before the write began: a write that has begun cannot be cancelled.
            log.cancel_append()
            raise
        finally:
            log.pace.leave()
        log.end_append(append, write)
