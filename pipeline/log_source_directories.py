"""Log directories: which partitions are wanted of them, from where to where these can be read, and in which slices.

Owns what the checkpoints of a log directory mean for a reader, and the plan of a read. Never writes, and takes no lock.
Must not know Spark, nor how records are read. Counterparts in Kafka: LogManager, ReplicaManager's high watermarks; in
Spark: KafkaOffsetReader.

What is at or above the high watermark may be lost yet, so nobody sees it. Brokers write theirs down every five seconds
and when they stop; where none is written down for a partition, it is read to its end if no broker has its directory and
the last one has left it cleanly.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from ottla.log.segments.transaction_index import aborted_within
from ottla.log.state.checkpoint import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    CorruptCheckpointError,
    read_offsets,
)
from ottla.log.state.meta_properties import is_locked
from ottla.pipeline.log_source_options import EARLIEST, FORMAT, LATEST, LogOptions, Offsets
from ottla.pipeline.log_source_segments import (
    OpenTransactions,
    Place,
    SegmentFile,
    open_transactions,
    segment_files,
    steady,
)
from ottla.wire.types import TopicPartition

# A segment may have a gibibyte, which is too much for one task where there are many to share it.
SLICE_BYTES: Final = 128 << 20
_LOOKS: Final = 20
TO_GO_ON: Final = "With failOnDataLoss=false what is there is read."


class UnreadableLogError(Exception):
    """What was asked for is not there, or cannot be read; in one line."""


class Range(NamedTuple):
    """Offsets from `start` on and before `end`."""

    start: int
    end: int
    is_known: bool = True
    """Whether `end` is where what is committed ends, and not only what is known of it before the first checkpoint."""
    log_end: int = 0
    """Where what there is ends, committed or not."""


class Slice(NamedTuple):
    """What one task reads: a part of a segment, or all of it."""

    topic_partition: TopicPartition
    segment: SegmentFile
    inode: int
    """Of the file that was looked at."""
    place: Place
    """The batch to begin with, if the file is still that one."""
    start: int
    end: int
    is_exact: bool
    """Whether `end` is where a batch or the next segment begins, so that no batch reaches beyond it."""
    aborted: tuple[tuple[int, int, int], ...]
    """Of transactions that were aborted: the producer, and the first and the last offset."""


class _Found(NamedTuple):
    """A partition, where its log is and how far it can be read."""

    directory: Path
    range: Range


class _LogDirectory:
    """What stands beside the logs of a directory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            # Before any look at the logs, which have all that was committed then.
            self.high_watermarks = read_offsets(path / HIGH_WATERMARK_FILE)
            self.start_offsets = read_offsets(path / LOG_START_OFFSET_FILE)
            is_a_brokers = (path / HIGH_WATERMARK_FILE).exists()
            self.is_complete = not is_locked(path) and ((path / CLEAN_SHUTDOWN_FILE).exists() or not is_a_brokers)
            self._paths = sorted(path.iterdir())
        except CorruptCheckpointError as error:
            raise UnreadableLogError(str(error)) from error
        except OSError as error:
            raise UnreadableLogError(f"{error.filename or path} cannot be read: {error.strerror}") from error

    def left_behind(self, topic_partition: TopicPartition) -> int:
        """The high watermark of a partition that has no log here any more; -1 where there is none."""
        high_watermark = self.high_watermarks.get(topic_partition, -1)
        return -1 if high_watermark < 0 or (self._path / str(topic_partition)).is_dir() else high_watermark

    def partitions(self) -> Iterator[tuple[TopicPartition, Path]]:
        """All that have a log here."""
        for path in self._paths:
            topic, dash, partition = path.name.rpartition("-")
            if topic and dash and partition.isdecimal() and path.is_dir():
                yield TopicPartition(topic, int(partition)), path


class Logs:
    """The partitions that are wanted. Remembers open transactions, so that a stream goes through each batch once."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._known: dict[TopicPartition, OpenTransactions] = {}
        self._directories: dict[TopicPartition, Path] = {}
        self._reached: dict[TopicPartition, _Found] = {}

    def ranges(self) -> dict[TopicPartition, Range]:
        """From where to where each partition can be read now; what is named and missing is lost."""
        directories = self._look()
        found = self._find(directories)
        # A partition that moves from one to another meanwhile may have been in neither when it was looked at.
        for _ in range(_LOOKS if len(directories) > 1 else 0):
            before, directories = self._places(directories), self._look()
            if self._places(directories) == before:
                break
            found = self._find(directories)
        missing = self._options.subscription.missing(found)
        if missing:
            everywhere = ", ".join(map(str, self._options.directories))
            self.lost(f"There is no log of {', '.join(missing)} in {everywhere}")
        self._directories = {topic_partition: each.directory for topic_partition, each in found.items()}
        return {
            topic_partition: self._since_it_moved(topic_partition, each)
            for topic_partition, each in sorted(found.items())
        }

    def _since_it_moved(self, topic_partition: TopicPartition, here: _Found) -> Range:
        """A copy that became the log may have all that was committed, and an older high watermark for some seconds."""
        there = self._reached.get(topic_partition, here)
        if there.directory != here.directory and here.range.end < there.range.end <= here.range.log_end:
            return here.range._replace(is_known=False)
        self._reached[topic_partition] = here
        return here.range

    def _look(self) -> list[_LogDirectory]:
        return [_LogDirectory(each) for each in self._options.directories]

    def _places(self, directories: Iterable[_LogDirectory]) -> list[Path]:
        return [path for each in directories for wanted, path in each.partitions() if self._wants(wanted)]

    def _wants(self, topic_partition: TopicPartition) -> bool:
        return self._options.subscription.wants(topic_partition)

    def _find(self, directories: Sequence[_LogDirectory]) -> dict[TopicPartition, _Found]:
        found: dict[TopicPartition, _Found] = {}
        for directory in directories:
            for topic_partition, path in directory.partitions():
                if self._wants(topic_partition):
                    # It may have been another's until just now, which knows what this one does not yet.
                    former = [each.left_behind(topic_partition) for each in directories]
                    try:
                        here = _Found(path, self._readable(directory, topic_partition, path, max(former)))
                    except FileNotFoundError:
                        continue  # deleted just now
                    there = found.get(topic_partition)
                    # Of several replicas, the one that knows most.
                    if there is None or there.range.end < here.range.end:
                        found[topic_partition] = here
        return found

    def _readable(self, directory: _LogDirectory, topic_partition: TopicPartition, path: Path, former: int) -> Range:
        def look(names: Sequence[str]) -> list[SegmentFile]:
            return segment_files(path, names)

        segments = steady(path, look)
        if not segments:
            return Range(0, 0, is_known=False)
        position, last = segments[-1].end()
        old = None if self._options.is_permissive else segments[-1].old_format(position)
        if old is not None:
            what = f"a batch of the message format {old}, which Kafka wrote before 0.11 and nobody reads here"
            raise UnreadableLogError(f"{segments[-1].path}: position {position}: {what}")
        start = max(segments[0].base_offset, directory.start_offsets.get(topic_partition, 0))
        high_watermark = directory.high_watermarks.get(topic_partition)
        if high_watermark is None and former >= 0:
            high_watermark = min(former, last)
        if high_watermark is None:
            return Range(start, last if directory.is_complete else start, directory.is_complete, last)
        if high_watermark > last and not self._options.is_permissive:
            raise UnreadableLogError(
                f"{segments[-1].path}: the last whole batch ends at position {position} with offset {last - 1}, "
                f"and the high watermark is {high_watermark}"
            )
        return Range(start, max(start, min(high_watermark, last)), log_end=last)

    def stable(self, topic_partition: TopicPartition, end: int) -> int:
        """Where what may be read ends by what is known at `end`: where the first transaction begins that is open."""
        if not self._options.read_committed:
            return end
        path = self._directories[topic_partition]
        look = partial(open_transactions, path, end=end, known=self._known.get(topic_partition))
        self._known[topic_partition] = found = steady(path, look)
        if found.damage and not self._options.is_permissive:
            raise UnreadableLogError(found.damage)
        return found.last_stable_offset

    def resolve(
        self, key: str, wanted: int | Offsets, ranges: Mapping[TopicPartition, Range]
    ) -> dict[TopicPartition, int]:
        """The offsets that an option stands for."""
        if isinstance(wanted, int):
            wanted = dict.fromkeys(ranges, wanted)
        elif wanted.keys() != ranges.keys():
            named, there = (", ".join(map(str, sorted(each))) for each in (wanted, ranges))
            raise UnreadableLogError(f"{FORMAT}: {key} names {named}, and the partitions are {there}")
        offsets = dict(wanted)
        for each, found in ranges.items():
            if wanted[each] == EARLIEST:
                offsets[each] = found.start
            elif wanted[each] == LATEST:
                offsets[each] = max(found.start, self.stable(each, found.end))
        return offsets

    def batch(self) -> list[Slice]:
        """The tasks of a read of what is there now."""
        ranges = self.ranges()
        starts = self.resolve("startingOffsets", self._options.starting, ranges)
        ends = self.resolve("endingOffsets", self._options.ending, ranges)
        slices: list[Slice] = []
        for each, found in ranges.items():
            start, end = starts[each], min(ends[each], self.stable(each, found.end))
            if not found.start <= start <= found.end:
                self.lost(f"{each} can be read from {found.start} to {found.end}, and not from {start} on")
            if ends[each] > found.end:
                self.lost(f"{each} can be read up to {found.end}, and not up to {ends[each]}")
            slices += self.slices(each, Range(max(start, found.start), end))
        return slices

    def lost(self, what: str) -> None:
        """Fail where records are not there, unless that is all right."""
        if self._options.fail_on_data_loss:
            raise UnreadableLogError(f"{what}. {TO_GO_ON}")

    def slices(self, topic_partition: TopicPartition, wanted: Range) -> list[Slice]:
        """The tasks that read these offsets."""
        try:
            path = self._directories[topic_partition]
            return steady(path, partial(self._slices, topic_partition, path, wanted))
        except (KeyError, FileNotFoundError):
            self.lost(f"The log of {topic_partition} is gone")
            return []

    def _slices(
        self, topic_partition: TopicPartition, directory: Path, wanted: Range, names: Sequence[str]
    ) -> list[Slice]:
        segments = segment_files(directory, names)
        indexes = [segment.aborted() for segment in segments] if self._options.read_committed else []
        found: list[Slice] = []
        for slot, segment in enumerate(segments):
            following = segments[slot + 1].base_offset if slot + 1 < len(segments) else wanted.end
            start, end = max(wanted.start, segment.base_offset), min(wanted.end, following)
            places = list(_split(segment, start, end)) if start < end else []
            ends = [*(place.offset for place in places[1:]), end]
            inode = segment.path.stat().st_ino if places else 0
            for place, end in zip(places, ends, strict=False):
                start = max(start, place.offset)
                is_exact = place is not places[-1] or (end == following and slot + 1 < len(segments))
                aborted = tuple(each[:3] for each in aborted_within(indexes[slot:], start, end))
                found.append(Slice(topic_partition, segment, inode, place, start, end, is_exact, aborted))
        return found


def _split(segment: SegmentFile, start: int, end: int) -> Iterator[Place]:
    """Where the tasks that share a segment begin, the first one with the batch of `start` or before."""
    index = segment.offset_index()
    place = segment.checked(index.position_for(start), start) or Place(0, segment.base_offset)
    yield place
    size = segment.path.stat().st_size - place.position
    share = size // max(1, round(size / SLICE_BYTES)) + 1
    position = index.position_behind(place.position + share)
    while position is not None:
        following = segment.checked(position, end - 1)
        if following is not None:
            yield following
        position = index.position_behind(position + share)
