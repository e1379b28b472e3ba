"""A fetch that waits: it reads, and reads again, until there are `min_bytes` or `max_wait_ms` has passed.

Owns when a fetch is answered, and how the limits of bytes are shared among its partitions. Must not know how a request
is decoded or a response is built. Counterparts in Kafka: ReplicaManager.fetchMessages, DelayedFetch.
"""

from collections.abc import Callable, Sequence
from typing import Final

from ottla.broker.fetch.responses import FetchAnswers
from ottla.broker.fetch.sessions import FetchContext, SessionPartition
from ottla.broker.loop.clock import Clock, Timer
from ottla.broker.loop.deferred import Deferred
from ottla.broker.replicas.manager import ReplicaManager
from ottla.broker.replicas.reads import NO_REPLICA, Reader, ReadResult
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchRequest, FetchResponse

Answer = FetchResponse | Deferred[FetchResponse]

# The most bytes of records that a response copies to memory. The others are regions of files, because a client that
# asks for a thousand partitions may be slow to read.
_COPY_AT_MOST: Final = 1 << 18

# Errors of partitions that were not read. They do not end a wait.
_UNKNOWN: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
)


class LongPoll:
    """A fetch that may have to wait."""

    __slots__ = (
        "_clock",
        "_context",
        "_deferred",
        "_maker",
        "_max_bytes",
        "_max_wait_ms",
        "_may_read",
        "_min_bytes",
        "_reader",
        "_replicas",
        "_size",
        "_sizes",
        "_timer",
    )

    _deferred: Deferred[FetchResponse]
    _timer: Timer

    def __init__(
        self,
        request: FetchRequest,
        max_bytes: int,
        reader: Reader,
        maker: FetchAnswers,
        replicas: ReplicaManager,
        clock: Clock,
        may_read: Callable[[str], bool] | None,
        context: FetchContext,
    ) -> None:
        self._may_read = may_read
        self._max_bytes = max_bytes
        self._min_bytes = min(request.min_bytes, max_bytes)
        self._max_wait_ms = request.max_wait_ms
        self._reader = reader
        self._context = context
        self._maker = maker
        self._replicas = replicas
        self._clock = clock
        self._size = 0
        # The bytes that each partition had to read when it was last looked at.
        self._sizes: dict[SessionPartition, int] = {}

    def start(self) -> Answer:
        """Read the session's partitions that moved. Return the response, or wait if that is not enough."""
        readings = self.look(tuple(self._context.session.to_look_at), self._max_bytes, is_first_look=True)
        unknown = sum(result.error in _UNKNOWN for _, result in readings)
        self._sizes = {partition: result.size for partition, result in readings if result.size}
        self._size = sum(self._sizes.values())
        if (
            self._size >= self._min_bytes
            or self._max_wait_ms <= 0
            or unknown == len(self._context.session.partitions)
            or any(_ends_wait(result) for _, result in readings)
        ):
            return self._respond(readings)
        self._deferred = Deferred(applied=False, on_abandon=self._abandon)
        self._timer = self._clock.call_later(self._max_wait_ms / 1000, self._finish)
        self._context.wait(self._moved)
        return self._deferred

    def look(
        self,
        partitions: Sequence[SessionPartition],
        limit: int,
        *,
        is_first_look: bool,
        nothing_yet: bool = True,
        may_copy: int = _COPY_AT_MOST,
    ) -> list[tuple[SessionPartition, ReadResult]]:
        """Read some partitions up to `limit` bytes; with `nothing_yet` at least one batch, whatever its size."""
        readings = []
        for partition in partitions:
            result = self._read(partition, limit, nothing_yet, is_first_look, may_copy > 0)
            if result.size:
                nothing_yet = False
                may_copy -= result.size
            if result.error not in _UNKNOWN:
                # As in Kafka, a negative limit holds for the first partition only.
                limit = max(0, limit - result.size)
            readings.append((partition, result))
        return readings

    def _read(
        self, partition: SessionPartition, limit: int, at_least_one: bool, is_first_look: bool, may_copy: bool = False
    ) -> ReadResult:
        if partition.topic is None:
            return ReadResult(ErrorCode.UNKNOWN_TOPIC_ID)
        if self._may_read is not None and not self._may_read(partition.topic):
            return ReadResult(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return self._replicas.read(
            self._reader,
            partition.topic,
            partition.partition,
            partition.topic_id,
            partition,
            min(limit, partition.max_bytes),
            at_least_one=at_least_one,
            is_first_look=is_first_look,
            may_copy=may_copy,
        )

    def _moved(self, partition: SessionPartition) -> None:
        """Read the one partition that moved, and finish if there is enough now."""
        result = self._read(partition, self._max_bytes, True, False)
        if result.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return
        self._size += result.size - self._sizes.get(partition, 0)
        self._sizes[partition] = result.size
        if self._size >= self._min_bytes or result.error or _is_not_to_wait(result):
            self._finish()

    def _finish(self) -> None:
        """Read all partitions that moved, and complete the response."""
        self._timer.cancel()
        readings = self.look(tuple(self._context.session.to_look_at), self._max_bytes, is_first_look=False)
        response = self._respond(readings)
        self._deferred.complete(response)

    def _respond(self, readings: Sequence[tuple[SessionPartition, ReadResult]]) -> FetchResponse:
        concluded = self._context.conclude(readings, self._clock.now_ms())
        self._context.end()
        return self._maker.response(*concluded)

    def _abandon(self) -> None:
        self._timer.cancel()
        self._context.end()


def _ends_wait(result: ReadResult) -> bool:
    return _is_not_to_wait(result) or (result.error != ErrorCode.NONE and result.error not in _UNKNOWN)


def _is_not_to_wait(result: ReadResult) -> bool:
    """Whether the reader must go on elsewhere: at an earlier offset, at another replica, or in the next segment.

    kafka-go relies on the last. It takes a response that comes after `max_wait_ms` for one that was cut, and repeats
    the request. So it would never pass a batch whose last records were compacted away.
    """
    return result.is_diverging or result.preferred_read_replica != NO_REPLICA or result.is_of_older_segment
