"""The producers of a partition, so that a batch sent twice is appended once.

Owns the rules for epochs and sequence numbers, the last five batches of each producer, open transactions' first
offsets, and when snapshots are taken. Must not know segments.
Counterpart in Kafka: ProducerStateManager, ProducerStateEntry, ProducerAppendInfo.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ottla.log.segments.transaction_index import AbortedTransaction
from ottla.log.state.producer_snapshot import (
    SNAPSHOT_SUFFIX,
    CorruptSnapshotError,
    SnapshotEntry,
    decode_snapshot,
    snapshot_path,
    write_snapshot,
)
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.records.batch import BatchHeader, ControlType, CorruptBatch, end_transaction_marker
from ottla.wire.types import NO_EPOCH

# Returns the headers of the last batches before an offset, oldest first.
HeadersBefore = Callable[[int], Iterable[BatchHeader]]

BATCHES_TO_RETAIN = 5
NO_SEQUENCE = -1
NO_OFFSET = -1
_MAX_SEQUENCE = 2**31 - 1

logger = logging.getLogger("org.apache.kafka.storage.internals.log.ProducerStateManager")


class BatchMetadata(NamedTuple):
    """One appended batch of a producer."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """The first sequence number; sequence numbers wrap behind _MAX_SEQUENCE."""
        return (self.last_sequence - self.offset_delta) & _MAX_SEQUENCE

    @property
    def following_sequence(self) -> int:
        """The first sequence number of the producer's next batch."""
        return (self.last_sequence + 1) & _MAX_SEQUENCE

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


class ProducerState:
    """All producers of one partition up to `end_offset` (exclusive)."""

    __slots__ = (
        "_decided", "_directory", "_entries", "_ongoing", "_snapshots", "end_offset", "expiration_ms",
        "last_snapshot_offset",
    )  # fmt: skip

    def __init__(
        self, directory: Path, expiration_ms: int = 86_400_000, snapshots: Sequence[int] | None = None
    ) -> None:
        """`snapshots`: the offsets of the snapshot files, if the caller knows them."""
        self._directory = directory
        self.expiration_ms = expiration_ms
        self._entries: dict[int, ProducerEntry] = {}
        self._ongoing: dict[int, int] = {}
        self._decided: deque[tuple[int, int]] = deque()
        self._snapshots = sorted(_snapshot_offsets(directory) if snapshots is None else snapshots)
        self.end_offset = 0
        self.last_snapshot_offset = 0

    @property
    def entries(self) -> Mapping[int, ProducerEntry]:
        """The producers by id."""
        return self._entries

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return the start of the oldest open transaction; a marker above the high watermark does not close one."""
        if not self._ongoing and not self._decided:
            return None
        self.replicated(high_watermark)
        undecided = min(self._ongoing.values(), default=None)
        unreplicated = min((first_offset for first_offset, _ in self._decided), default=None)
        return min((each for each in (undecided, unreplicated) if each is not None), default=None)

    def replicated(self, high_watermark: int) -> None:
        """Forget closed transactions whose markers lie below the high watermark."""
        decided = self._decided
        while decided and decided[0][1] < high_watermark:
            decided.popleft()

    @property
    def snapshot_offsets(self) -> tuple[int, ...]:
        """The offsets of the snapshot files, rising."""
        return tuple(self._snapshots)

    # The rules of an append by a client

    def check(self, header: BatchHeader, headers_before: HeadersBefore = lambda _: ()) -> BatchMetadata | None:
        """Return None if the producer may append this batch now, the earlier batch for a duplicate.

        KafkaError INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER or INVALID_TXN_STATE otherwise. Deviation: after
        a restart Kafka knows only the last batch of a producer and refuses duplicates of earlier batches, which the
        producer may then append twice under a new epoch. Here `headers_before` finds the earlier batches in the log.
        """
        try:
            return self._check(header)
        except KafkaError:
            entry = self._entries.get(header.producer_id)
            if entry is None or not entry.has_forgotten:
                raise
            entry.remember(headers_before(entry.batches[0].first_offset))
            return self._check(header)

    def _check(self, header: BatchHeader) -> BatchMetadata | None:
        entry = self._entries.get(header.producer_id)
        epoch = header.producer_epoch
        if entry is None:
            if epoch < NO_EPOCH:
                raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, f"{epoch} of producer {header.producer_id} is none")
            return None
        first = header.base_sequence
        if not header.attributes & 0x20:  # a marker has no sequence
            duplicate = entry.duplicate(epoch, first, (first + header.last_offset_delta) & _MAX_SEQUENCE)
            if duplicate is not None:
                return duplicate
        if epoch < entry.producer_epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {header.producer_id} is {epoch}, "
                f"which is smaller than the last seen epoch {entry.producer_epoch}",
            )
        if not header.attributes & 0x20:
            self._check_data(entry, header, first)
        return None

    @staticmethod
    def _check_data(entry: ProducerEntry, header: BatchHeader, first: int) -> None:
        if header.producer_epoch != entry.producer_epoch:
            if first != 0 and entry.producer_epoch != NO_EPOCH:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Invalid sequence number for new epoch of producer {header.producer_id}: "
                    f"{header.producer_epoch} (request epoch), {first} (seq. number), "
                    f"{entry.producer_epoch} (current producer epoch)",
                )
        else:
            last = entry.last_sequence
            if first != last + 1 and not (first == 0 and last == _MAX_SEQUENCE):
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Out of order sequence number for producer {header.producer_id}: {first} (incoming seq. number), "
                    f"{last} (current end sequence number)",
                )
        if entry.current_txn_first_offset >= 0 and not header.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE, f"Expected transactional write from producer {header.producer_id}"
            )

    # What an append, by whomever, leaves behind

    def update(self, header: BatchHeader, first_offset: int, timestamp: int) -> None:
        """Add a data batch of the log."""
        entry = self._entry(header.producer_id)
        if header.producer_epoch != entry.producer_epoch:
            entry.set_epoch(header.producer_epoch)
        delta = header.last_offset_delta
        batches = entry.batches
        if len(batches) >= BATCHES_TO_RETAIN:
            del batches[0]
        batches.append(
            BatchMetadata((header.base_sequence + delta) & _MAX_SEQUENCE, first_offset + delta, delta, timestamp)
        )
        entry.last_timestamp = timestamp
        if header.is_transactional and entry.current_txn_first_offset < 0:
            entry.current_txn_first_offset = self._ongoing[header.producer_id] = first_offset

    def end_transaction(self, header: BatchHeader, batch: memoryview, offset: int) -> AbortedTransaction | None:
        """End the producer's open transaction, if there is one, by a marker in the log.

        Returns the transaction if the marker aborts it, None otherwise.
        """
        try:
            marker = end_transaction_marker(batch)
        except CorruptBatch as error:
            logger.warning("Ignoring a corrupt marker of producer %d: %s", header.producer_id, error)
            return None
        entry = self._entry(header.producer_id)
        entry.set_epoch(header.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = header.max_timestamp
        entry.current_txn_first_offset = NO_OFFSET
        first_offset = self._ongoing.pop(header.producer_id, None)
        if first_offset is None:
            return None
        self._decided.append((first_offset, offset))
        if marker.control_type is ControlType.COMMIT:
            return None
        stable = min(self._ongoing.values(), default=offset + 1)
        return AbortedTransaction(header.producer_id, first_offset, offset, stable)

    def _entry(self, producer_id: int) -> ProducerEntry:
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerEntry(producer_id)
        return entry

    def take_over(self, other: "ProducerState") -> None:
        """Hold copies of exactly the producers of another log with the same batches."""
        self._ongoing.clear()
        for producer_id in [each for each in self._entries if each not in other.entries]:
            del self._entries[producer_id]
        for entry in other.entries.values():
            self._put(entry.copy())

    def _put(self, entry: ProducerEntry) -> None:
        self._entries[entry.producer_id] = entry
        if entry.current_txn_first_offset >= 0:
            self._ongoing[entry.producer_id] = entry.current_txn_first_offset

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return entry.current_txn_first_offset < 0 and now_ms - entry.last_timestamp >= self.expiration_ms

    def remove_expired(self, now_ms: int) -> None:
        """Forget producers without a batch for `expiration_ms`, unless they have an open transaction."""
        for producer_id in [pid for pid, entry in self._entries.items() if self._is_expired(entry, now_ms)]:
            del self._entries[producer_id]

    # Snapshots

    def moved_to(self, directory: Path) -> None:
        """Note that the snapshots are in `directory` now."""
        self._directory = directory

    def take_snapshot(self, *, sync: bool) -> Path | None:
        """Write a snapshot at `end_offset`; return its path, None if the last snapshot is not older."""
        if self.end_offset <= self.last_snapshot_offset:
            return None
        path = snapshot_path(self._directory, self.end_offset)
        write_snapshot(path, (entry.to_snapshot() for entry in self._entries.values()), sync=sync)
        if self.end_offset not in self._snapshots:
            self._snapshots.append(self.end_offset)
            self._snapshots.sort()
        self.last_snapshot_offset = self.end_offset
        return path

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Load the newest snapshot within the log; the caller replays the batches from `end_offset` on."""
        for offset in self.snapshot_offsets:
            if offset > log_end_offset or offset <= log_start_offset:
                self._delete_snapshot(offset)
        if log_end_offset == self.end_offset:
            self.last_snapshot_offset = self._snapshots[-1] if self._snapshots else log_start_offset
            return
        self._entries.clear()
        self._ongoing.clear()
        self._decided.clear()
        while self._snapshots:
            offset = self._snapshots[-1]
            path = snapshot_path(self._directory, offset)
            try:
                found = decode_snapshot(path.read_bytes())
            except (CorruptSnapshotError, OSError) as error:
                logger.warning("Deleting producer snapshot %s, older batches are read instead: %s", path, error)
                self._delete_snapshot(offset)
                continue
            for entry in map(ProducerEntry.from_snapshot, found):
                if not self._is_expired(entry, now_ms):
                    self._put(entry)
            self.end_offset = self.last_snapshot_offset = offset
            return
        self.end_offset = self.last_snapshot_offset = log_start_offset

    def truncate_fully(self, offset: int) -> None:
        """Forget all producers and delete all snapshots, because the log restarts at `offset`."""
        self._entries.clear()
        self._ongoing.clear()
        self._decided.clear()
        for snapshot in self.snapshot_offsets:
            self._delete_snapshot(snapshot)
        self.last_snapshot_offset = 0
        self.end_offset = offset

    def remove_stray_snapshots(self, base_offsets: Iterable[int]) -> None:
        """Delete all snapshots but those at `base_offsets`, and the newest if it lies behind them."""
        wanted = set(base_offsets)
        stray = [offset for offset in self._snapshots if offset not in wanted]
        if stray and stray[-1] > max(wanted, default=-1):
            stray.pop()
        for offset in stray:
            self._delete_snapshot(offset)

    def release_snapshot(self, offset: int) -> Path | None:
        """Forget the snapshot at `offset`; return its path, which the caller removes, None if there is none."""
        if offset not in self._snapshots:
            return None
        self._snapshots.remove(offset)
        return snapshot_path(self._directory, offset)

    def _delete_snapshot(self, offset: int) -> None:
        self._snapshots.remove(offset)
        snapshot_path(self._directory, offset).unlink(missing_ok=True)


def _snapshot_offsets(directory: Path) -> list[int]:
    names = [path.name for path in directory.iterdir() if path.name.endswith(SNAPSHOT_SUFFIX)]
    return [int(stem) for name in names if (stem := name.removesuffix(SNAPSHOT_SUFFIX)).isdigit()]
