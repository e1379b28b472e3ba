"""Requests that wait until something is true of each of their partitions at an offset, or never will be.

Owns the wait of one request for all its partitions. Must not know what it waits for, nor requests.
Counterparts in Kafka: DelayedProduce, DelayedDeleteRecords.
"""

from collections.abc import Callable, Sequence

from ottla.broker.loop.clock import Clock
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.watchers import EVERYTHING, OffsetSignal
from ottla.wire.errors import ErrorCode

# How a wait for a partition and an offset ends by now: done (NONE), or never to be; None while that is open.
Outcome = Callable[[Partition, int], ErrorCode | None]


class _Awaited:
    """A partition that somebody waits for."""

    __slots__ = ("error", "partition", "required_offset", "wait")

    def __init__(self, wait: "PartitionWait", partition: Partition, required_offset: int) -> None:
        self.wait = wait
        self.partition = partition
        self.required_offset = required_offset
        self.error: ErrorCode | None = None

    def partition_moved(self) -> None:
        """It may have what is waited for now, or never."""
        self.wait.check(self)


class PartitionWait:
    """Ends when all of its partitions have ended their part of it, or time runs out."""

    def __init__(
        self,
        clock: Clock,
        signal: OffsetSignal,
        awaited: Sequence[tuple[Partition, int]],
        outcome: Outcome,
        timeout_ms: int,
        done: Callable[[list[ErrorCode]], None],
    ) -> None:
        self._signal = signal
        self._outcome = outcome
        self._done = done
        self._awaited = [_Awaited(self, partition, offset) for partition, offset in awaited]
        self._open = len(self._awaited)
        self._timer = clock.call_later(max(timeout_ms, 0) / 1000, self._expire)
        for each in self._awaited:
            signal.watch(each.partition.topic_partition, EVERYTHING, each)
        for each in self._awaited:
            self.check(each)

    def check(self, awaited: _Awaited) -> None:
        """Settle one if it can be settled."""
        error = self._outcome(awaited.partition, awaited.required_offset)
        if error is None or awaited.error is not None:
            return
        self._settle(awaited, error)
        if not self._open:
            self._finish()

    def cancel(self) -> None:
        """Nobody waits any more."""
        self._timer.cancel()
        for awaited in self._awaited:
            if awaited.error is None:
                self._settle(awaited, ErrorCode.NONE)

    def _settle(self, awaited: _Awaited, error: ErrorCode) -> None:
        awaited.error = error
        self._open -= 1
        self._signal.unwatch(awaited.partition.topic_partition, EVERYTHING, awaited)

    def _expire(self) -> None:
        for awaited in self._awaited:
            if awaited.error is None:
                self._settle(awaited, ErrorCode.REQUEST_TIMED_OUT)
        self._finish()

    def _finish(self) -> None:
        self._timer.cancel()
        self._done([awaited.error or ErrorCode.NONE for awaited in self._awaited])
