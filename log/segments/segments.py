"""The segments of a log in order, and the remembered positions of batches that readers read next.

Owns the order and the remembered positions. Must not know the meaning of offsets.
Counterpart in Kafka: LogSegments; the remembered positions replace LogOffsetMetadata.
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
from ottla.wire.records.batch import HEADER_SIZE, BatchHeader

NEVER_CUT = 2**63 - 1

_REMEMBERED = 128
# A read up to this size is copied, because sending from the file takes more system calls.
_SMALL = 1 << 16
# How many bytes are searched for the last batches of a producer: tens of milliseconds for small batches.
_ON_THE_WAY = 1 << 20


logger = logging.getLogger("kafka.log.LogSegment")


class UncheckedSegmentError(KafkaError):
    """A read of an unchecked segment. The caller runs `check_job`, calls `checked`, and reads again."""

    def __init__(self, segment: Segment) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, f"{segment.file.path} is still to be checked")
        self.segment = segment


class Segments(Sequence[Segment]):
    """Oldest first. The last segment is `active`. Empty only within a method of the log."""

    __slots__ = (
        "_base_offsets", "_found_end_offset", "_older", "_recent", "_segments", "_set_aside", "active", "lowest_cut",
    )  # fmt: skip

    def __init__(self, segments: Sequence[Segment], found_end_offset: int = 0) -> None:
        """`found_end_offset`: the end of the last segment as found on the disk."""
        self._found_end_offset = found_end_offset
        self._segments = list(segments)
        self._base_offsets = [segment.base_offset for segment in segments]
        self._recent: dict[int, tuple[Segment, int]] = {}
        self._older: dict[int, tuple[Segment, int]] = {}
        self._set_aside: list[str] = []
        self.active = segments[-1]
        self.lowest_cut = NEVER_CUT
        """The lowest offset of all truncations since the cleaner last reset it to NEVER_CUT."""
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
        """The base offset of the oldest segment."""
        return self._base_offsets[0]

    def add(self, segment: Segment) -> None:
        """Add a new active segment."""
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)
        self.active = segment
        self.forget()

    def floor_slot(self, offset: int) -> int:
        """Return the slot of the segment for `offset`, -1 before the first segment."""
        return bisect_right(self._base_offsets, offset) - 1

    def reaching(self, offset: int) -> list[Segment]:
        """Return the segments that can hold offsets from `offset` on."""
        return self._segments[max(self.floor_slot(offset), 0) :]

    def delete_from(self, slot: int) -> None:
        """Remove the segments from `slot` on, newest first."""
        for segment in reversed(self._segments[slot:]):
            self._set_aside += segment.set_aside()
        del self._segments[slot:], self._base_offsets[slot:]
        if self._segments:
            self.active = self._segments[-1]
        self.forget()

    def delete_oldest(self) -> None:
        """Remove the oldest segment, which must not be the only one."""
        self._set_aside += self._segments[0].set_aside()
        del self._segments[0], self._base_offsets[0]
        self.forget()

    def take_set_aside(self) -> list[str]:
        """Return the renamed files of removed segments for `remove_files`; each is returned once."""
        paths, self._set_aside = self._set_aside, []
        return paths

    def has_inactive(self, run: Sequence[Segment]) -> bool:
        """Whether the segments in `run` follow each other in this log, and none of them is the active one."""
        slot = self.floor_slot(run[0].base_offset)
        return slot >= 0 and self._segments[slot : slot + len(run)] == run and slot + len(run) < len(self._segments)

    def replace(self, run: Sequence[Segment], segment: Segment) -> None:
        """Replace several segments, which follow each other, by one; the caller handles the files."""
        slot = self._segments.index(run[0])
        self._segments[slot : slot + len(run)] = [segment]
        self._base_offsets[slot : slot + len(run)] = [segment.base_offset]
        self.forget()

    # Positions

    def remember(self, offset: int, segment: Segment, position: int) -> None:
        """Remember the position of the batch that starts with `offset`, because the next read starts there."""
        recent = self._recent
        if len(recent) >= _REMEMBERED:
            self._older = recent
            recent = self._recent = {}
        recent[offset] = segment, position

    def forget(self) -> None:
        """Forget all remembered positions, because they changed."""
        self._recent = {}
        self._older = {}

    def locate(self, offset: int) -> tuple[Segment, int] | None:
        """Return segment and position of the batch with `offset`, or of the next batch; None at the log end."""
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
        """Return the position in `segment` at which a read up to `end_offset` (exclusive) ends."""
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
        """Return batches from `offset` up to `end_offset`, or up to the log end if that is None.

        Few bytes come as bytes if `may_copy`, else as a region of the file. If reading the region fails later, it calls
        `failed` with the error.
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
        """Return bytes from the page cache, and remember where the next read starts.

        None if the bytes are not in the page cache, or if the first batch does not fit.
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
        """Return the headers of the batches in the last _ON_THE_WAY bytes before `offset`, or a few more."""
        slot = first = self.floor_slot(offset)
        size = 0
        while first > 0 and size < _ON_THE_WAY:
            first -= 1
            size += self._segments[first].size
        for segment in self._segments[first : slot + 1]:
            yield from segment.headers_before(offset, _ON_THE_WAY)

    # Transactions

    def aborted_transactions(self, offset: int, size: int, end_offset: int) -> Sequence[AbortedTransaction]:
        """Return the aborted transactions that may have records in the `size` bytes read from `offset` on.

        Some may have none, as in Kafka, because indexes are sparse. `end_offset`: the exclusive end of the read.
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
        """Return the check to run before `segment` is served."""
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
        """Note the outcome of a check. A segment that was cut meanwhile stays unchecked."""
        if segment.is_checked or segment.found_bytes != job.size:
            return
        path = segment.file.path
        if outcome.sound_bytes < job.size:
            segment.damage = Damage(outcome.sound_bytes, outcome.end_offset, job.size, job.end_offset)
            logger.error(
                "%s is damaged: no batch begins at position %d of %d. Reads of offsets %d to %d fail",
                path,
                outcome.sound_bytes,
                job.size,
                outcome.end_offset,
                job.end_offset - 1,
            )
        if outcome.offset_entries is not None:
            logger.warning("Rebuilding %s, which contradicts its segment", segment.offset_index.path)
            segment.offset_index.replace_entries(job.offset_entries, outcome.offset_entries)
        if outcome.time_entries is not None:
            logger.warning("Rebuilding %s, which contradicts its segment", segment.time_index.path)
            segment.time_index.replace_entries(job.time_entries, outcome.time_entries)
        segment.is_checked = True

    # Timestamps

    def offset_for_timestamp(self, timestamp_ms: int, start_offset: int) -> TimestampAndOffset | None:
        """Return timestamp and offset of the first record from `start_offset` on with `timestamp_ms` or a later one."""
        for segment in self._segments:
            if segment.max_timestamp >= timestamp_ms:
                _require_sound(segment)
                found = segment.offset_for_timestamp(timestamp_ms, start_offset)
                if found is not None:
                    return found
        return None

    def offset_of_max_timestamp(self) -> TimestampAndOffset | None:
        """Return the first record with the largest timestamp, None without timestamps."""
        newest = max(self._segments, key=lambda segment: segment.max_timestamp)
        if newest.max_timestamp < 0:
            return None
        _require_sound(newest)
        return newest.find_max_timestamp()


def _require_check(segment: Segment) -> None:
    if not segment.is_checked:
        raise UncheckedSegmentError(segment)


def _require_sound(segment: Segment) -> None:
    """Raise CORRUPT_MESSAGE for a damaged segment, because a search may reach any batch."""
    _require_check(segment)
    if segment.damage is not None:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{segment.file.path} is damaged from {segment.damage.start} on")
