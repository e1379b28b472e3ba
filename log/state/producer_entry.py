"""One producer in one partition: its epoch, its last batches, and its open transaction.

Owns what is remembered of a producer, and its entry in a snapshot. Must not know the rules of an append, nor other
producers. Counterpart in Kafka: ProducerStateEntry, BatchMetadata.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.log.state.producer_snapshot import SnapshotEntry
from ottla.wire.records.batch import BatchHeader
from ottla.wire.types import NO_EPOCH

BATCHES_TO_RETAIN: Final = 5
MAX_SEQUENCE: Final = 2**31 - 1
NO_SEQUENCE: Final = -1
NO_OFFSET: Final = -1


class BatchMetadata(NamedTuple):
    """One appended batch of a producer."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """The first sequence number; sequence numbers wrap behind MAX_SEQUENCE."""
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE

    @property
    def following_sequence(self) -> int:
        """The first sequence number of the producer's next batch."""
        return (self.last_sequence + 1) & MAX_SEQUENCE

    @property
    def first_offset(self) -> int:
        """The offset in the response to the producer."""
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """One producer in one partition."""

    __slots__ = (
        "batches", "coordinator_epoch", "current_txn_first_offset", "has_forgotten", "last_timestamp", "producer_epoch",
        "producer_id",
    )  # fmt: skip

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = NO_EPOCH
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.current_txn_first_offset = NO_OFFSET
        self.batches: list[BatchMetadata] = []
        """Oldest first, all of the current epoch."""
        self.has_forgotten = False
        """Whether the log may hold more of the last five batches, because a snapshot holds only the last one."""

    def has_open_transaction(self, epoch: int) -> bool:
        """Return whether a transaction of this epoch is open; an older one may have ended already elsewhere."""
        return self.current_txn_first_offset >= 0 and self.producer_epoch == epoch

    @property
    def last_sequence(self) -> int:
        """The last sequence number of the newest batch, -1 without batches of this epoch."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def copy(self) -> "ProducerEntry":
        """Return a copy that changes independently."""
        other = ProducerEntry(self.producer_id)
        other.producer_epoch = self.producer_epoch
        other.coordinator_epoch = self.coordinator_epoch
        other.last_timestamp = self.last_timestamp
        other.current_txn_first_offset = self.current_txn_first_offset
        other.batches = self.batches[:]
        other.has_forgotten = self.has_forgotten
        return other

    def duplicate(self, epoch: int, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        """Return the batch with these sequence numbers, None if it is not one of the last BATCHES_TO_RETAIN."""
        if epoch == self.producer_epoch:
            for batch in reversed(self.batches):
                if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                    return batch
        return None

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch; forget the batches of another epoch."""
        if epoch != self.producer_epoch:
            self.producer_epoch = epoch
            self.batches.clear()
            self.has_forgotten = False

    def remember(self, headers: Iterable[BatchHeader]) -> None:
        """Add batches from `headers`, which lie before the known batches."""
        self.has_forgotten = False
        older = [
            BatchMetadata(header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp)
            for header in headers
            if header.producer_id == self.producer_id
            and header.producer_epoch == self.producer_epoch
            and not header.is_control
        ]
        self.batches = (older + self.batches)[-BATCHES_TO_RETAIN:]

    def to_snapshot(self) -> SnapshotEntry:
        """Return the entry of a snapshot."""
        last = self.batches[-1] if self.batches else BatchMetadata(NO_SEQUENCE, NO_OFFSET, 0, -1)
        return SnapshotEntry(
            self.producer_id,
            self.producer_epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            self.last_timestamp,
            self.coordinator_epoch,
            self.current_txn_first_offset,
        )

    @classmethod
    def from_snapshot(cls, found: SnapshotEntry) -> "ProducerEntry":
        """Return the producer of a snapshot entry."""
        entry = cls(found.producer_id)
        entry.producer_epoch = found.producer_epoch
        entry.coordinator_epoch = found.coordinator_epoch
        entry.last_timestamp = found.timestamp
        entry.current_txn_first_offset = max(found.current_txn_first_offset, NO_OFFSET)
        if found.last_offset >= 0:
            entry.batches.append(
                BatchMetadata(found.last_sequence, found.last_offset, found.offset_delta, found.timestamp)
            )
            entry.has_forgotten = True
        return entry
