"""The progress of a copy: the offset of each partition before which all wanted records are acknowledged.

PURE. Acknowledgements come in any order, because records of one partition may go to several partitions. Counterpart in
Kafka: the offsets of MirrorSourceTask's committed records.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from ottla.client.producing.batches import Completion, Delivery

_SPAN_RECORDS: Final = 256


class _Span:
    """Consecutive records that were read, from `start` to `end` (exclusive)."""

    __slots__ = ("end", "pending", "sent", "start")

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self.sent = 0
        self.pending = 0


class Track:
    """The progress of one partition, which is read in order."""

    def __init__(self, start: int, on_failure: Callable[[], object] = lambda: None) -> None:
        """`on_failure` is called when a record fails."""
        self.start = start
        self.read = 0
        self.sent = 0
        self.copied = 0
        """Records that were acknowledged."""
        self.failure: tuple[int, Exception] | None = None
        """The offset of the first record that failed, and its error."""
        self._on_failure = on_failure
        self._position = start
        self._spans = deque([_Span(start)])

    def send(self, offset: int) -> Completion:
        """Count a sent record; return the completion to call with its delivery or error."""
        span = self._spans[-1]
        if span.sent == _SPAN_RECORDS:
            span = _Span(span.end)
            self._spans.append(span)
        span.sent += 1
        span.pending += 1
        self.sent += 1
        return partial(self._completed, span, offset)

    def _completed(self, span: _Span, offset: int, delivery: Delivery) -> None:
        if delivery.error is None:
            span.pending -= 1
            self.copied += 1
        else:
            self.fail(offset, delivery.error)

    def fail(self, offset: int, error: Exception) -> None:
        """Note that a record failed."""
        if self.failure is None or offset < self.failure[0]:
            self.failure = offset, error
        self._on_failure()

    def reach(self, offset: int) -> None:
        """Note that all records before this offset were read, and the wanted ones sent."""
        self._spans[-1].end = offset

    @property
    def reached(self) -> int:
        """Return the offset up to which the partition was read, exclusive."""
        return self._spans[-1].end

    @property
    def position(self) -> int:
        """Return the offset before which nothing is left to copy. It never decreases."""
        while len(self._spans) > 1 and not self._spans[0].pending:
            self._spans.popleft()
        first = self._spans[0]
        self._position = max(self._position, first.start if first.pending else first.end)
        return self._position
