"""An append between its two halves: the first checks and places the batches, the second counts the written batches.

Owns the values that the second half needs, and the write between the two halves, which may run in a worker thread. Must
not know callers. Counterpart in Kafka: none, because UnifiedLog.append holds its lock during the write.
"""

import time
from collections.abc import Sequence

from ottla.log.append_info import LogAppendInfo, UnexpectedAppendOffsetError
from ottla.log.config import LogConfig
from ottla.log.segments.open_files import OpenFile
from ottla.log.segments.segment import Segment, write_at
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.records.batch import ProducedBatch, crc_is_valid, iter_batches

# One system call takes at most IOV_MAX (1024) buffers.
_BATCHES_IN_ONE_WRITE = 1000


class Append:
    """Batches for the end of a segment. They do not count before they are written and `end_append` is called."""

    __slots__ = ("batches", "first_offset", "info", "segment", "size")

    def __init__(
        self,
        batches: tuple[ProducedBatch, ...],
        segment: Segment | None,
        first_offset: int,
        size: int,
        info: LogAppendInfo | None,
    ) -> None:
        """`segment` is None for a duplicate; `info` is None for an append as a follower."""
        self.batches = batches
        self.segment = segment
        self.first_offset = first_offset
        self.size = size
        self.info = info

    @property
    def leader_info(self) -> LogAppendInfo:
        """The info of an append as a leader."""
        assert self.info is not None
        return self.info

    def buffers(self) -> tuple[memoryview, ...]:
        """Return the bytes of all batches."""
        batches = self.batches
        if len(batches) == 1:
            return (batches[0].data,)
        return tuple([batch.data for batch in batches])


class SegmentWrite:
    """The write of an append. `begin_write` returns it, any thread may call `run`, `end_append` takes it."""

    __slots__ = ("buffers", "error", "file", "path", "position", "seconds", "size")

    def __init__(self, append: Append, segment: Segment) -> None:
        self.file: OpenFile = segment.file.open().duplicate()
        self.path = segment.file.path
        self.buffers = append.buffers()
        self.position = segment.size
        self.size = append.size
        self.error: OSError | None = None
        self.seconds = 0.0

    def run(self) -> None:
        """Write, and wait. Sets `error` if the disk fails."""
        started = time.perf_counter()
        try:
            write_at(self.file.fd, self.path, self.buffers, self.size, self.position)
        except OSError as error:
            self.error = error
        self.seconds = time.perf_counter() - started


def batches_for(
    segment: Segment, batches: Sequence[ProducedBatch], config: LogConfig, now_ms: int
) -> tuple[tuple[ProducedBatch, ...], int]:
    """Return the first batches that fit into `segment` together, at least one, and their total size."""
    size, count = batches[0].header.size, 1
    for each in batches[1 : min(_BATCHES_IN_ONE_WRITE, segment.indexable_batches)]:
        header = each.header
        together = size + header.size
        if segment.should_roll(config, together, header.max_timestamp, header.last_offset, now_ms):
            break
        size, count = together, count + 1
    return tuple(batches[:count]), size


def replicated_batches(records: memoryview, log_end_offset: int) -> list[ProducedBatch]:
    """Return the whole batches in the `records` of a leader; an incomplete last batch is left out.

    KafkaError CORRUPT_MESSAGE for a bad checksum, INVALID_RECORD for offsets that do not rise;
    UnexpectedAppendOffsetError if the first batch starts before `log_end_offset`.
    """
    batches = list(iter_batches(records))
    expected = log_end_offset
    for header, batch in batches:
        if not crc_is_valid(batch):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {header.crc})")
        if header.base_offset < expected or header.last_offset_delta < 0:
            if expected == log_end_offset:
                raise UnexpectedAppendOffsetError(
                    f"First offset {header.base_offset} is less than the next offset {expected}",
                    header.base_offset,
                    batches[-1][0].last_offset,
                )
            raise KafkaError(ErrorCode.INVALID_RECORD, f"Out of order offset {header.base_offset} in an append")
        expected = header.next_offset
    return [ProducedBatch(header, batch, header.max_timestamp) for header, batch in batches]
