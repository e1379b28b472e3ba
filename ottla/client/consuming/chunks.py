"""The batches of one partition in a fetch response, without control batches and aborted transactions.

PURE. Records are decoded by `records` only. Counterparts in Kafka: CompletedFetch, FetchResponse.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ottla.wire.messages.fetch import AbortedTransaction
from ottla.wire.records.batch import (
    BatchHeader,
    ControlType,
    CorruptBatch,
    Record,
    control_type,
    crc_is_valid,
    iter_batches,
    iter_records,
)
from ottla.wire.types import TopicPartition

Batch = tuple[BatchHeader, memoryview]


class Chunk(NamedTuple):
    """Batches of one partition from `start` on; the first one may begin before it.

    `next_offset` is the offset to continue at, and `end` the end of the log for this reader, both exclusive.
    """

    partition: TopicPartition
    start: int
    next_offset: int
    end: int
    batches: Sequence[Batch]
    size: int

    def records(self) -> Iterator[tuple[BatchHeader, Record]]:
        """Yield the records with the headers of their batches. CorruptBatch for an invalid record."""
        for header, batch in self.batches:
            for record in iter_records(batch):
                if record.offset >= self.start:
                    yield header, record

    @property
    def record_count(self) -> int:
        """Return how many records the batches hold, by their headers; all of the first batch count."""
        return sum(header.record_count for header, _ in self.batches)

    @property
    def leader_epoch(self) -> int:
        """Return the leader epoch of the last batch, -1 without batches."""
        return self.batches[-1][0].partition_leader_epoch if self.batches else -1


def readable(
    data: memoryview, start: int, aborted: Sequence[AbortedTransaction] | None = None
) -> tuple[list[Batch], int]:
    """Return the batches with records at or after `start`, and the offset after the last batch.

    Batches of aborted transactions are left out; a transaction ends with its marker. CorruptBatch for a batch with a
    wrong checksum.
    """
    found: list[Batch] = []
    following = start
    to_come = deque(sorted(aborted or (), key=lambda each: each.first_offset))
    begun: set[int] = set()
    for header, batch in iter_batches(data):
        if not crc_is_valid(batch):
            raise CorruptBatch(f"the batch at offset {header.base_offset} does not have its checksum")
        while to_come and to_come[0].first_offset <= header.last_offset:
            begun.add(to_come.popleft().producer_id)
        following = max(following, header.next_offset)
        if header.is_control:
            if header.producer_id in begun and control_type(batch) is ControlType.ABORT:
                begun.discard(header.producer_id)
        elif header.last_offset >= start and not (header.is_transactional and header.producer_id in begun):
            found.append((header, batch))
    return found, following
