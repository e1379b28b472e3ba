"""Which batches of a log under compaction were aborted, and which transaction markers may go.

Owns the state of transactions while the cleaner reads batches, oldest first. Must not know keys.
Counterpart in Kafka: CleanedTransactionMetadata.
"""

from pathlib import Path

from ottla.log.segments.open_files import OpenFiles
from ottla.log.segments.transaction_index import TRANSACTION_INDEX_SUFFIX, AbortedTransaction, TransactionIndex
from ottla.wire.records.batch import BatchHeader, ControlType, control_type


def aborted_transactions(directory: Path, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
    """Return the aborted transactions between two offsets, the end exclusive, sorted by first offset.

    CorruptIndexError if a transaction index is damaged.
    """
    found = set()
    for path in directory.glob("*" + TRANSACTION_INDEX_SUFFIX):
        index = TransactionIndex(OpenFiles(), str(path))
        index.load()
        found |= set(index.entries)
    reaching = (each for each in found if each.last_offset >= start_offset and each.first_offset < end_offset)
    return sorted(reaching, key=lambda each: each.first_offset)


class CleanedTransactions:
    """The transactions that are open at the current batch."""

    __slots__ = ("_committed", "_open", "_seen", "_waiting", "kept")

    def __init__(self, aborted: list[AbortedTransaction]) -> None:
        self._waiting = aborted[::-1]
        self._open: dict[int, AbortedTransaction] = {}
        self._seen: set[int] = set()
        self._committed: set[int] = set()
        self.kept: list[AbortedTransaction] = []
        """Aborted transactions with batches left: the transaction index of the cleaned segment needs them."""

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether the next batch, a data batch, was aborted, so that no reader may see it."""
        self._open_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._open:
            self._seen.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def is_spent(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether the next batch, a marker, ends a transaction of which no batch is left."""
        self._open_up_to(header.last_offset)
        if not header.record_count:
            return True
        producer_id = header.producer_id
        kind = control_type(batch)
        if kind is ControlType.COMMIT:
            was_seen = producer_id in self._committed
            self._committed.discard(producer_id)
            return not was_seen
        if kind is not ControlType.ABORT:
            return False
        transaction = self._open.pop(producer_id, None)
        if transaction is None or producer_id not in self._seen:
            return True
        self._seen.discard(producer_id)
        self.kept.append(transaction)
        return False

    def _open_up_to(self, offset: int) -> None:
        while self._waiting and self._waiting[-1].first_offset <= offset:
            transaction = self._waiting.pop()
            self._open.setdefault(transaction.producer_id, transaction)
