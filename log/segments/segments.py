"""The segments of a log in order, and where the batches stand that will be asked for next.

Owns the order and the memory of positions. Must not know what the offsets are used for.
Counterpart in Kafka: LogSegments; the memory replaces LogOffsetMetadata.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import overload

from ottla.log.segments.open_files import FileRegion
from ottla.log.segments.segment import Damage, Segment, TimestampAndOffset, end_of_batches
from ottla.log.segments.segment_check import CheckOutcome, SegmentCheck
from ottla.log.segments.transaction_index import AbortedTransaction, aborted_within
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.record_batch import HEADER_SIZE, BatchHeader

NEVER_CUT = 2**63 - 1

_REMEMBERED = 128
# A read up to this size is copied: that takes fewer system calls than to send it from its file.
_SMALL = 1 << 16
# Bytes in which the last batches of a producer are looked for: tens of milliseconds, if they are full of small ones.
_ON_THE_WAY = 1 << 20


logger = logging.getLogger("kafka.log.LogSegment")


class UncheckedSegmentError(KafkaError):
    """A segment was found on the disk, and nobody has gone through it yet. Who meets this has that done, and waits."""

    def __init__(self, segment: Segment) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, f"{segment.file.path} is still to be checked")
        self.segment = segment


class Segments(Sequence[Segment]):
    """Oldest first. Never empty but for a moment within the log's own methods. The last segment is `active`."""

    __slots__ = (
        "_base_offsets", "_found_end_offset", "_older", "_recent", "_segments", "_set_aside", "active", "lowest_cut",
    )  # fmt: skip

    def __init__(self, segments: Sequence[Segment], found_end_offset: int = 0) -> None:
        """`found_end_offset`: where the last one ends, as it was found."""
        self._found_end_offset = found_end_offset
        self._segments = list(segments)
        self._base_offsets = [segment.base_offset for segment in segments]
        self._recent: dict[int, tuple[Segment, int]] = {}
        self._older: dict[int, tuple[Segment, int]] = {}
        self._set_aside: list[str] = []
        self.active = segments[-1]
        self.lowest_cut = NEVER_CUT
        """The lowest offset to which the log was truncated since the cleaner last looked."""
        self.remember(found_end_offset, self.active, self.active.size)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    @overload
    def __getitem__(self, slot: int) -> Segment: ...

    @overload
    def __getitem__(self, slot: slice) -> list[Segment]: ...

    def __getitem__(self, slot: int | slice) -> Segment | list[Segment]:
        return self._segments[slot]

    @property
    def first_base_offset(self) -> int:
        """Where the oldest segment starts."""
        return self._base_offsets[0]

    def add(self, segment: Segment) -> None:
        """A new active segment."""
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)
        self.active = segment
        self.forget()

    def floor_slot(self, offset: int) -> int:
        """The number of the segment in which `offset` would lie; -1 before the first one."""
        return bisect_right(self._base_offsets, offset) - 1

    def reaching(self, offset: int) -> list[Segment]:
        """The segments that can hold offsets from `offset` on."""
        return self._segments[max(self.floor_slot(offset), 0) :]

    def delete_from(self, slot: int) -> None:
        """Remove segments, newest first."""
        for segment in reversed(self._segments[slot:]):
            self._set_aside += segment.set_aside()
        del self._segments[slot:], self._base_offsets[slot:]
        if self._segments:
            self.active = self._segments[-1]
        self.forget()

    def delete_oldest(self) -> None:
        """Remove the oldest of several segments."""
        self._set_aside += self._segments[0].set_aside()
        del self._segments[0], self._base_offsets[0]
        self.forget()

    def take_set_aside(self) -> list[str]:
        """Return the files of removed segments: to be deleted where the disk may be waited for. Each is told once."""
        paths, self._set_aside = self._set_aside, []
        return paths

    def has_inactive(self, run: Sequence[Segment]) -> bool:
        """Whether these very segments follow each other here, and none of them takes records."""
        slot = self.floor_slot(run[0].base_offset)
        return slot >= 0 and self._segments[slot : slot + len(run)] == run and slot + len(run) < len(self._segments)

    def replace(self, run: Sequence[Segment], segment: Segment) -> None:
        """Have one segment stand for several that follow each other; their files are the caller's matter."""
        slot = self._segments.index(run[0])
        self._segments[slot : slot + len(run)] = [segment]
        self._base_offsets[slot : slot + len(run)] = [segment.base_offset]
        self.forget()

    # Positions

    def remember(self, offset: int, segment: Segment, position: int) -> None:
        """Keep where the batch that starts with `offset` stands: a reader that has all before it asks for it next."""
        recent = self._recent
        if len(recent) >= _REMEMBERED:
            self._older = recent
            recent = self._recent = {}
        recent[offset] = segment, position

    def forget(self) -> None:
        """Positions changed."""
        self._recent = {}
        self._older = {}

    def locate(self, offset: int) -> tuple[Segment, int] | None:
        """Segment and position of the batch with `offset`, or of the first one behind it; None at the end."""
        remembered = self._remembered(offset)
        if remembered is not None:
            return remembered
        for slot in range(self.floor_slot(offset), len(self._segments)):
            segment = self._segments[slot]
            _require_check(segment)
            position = segment.find(offset)
            if position is not None:
                return segment, position
        return None

    def _remembered(self, offset: int) -> tuple[Segment, int] | None:
        return self._recent.get(offset) or self._older.get(offset)

    def end_position(self, segment: Segment, end_offset: int) -> int:
        """How far a segment may be read by who must not see `end_offset`."""
        damage = segment.damage
        if damage is not None and damage.start_offset <= end_offset < damage.end_offset:
            return damage.start
        if segment is not self.active and end_offset >= self._base_offsets[self.floor_slot(segment.base_offset) + 1]:
            return segment.size
        remembered = self._remembered(end_offset)
        if remembered is not None:
            return remembered[1]
        position = segment.find(end_offset)
        if position is None:
            return segment.size
        self.remember(end_offset, segment, position)
        return position

    def read(
        self,
        offset: int,
        max_bytes: int,
        end_offset: int | None,
        min_one_message: bool,
        may_copy: bool,
        failed: Callable[[OSError], object],
    ) -> FileRegion | bytes | bytearray:
        """As `PartitionLog.read`; `end_offset` is None where the end of the log bounds the read.

        A region that is returned calls `failed` when the disk does not give its bytes.
        """
        found = self.locate(offset)
        if found is None:
            return b""
        segment, position = found
        end = segment.size if end_offset is None else self.end_position(segment, end_offset)
        if segment.damage is not None:
            end = segment.readable_end(position, end)
        length = min(end - position, max_bytes)
        if may_copy and HEADER_SIZE <= length <= _SMALL:
            batches = self.read_small(segment, position, length)
            if batches is not None:
                return batches
        if position + length < end:
            first = segment.batch_size(position)
            if first > max_bytes and not min_one_message:
                return b""
            length = min(end - position, max(first, max_bytes))
        return FileRegion(segment.file, position, length, failed) if length > 0 else b""

    def read_small(self, segment: Segment, position: int, size: int) -> bytearray | None:
        """Whole batches and a cut one, and remember where the next read will start.

        None if a disk would have to be waited for, or if not even the first batch fits.
        """
        data = segment.read_cached(position, size)
        if data is None:
            return None
        end, following = end_of_batches(data)
        if not end:
            return None
        position += end
        if following is not None and (position < segment.size or segment is self.active):
            self.remember(following, segment, position)
        return data

    def headers_before(self, offset: int) -> Iterator[BatchHeader]:
        """The headers of batches before the one with `offset`: as many as a producer may have on their way."""
        slot = first = self.floor_slot(offset)
        size = 0
        while first > 0 and size < _ON_THE_WAY:
            first -= 1
            size += self._segments[first].size
        for segment in self._segments[first : slot + 1]:
            yield from segment.headers_before(offset, _ON_THE_WAY)

    # Transactions

    def aborted_transactions(self, offset: int, size: int, end_offset: int) -> Sequence[AbortedTransaction]:
        """Those that were aborted and may have records in `size` bytes that were read from `offset` on.

        There may be more than those, as in Kafka: indexes are sparse. `end_offset`: what no record read reaches.
        """
        slot = max(self.floor_slot(offset), 0)
        later = [segment.transactions for segment in self._segments[slot:] if segment.transactions.entries]
        found = self.locate(offset) if later else None
        if found is None:
            return ()
        segment, position = found
        following = self.floor_slot(segment.base_offset) + 1
        if following < len(self._segments):
            end_offset = min(end_offset, self._base_offsets[following])
        upper = segment.offset_index.offset_from(position + size)
        return aborted_within(later, offset, end_offset if upper is None else min(end_offset, upper))

    # Checking what was found

    def check_job(self, segment: Segment) -> SegmentCheck:
        """What is to be run before a segment is served that nobody has gone through yet."""
        slot = self.floor_slot(segment.base_offset)
        end_offset = self._base_offsets[slot + 1] if slot + 1 < len(self) else self._found_end_offset
        segment.offset_index.write_tail()
        segment.time_index.write_tail()
        return SegmentCheck(
            segment.file.open().duplicate(),
            segment.offset_index.duplicate(),
            segment.time_index.duplicate(),
            segment.offset_index.entries,
            segment.time_index.entries,
            segment.base_offset,
            segment.found_bytes,
            min(end_offset, self._found_end_offset),
            segment.max_timestamp,
            segment.index_interval_bytes,
        )

    def checked(self, segment: Segment, job: SegmentCheck, outcome: CheckOutcome) -> None:
        """A job has run. One that was cut meanwhile is to be gone through anew."""
        if segment.is_checked or segment.found_bytes != job.size:
            return
        path = segment.file.path
        if outcome.sound_bytes < job.size:
            segment.damage = Damage(outcome.sound_bytes, outcome.end_offset, job.size, job.end_offset)
            logger.error(
                "%s is damaged: no batch is where one should be at position %d of %d. Offsets %d to %d cannot be read",
                path,
                outcome.sound_bytes,
                job.size,
                outcome.end_offset,
                job.end_offset - 1,
            )
        if outcome.offset_entries is not None:
            logger.warning("%s contradicts its segment and is made anew", segment.offset_index.path)
            segment.offset_index.replace_entries(job.offset_entries, outcome.offset_entries)
        if outcome.time_entries is not None:
            logger.warning("%s contradicts its segment and is made anew", segment.time_index.path)
            segment.time_index.replace_entries(job.time_entries, outcome.time_entries)
        segment.is_checked = True

    # Timestamps

    def offset_for_timestamp(self, timestamp_ms: int, start_offset: int) -> TimestampAndOffset | None:
        """The first record from `start_offset` on that is not older, None if there is none."""
        for segment in self._segments:
            if segment.max_timestamp >= timestamp_ms:
                _require_sound(segment)
                found = segment.offset_for_timestamp(timestamp_ms, start_offset)
                if found is not None:
                    return found
        return None

    def offset_of_max_timestamp(self) -> TimestampAndOffset | None:
        """The first record with the largest timestamp of all, None where there are no timestamps."""
        newest = max(self._segments, key=lambda segment: segment.max_timestamp)
        if newest.max_timestamp < 0:
            return None
        _require_sound(newest)
        return newest.find_max_timestamp()


def _require_check(segment: Segment) -> None:
    if not segment.is_checked:
        raise UncheckedSegmentError(segment)


def _require_sound(segment: Segment) -> None:
    """For a search that may come to any batch."""
    _require_check(segment)
    if segment.damage is not None:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{segment.file.path} is damaged from {segment.damage.start} on")
