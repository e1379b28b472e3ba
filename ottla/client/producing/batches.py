"""Records for one partition: batches, and the sequences by which a broker appends each batch once.

Owns the order of batches, also after failures. Must not know a connection or a clock.
Counterparts in Kafka: RecordAccumulator's deques, ProducerBatch, TransactionManager's sequences.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final, NamedTuple

from ottla.wire.records.batch import HEADER_SIZE, NewRecord, increment_sequence

_MAX_RECORD_OVERHEAD: Final = 21
_NO_SEQUENCE: Final = -1
_MAX_EPOCH: Final = 0x7FFF
_numbers = count()


class Delivery(NamedTuple):
    """A record's place in the log. The offset is -1 if the broker did not return it; the timestamp is the log's."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    error: Exception | None = None


Completion = Callable[[Delivery], object]


def size_of(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> int:
    """Return the bytes that a record takes in a batch at most."""
    size = _MAX_RECORD_OVERHEAD + (0 if key is None else len(key)) + (0 if value is None else len(value))
    for name, each in headers:
        size += 2 * 5 + len(name.encode()) + (0 if each is None else len(each))
    return size


def size_alone(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> int:
    """Return the bytes of a batch with this record alone, as Kafka's client estimates them."""
    names = [name.encode() for name, _ in headers]
    parts = (key, value, *names, *(each for _, each in headers))
    lengths = [0 if each is None else len(each) for each in parts]
    return HEADER_SIZE + _MAX_RECORD_OVERHEAD + sum(lengths) + sum(map(_varint_size, [*lengths, len(headers)]))


def _varint_size(number: int) -> int:
    return max(1, ((number << 1).bit_length() + 6) // 7)


class Batch:
    """Records that are sent together. `completions` is as long as `records`."""

    __slots__ = ("attempts", "completions", "created", "order", "records", "sequence", "size")

    def __init__(self, created: float, order: tuple[int, ...] = ()) -> None:
        self.records: list[NewRecord] = []
        self.completions: list[Completion | None] = []
        self.size = HEADER_SIZE
        self.created = created
        self.order = order or (next(_numbers),)
        self.sequence = _NO_SEQUENCE
        self.attempts = 0

    def halves(self) -> list["Batch"]:
        """Return the records in two batches, because the broker refused this one as too large."""
        middle = len(self.records) // 2
        found = []
        for number, part in enumerate((slice(middle), slice(middle, None))):
            half = Batch(self.created, (*self.order, number))
            half.records, half.completions = self.records[part], self.completions[part]
            half.size = HEADER_SIZE + sum(size_of(each.key, each.value, each.headers) for each in half.records)
            if self.sequence != _NO_SEQUENCE:
                half.sequence = increment_sequence(self.sequence, number * middle)
            half.attempts = 1
            found.append(half)
        return found

    def complete(self, topic: str, partition: int, offset: int, append_time: int, error: Exception | None) -> None:
        """Call the completion of each record."""
        for number, completion in enumerate(self.completions):
            if completion is not None:
                timestamp = self.records[number].timestamp if append_time < 0 else append_time
                where = -1 if offset < 0 else offset + number
                completion(Delivery(topic, partition, where, timestamp, error))


class PartitionQueue:
    """The batches of one partition.

    A failed batch that will be retried waits in `again` until no batch is in flight. Then it goes back to its place in
    the queue, because batches must be appended in the order in which they were begun.
    """

    __slots__ = (
        "_acknowledged",
        "_again",
        "_is_broken",
        "_next_sequence",
        "epochs",
        "in_flight",
        "index",
        "leader",
        "not_before",
        "queue",
        "topic",
    )

    def __init__(self, topic: str, index: int) -> None:
        self.topic = topic
        self.index = index
        self.leader = -1
        self.queue: deque[Batch] = deque()
        self.in_flight = 0
        self.not_before = 0.0
        self.epochs = 0
        """How many times this partition began a new epoch of the producer's id."""
        self._again: list[Batch] = []
        self._next_sequence = 0
        self._acknowledged = 0
        self._is_broken = False

    def open_batch(self, size: int, limit: int) -> Batch | None:
        """Return the batch that has room for a record of `size` bytes; None if a new batch is needed."""
        if not self.queue:
            return None
        last = self.queue[-1]
        return None if last.attempts or last.size + size > limit else last

    def may_send(self, most_in_flight: int) -> bool:
        """Whether the order of batches allows to send the first one now."""
        return bool(self.queue) and self.in_flight < most_in_flight and not self._again

    def take(self, *, with_sequence: bool) -> Batch:
        """Remove and return the first batch, and count it as in flight."""
        batch = self.queue.popleft()
        if with_sequence and batch.sequence == _NO_SEQUENCE:
            batch.sequence = self._next_sequence
            self._next_sequence = increment_sequence(self._next_sequence, len(batch.records))
        self.in_flight += 1
        return batch

    def send_again(self, batch: Batch) -> None:
        """Put a batch that was in flight back into the queue."""
        self._again.append(batch)

    def acknowledge(self, batch: Batch) -> None:
        """Note that the broker has a batch."""
        self._acknowledged = increment_sequence(batch.sequence, len(batch.records))

    def is_next(self, batch: Batch) -> bool:
        """Whether the broker has all batches before this one."""
        return batch.sequence == self._acknowledged

    def break_sequence(self) -> None:
        """Note that the next sequence number will never be sent: later batches need a new epoch."""
        self._is_broken = True

    def landed(self) -> None:
        """Note that a batch is no longer in flight."""
        self.in_flight -= 1
        if self.in_flight:
            return
        self.queue.extendleft(sorted(self._again, key=lambda each: each.order, reverse=True))
        self._again.clear()
        if self._is_broken:
            self._begin_epoch()

    def _begin_epoch(self) -> None:
        self._is_broken = False
        self.epochs += 1
        self._next_sequence = self._acknowledged = 0
        for batch in self.queue:
            batch.sequence = _NO_SEQUENCE

    def epoch(self, first: int) -> int:
        """Return the epoch of new batches; `first` is the producer id's first one. OverflowError if none is left."""
        if first + self.epochs > _MAX_EPOCH:
            raise OverflowError("the producer id has no epoch left")
        return first + self.epochs

    def expired(self, before: float) -> list[Batch]:
        """Remove and return the batches in the queue that were begun before a time."""
        found = []
        while self.queue and self.queue[0].created <= before:
            batch = self.queue.popleft()
            found.append(batch)
            if batch.sequence != _NO_SEQUENCE:
                self.break_sequence()
        if self._is_broken and not self.in_flight:
            self._begin_epoch()
        return found
