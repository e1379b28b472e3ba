"""Responses that wait until something is true of each of several partitions at an offset, or never will be.

Owns the wait of one request for all its partitions. Must not know what it waits for, nor requests.
Counterparts in Kafka: DelayedProduce, DelayedDeleteRecords.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from ottla.broker.loop.clock import Clock, Timer
from ottla.broker.loop.deferred import Deferred
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.watchers import EVERYTHING, OffsetSignal
from ottla.wire.errors import ErrorCode

R = TypeVar("R")

# How the wait for a partition and an offset ends by now: NONE for success, an error, or None while that is open.
Outcome = Callable[[Partition, int], ErrorCode | None]


class _Awaited:
    """A partition that a response waits for; `error` is None while that is open."""

    __slots__ = ("error", "partition", "required_offset", "wait")

    def __init__(self, wait: "PartitionWait[R]", partition: Partition, required_offset: int) -> None:
        self.wait = wait
        self.partition = partition
        self.required_offset = required_offset
        self.error: ErrorCode | None = None

    def partition_moved(self) -> None:
        """Look whether the wait for this partition ends."""
        self.wait.check(self)


class PartitionWait(Deferred[R]):
    """Completes with `respond(errors)`, an error for each partition, when all waits have ended or time runs out."""

    __slots__ = ("_awaited", "_open", "_outcome", "_respond", "_signal", "_timer")

    _timer: Timer

    def __init__(
        self,
        clock: Clock,
        signal: OffsetSignal,
        awaited: Sequence[tuple[Partition, int]],
        outcome: Outcome,
        timeout_ms: int,
        respond: Callable[[list[ErrorCode]], R],
        *,
        applied: bool,
    ) -> None:
        super().__init__(applied, self._cancel)
        self._signal = signal
        self._outcome = outcome
        self._respond = respond
        self._awaited = [_Awaited(self, partition, offset) for partition, offset in awaited]
        self._open = 0
        for each in self._awaited:
            each.error = outcome(each.partition, each.required_offset)
            if each.error is None:
                self._open += 1
                signal.watch(each.partition.topic_partition, EVERYTHING, each)
        if self._open:
            self._timer = clock.call_later(max(timeout_ms, 0) / 1000, self._expire)
        else:
            self._respond_now()

    def check(self, awaited: _Awaited) -> None:
        """End the wait for one partition if it can end."""
        error = self._outcome(awaited.partition, awaited.required_offset)
        if error is None or awaited.error is not None:
            return
        self._settle(awaited, error)
        if not self._open:
            self._timer.cancel()
            self._respond_now()

    def _expire(self) -> None:
        self._cancel(ErrorCode.REQUEST_TIMED_OUT)
        self._respond_now()

    def _cancel(self, error: ErrorCode = ErrorCode.NONE) -> None:
        self._timer.cancel()
        for awaited in self._awaited:
            if awaited.error is None:
                self._settle(awaited, error)

    def _settle(self, awaited: _Awaited, error: ErrorCode) -> None:
        awaited.error = error
        self._open -= 1
        self._signal.unwatch(awaited.partition.topic_partition, EVERYTHING, awaited)

    def _respond_now(self) -> None:
        self.complete(self._respond([awaited.error or ErrorCode.NONE for awaited in self._awaited]))
