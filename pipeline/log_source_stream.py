"""A stream of what comes to logs: from where to where each of its batches goes.

Owns what is new since the last batch, how much of it is taken, and what is said of records that are gone. Must not know
Spark, nor files. Counterpart in Spark: KafkaMicroBatchStream.
"""

from ottla.pipeline.log_source_directories import Logs, Range, Slice
from ottla.pipeline.log_source_options import LogOptions, Offsets
from ottla.wire.types import TopicPartition


class LogStream:
    """Offsets are those of the next record of each partition."""

    def __init__(self, options: LogOptions) -> None:
        self._starting = options.starting
        self._logs = Logs(options)
        self._first: Offsets = {}
        self._reached: Offsets = {}
        self._target: Offsets | None = None

    def initial(self) -> Offsets:
        """Where a new stream begins."""
        return self._logs.resolve("startingOffsets", self._starting, self._logs.ranges())

    def stop_at_what_is_there(self) -> None:
        """Take nothing that is not there by now."""
        self._target = self._now({})

    def latest(self, start: Offsets, most: int | None) -> Offsets:
        """Where the next batch ends that begins at `start` and has `most` offsets at most.

        Who does not say where it begins goes on where the last one ended.
        """
        start = start or self._reached
        ends = self._now(start)
        if self._target is not None:
            wanted = {**self._target, **start}
            target = self._target
            ends = {
                each: max(min(end, target.get(each, 0)), start.get(each, 0))
                for each, end in ends.items()
                if each in wanted
            }
        return ends if most is None else self._limited(start, ends, most)

    def _now(self, start: Offsets) -> dict[TopicPartition, int]:
        """Where everything ends that can be read."""
        ranges = self._logs.ranges()
        for each in sorted(start.keys() - ranges.keys()):
            self._logs.lost(f"The log of {each} is gone")
        ends = {}
        self._first = {each: found.start for each, found in ranges.items()}
        for each, found in ranges.items():
            if found.is_known:
                ends[each] = max(found.start, self._logs.stable(each, found.end))
                if ends[each] < start.get(each, 0):
                    self._logs.lost(f"{each} ends at {ends[each]}, and was read up to {start[each]}")
            elif each in start:
                ends[each] = start[each]
        return ends

    def _limited(self, start: Offsets, ends: Offsets, most: int) -> Offsets:
        """Each partition gets its share of what may be read, by how much it has."""
        began = {each: start.get(each, self._first[each]) for each in ends}
        sizes = {each: max(0, end - began[each]) for each, end in ends.items()}
        total = sum(sizes.values())
        if total <= most:
            return ends
        return {
            each: min(end, began[each] + max(1, most * sizes[each] // total)) if sizes[each] else end
            for each, end in ends.items()
        }

    def slices(self, start: Offsets, end: Offsets) -> list[Slice]:
        """What the tasks of a batch read. Partitions that are new are read from their first record on."""
        ranges = self._logs.ranges()
        self._reached = end
        for each in sorted(start.keys() - end.keys()):
            self._logs.lost(f"The log of {each} is gone")
        found: list[Slice] = []
        for each, stop in sorted(end.items()):
            there = ranges.get(each)
            first = stop if there is None else there.start
            begin = start.get(each, first)
            if begin < min(first, stop):
                self._logs.lost(f"{each} begins at {first}, and was read up to {begin}")
            found += self._logs.slices(each, Range(max(begin, first), stop)) if begin < stop else []
        return found
