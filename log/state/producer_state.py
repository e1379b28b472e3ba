"""The producers of a partition, so that a batch sent twice is appended once.

Owns the rules for epochs and sequence numbers of batches and markers, the first offsets of open transactions, and when
snapshots are taken. Must not know segments.
Counterpart in Kafka: ProducerStateManager, ProducerAppendInfo, UnifiedLog.analyzeAndValidateProducerState.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from ottla.log.segments.transaction_index import AbortedTransaction
from ottla.log.state.producer_entry import BATCHES_TO_RETAIN, MAX_SEQUENCE, NO_OFFSET, BatchMetadata, ProducerEntry
from ottla.log.state.producer_snapshot import (
    SNAPSHOT_SUFFIX,
    CorruptSnapshotError,
    decode_snapshot,
    snapshot_path,
    write_snapshot,
)
from ottla.log.state.verification import AppendOrigin, TransactionalAppend, VerificationGuard, VerificationGuards
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.records.batch import BatchHeader, ControlType, CorruptBatch, end_transaction_marker
from ottla.wire.types import NO_EPOCH

# Returns the headers of the last batches before an offset, oldest first.
HeadersBefore = Callable[[int], Iterable[BatchHeader]]

# From this transaction version on each transaction of a producer has its own epoch, and a marker has the next one.
_EPOCH_BUMPS: Final = 2

logger = logging.getLogger("org.apache.kafka.storage.internals.log.ProducerStateManager")


class ProducerState:
    """All producers of one partition up to `end_offset` (exclusive)."""

    __slots__ = (
        "_decided", "_directory", "_entries", "_guards", "_ongoing", "_snapshots", "end_offset", "expiration_ms",
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
        self._guards = VerificationGuards()
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

    # The rules of an append by a leader

    def start_verification(
        self, producer_id: int, sequence: int, epoch: int, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationGuard | None:
        """Return the guard for an append in a transaction, None if the transaction is open.

        With a guard the caller asks the coordinator whether the transaction is open, before the append. `sequence` is
        the batch's first sequence number. KafkaError INVALID_PRODUCER_EPOCH for an old epoch.
        """
        entry = self._entries.get(producer_id)
        if entry is not None:
            if epoch < entry.producer_epoch:
                raise _old_epoch(entry, epoch)
            if entry.has_open_transaction(epoch):
                return None
        return self._guards.start(producer_id, sequence, epoch, supports_epoch_bump, now_ms)

    def check(
        self,
        header: BatchHeader,
        headers_before: HeadersBefore = lambda _: (),
        how: TransactionalAppend | None = None,
    ) -> BatchMetadata | None:
        """Return None if the producer may append this data batch now, the earlier batch for a duplicate.

        KafkaError INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER or INVALID_TXN_STATE otherwise. Without `how`
        no verification of a transaction is needed. Deviation: after a restart Kafka knows only the last batch of a
        producer and refuses duplicates of earlier batches, which the producer may then append twice under a new epoch.
        Here `headers_before` finds the earlier batches in the log.
        """
        try:
            return self._check(header, how)
        except KafkaError:
            entry = self._entries.get(header.producer_id)
            if entry is None or not entry.has_forgotten:
                raise
            entry.remember(headers_before(entry.batches[0].first_offset))
            return self._check(header, how)

    def _check(self, header: BatchHeader, how: TransactionalAppend | None) -> BatchMetadata | None:
        entry = self._entries.get(header.producer_id)
        epoch = header.producer_epoch
        is_clients = how is None or how.origin is AppendOrigin.CLIENT
        if entry is None:
            if epoch < NO_EPOCH:
                raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, f"{epoch} of producer {header.producer_id} is none")
            if how is not None:
                self._guards.check(header, how)
            if is_clients:
                self._guards.check_sequence(header, has_batches=False)
            return None
        if is_clients:
            first = header.base_sequence
            duplicate = entry.duplicate(epoch, first, (first + header.last_offset_delta) & MAX_SEQUENCE)
            if duplicate is not None:
                return duplicate
        if epoch < entry.producer_epoch:
            raise _old_epoch(entry, epoch)
        if how is not None and not entry.has_open_transaction(epoch):
            self._guards.check(header, how)
        if is_clients:
            self._check_sequence(entry, header)
        if entry.current_txn_first_offset >= 0 and not header.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE, f"Expected transactional write from producer {header.producer_id}"
            )
        return None

    def _check_sequence(self, entry: ProducerEntry, header: BatchHeader) -> None:
        if self._guards.by_producer:
            self._guards.check_sequence(header, has_batches=bool(entry.batches))
        first = header.base_sequence
        if header.producer_epoch == entry.producer_epoch:
            last = entry.last_sequence
            follows = first == last + 1 or (first == 0 and last == MAX_SEQUENCE)
            if not follows and entry.producer_epoch != NO_EPOCH:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Out of order sequence number for producer {header.producer_id}: {first} (incoming seq. number), "
                    f"{last} (current end sequence number)",
                )
        elif first != 0 and entry.producer_epoch != NO_EPOCH:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Invalid sequence number for new epoch of producer {header.producer_id}: "
                f"{header.producer_epoch} (request epoch), {first} (seq. number), "
                f"{entry.producer_epoch} (current producer epoch)",
            )

    def check_marker(self, header: BatchHeader, batch: memoryview, transaction_version: int) -> None:
        """Raise KafkaError if the marker in `batch` may not end the producer's transaction.

        INVALID_PRODUCER_EPOCH: it is of an older epoch. With transaction version 2 a marker of the same epoch is
        refused too while a transaction is open; without one it was sent again, and is appended again.
        TRANSACTION_COORDINATOR_FENCED: a later coordinator has sent a marker already.
        """
        marker = end_transaction_marker(batch)
        entry = self._entries.get(header.producer_id) or ProducerEntry(header.producer_id)
        epoch = header.producer_epoch
        is_late = transaction_version >= _EPOCH_BUMPS and entry.has_open_transaction(epoch)
        if epoch < entry.producer_epoch or is_late:
            raise _old_epoch(entry, epoch)
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"The marker for producer {header.producer_id} is of coordinator epoch {marker.coordinator_epoch}, "
                f"the last one was of {entry.coordinator_epoch}",
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
            BatchMetadata((header.base_sequence + delta) & MAX_SEQUENCE, first_offset + delta, delta, timestamp)
        )
        entry.last_timestamp = timestamp
        if header.is_transactional:
            if entry.current_txn_first_offset < 0:
                entry.current_txn_first_offset = self._ongoing[header.producer_id] = first_offset
            self._guards.appended(header)

    def end_transaction(self, header: BatchHeader, batch: memoryview, offset: int) -> AbortedTransaction | None:
        """End the producer's open transaction, if there is one, by a marker in the log.

        Returns the transaction if the marker aborts it, None otherwise.
        """
        if header.record_count == 0:
            return None  # compaction has removed the marker
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
        self._guards.appended(header)
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
        """Hold copies of exactly the producers of another log with the same batches, and its guards."""
        self._guards = other._guards
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
        self._guards.remove_expired(now_ms, self.expiration_ms)

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


def _old_epoch(entry: ProducerEntry, epoch: int) -> KafkaError:
    last = entry.producer_epoch
    comparison = "not larger" if epoch == last else "smaller"
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"Epoch of producer {entry.producer_id} is {epoch}, which is {comparison} than the last seen epoch {last}",
    )


def _snapshot_offsets(directory: Path) -> list[int]:
    names = [path.name for path in directory.iterdir() if path.name.endswith(SNAPSHOT_SUFFIX)]
    return [int(stem) for name in names if (stem := name.removesuffix(SNAPSHOT_SUFFIX)).isdigit()]
