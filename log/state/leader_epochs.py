"""The start offset of each leader epoch, by which replicas find the offset where they diverge.

Owns the epochs of one partition and their checkpoint file. Must not know segments.
Counterpart in Kafka: LeaderEpochFileCache.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from ottla.log.state.checkpoint import LEADER_EPOCH_FILE, EpochEntry, read_epochs, write_epochs

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1

_epoch = attrgetter("epoch")
_start_offset = attrgetter("start_offset")


class EpochEndOffset(NamedTuple):
    """The largest epoch not above the requested epoch, and its exclusive end offset."""

    epoch: int
    end_offset: int


class LeaderEpochs:
    """Entries rise in both epoch and start offset. `latest` is the newest epoch, -1 where there is none.

    Changes are written at once and synced with the log's next flush. After a power failure recovery takes the missing
    entries from the unflushed batches. An epoch at the end of the log is not written before its first batch, because
    a start, of Kafka too, would drop the entry.
    """

    __slots__ = ("_directory", "_entries", "_saved", "latest", "saved_epoch", "unsynced")

    def __init__(self, directory: Path, entries: Iterable[EpochEntry] | None = None) -> None:
        """`entries`: the entries of the file, if the caller knows them."""
        self._directory = directory
        self.unsynced = False
        self._entries: list[EpochEntry] = []
        self.latest = UNDEFINED_EPOCH
        for entry in read_epochs(self.path) if entries is None else entries:
            self._assign(entry)
        self._saved = self.entries
        self.saved_epoch: int | None = self.latest
        """`latest` while the file holds all entries, None while it does not."""

    @property
    def path(self) -> Path:
        """The checkpoint file."""
        return self._directory / LEADER_EPOCH_FILE

    @property
    def entries(self) -> Sequence[EpochEntry]:
        """The entries, oldest first."""
        return tuple(self._entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Add the start of an epoch, drop entries that contradict it, and write the file."""
        self.assign_unsaved(epoch, start_offset)
        self.save()

    def assign_unsaved(self, epoch: int, start_offset: int) -> None:
        """Do as `assign` without writing the file; `save` must follow."""
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"No leader epoch {epoch} at offset {start_offset}")
        if self._assign(EpochEntry(epoch, start_offset)):
            self._changed()

    def save(self) -> None:
        """Write the file, if an entry changed."""
        if self.saved_epoch is None:
            write_epochs(self.path, self._entries)
            self._saved = self.entries
            self.saved_epoch = self.latest
            self.unsynced = True

    def was_saved(self, entries: Iterable[EpochEntry]) -> None:
        """Note that `NewLog.make` wrote the file with `entries`, unless this object wrote it before."""
        if not self._saved:
            self._saved = tuple(entries)
            self.unsynced = True
            self._changed()

    def _assign(self, entry: EpochEntry) -> bool:
        entries = self._entries
        if entries and entry.epoch == entries[-1].epoch and entry.start_offset >= entries[-1].start_offset:
            return False
        while entries and (entries[-1].epoch >= entry.epoch or entries[-1].start_offset >= entry.start_offset):
            entries.pop()
        entries.append(entry)
        self.latest = entry.epoch
        return True

    def take_over(self, other: "LeaderEpochs") -> None:
        """Copy the entries of another log with the same batches."""
        self._entries = list(other.entries)
        self._changed()
        self.save()

    def moved_to(self, directory: Path) -> None:
        """Note that the file is in `directory` now."""
        self._directory = directory

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """Return the end of `epoch`; undefined for an epoch above `latest`, or without entries."""
        if epoch != UNDEFINED_EPOCH and epoch == self.latest:
            return EpochEndOffset(epoch, log_end_offset)
        above = bisect_right(self._entries, epoch, key=_epoch)
        if epoch == UNDEFINED_EPOCH or above == len(self._entries):
            return EpochEndOffset(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        floor = self._entries[above - 1].epoch if above else epoch
        return EpochEndOffset(floor, self._entries[above].start_offset)

    def epoch_for_offset(self, offset: int) -> int:
        """Return the epoch that wrote `offset`, -1 if unknown."""
        above = bisect_right(self._entries, offset, key=_start_offset)
        return self._entries[above - 1].epoch if above else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop epochs that start at or behind `end_offset`, and write the file."""
        self.truncate_from_end_unsaved(end_offset)
        self.save()

    def truncate_from_end_unsaved(self, end_offset: int) -> None:
        """Do as `truncate_from_end` without writing the file: the next batch does, if `end_offset` is the log end."""
        entries = self._entries
        while entries and entries[-1].start_offset >= end_offset:
            entries.pop()
        self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop epochs that end at or before `start_offset`; the epoch of `start_offset` starts there."""
        entries = self._entries
        above = bisect_right(entries, start_offset, key=_start_offset)
        if not above or (entries[above - 1].start_offset == start_offset and above == 1):
            return
        entries[:above] = [EpochEntry(entries[above - 1].epoch, start_offset)]
        self._changed()
        self.save()

    def clear(self) -> None:
        """Drop all epochs, and write the file."""
        self._entries.clear()
        self._changed()
        self.save()

    def _changed(self) -> None:
        self.latest = self._entries[-1].epoch if self._entries else UNDEFINED_EPOCH
        self.saved_epoch = self.latest if self.entries == self._saved else None
