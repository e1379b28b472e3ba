"""Which leader epoch wrote from which offset on: the memory by which replicas find where they diverge.

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
    """The largest epoch not above the one asked for, and the offset (exclusive) at which it ends."""

    epoch: int
    end_offset: int


class LeaderEpochs:
    """Entries rise in both epoch and start offset. `latest` is the newest epoch, -1 where there is none.

    Changes are written at once but synced with the log's next flush: what the file misses after a power failure, the
    unflushed batches tell. An epoch that begins at the end of the log is not even written before the first batch comes:
    whoever loads the log, Kafka too, forgets it again.
    """

    __slots__ = ("_directory", "_entries", "_saved", "latest", "saved_epoch", "unsynced")

    def __init__(self, directory: Path, entries: Iterable[EpochEntry] | None = None) -> None:
        """`entries`: what the file says, where the caller knows that."""
        self._directory = directory
        self.unsynced = False
        self._entries: list[EpochEntry] = []
        self.latest = UNDEFINED_EPOCH
        for entry in read_epochs(self.path) if entries is None else entries:
            self._assign(entry)
        self._saved = self.entries
        self.saved_epoch: int | None = self.latest
        """`latest` while the file says all that is known here; None while it does not."""

    @property
    def path(self) -> Path:
        """The checkpoint file."""
        return self._directory / LEADER_EPOCH_FILE

    @property
    def entries(self) -> Sequence[EpochEntry]:
        """Oldest first."""
        return tuple(self._entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note the start of an epoch. Entries that contradict it go."""
        self.assign_unsaved(epoch, start_offset)
        self.save()

    def assign_unsaved(self, epoch: int, start_offset: int) -> None:
        """As `assign` for many at once, or for an epoch that has no batch yet: `save` follows."""
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"No leader epoch {epoch} at offset {start_offset}")
        if self._assign(EpochEntry(epoch, start_offset)):
            self._changed()

    def save(self) -> None:
        """Write the file if something changed since."""
        if self.saved_epoch is None:
            write_epochs(self.path, self._entries)
            self._saved = self.entries
            self.saved_epoch = self.latest
            self.unsynced = True

    def was_saved(self, entries: Iterable[EpochEntry]) -> None:
        """The file was made elsewhere, with these entries, unless it was there already."""
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
        """Know what another log of the same batches knows."""
        self._entries = list(other.entries)
        self._changed()
        self.save()

    def moved_to(self, directory: Path) -> None:
        """The file is elsewhere now."""
        self._directory = directory

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """Where `epoch` ends; undefined for an epoch above all known ones, or if none is known."""
        if epoch != UNDEFINED_EPOCH and epoch == self.latest:
            return EpochEndOffset(epoch, log_end_offset)
        above = bisect_right(self._entries, epoch, key=_epoch)
        if epoch == UNDEFINED_EPOCH or above == len(self._entries):
            return EpochEndOffset(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        floor = self._entries[above - 1].epoch if above else epoch
        return EpochEndOffset(floor, self._entries[above].start_offset)

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch that wrote an offset, -1 if that is not known."""
        above = bisect_right(self._entries, offset, key=_start_offset)
        return self._entries[above - 1].epoch if above else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget epochs that start at or behind `end_offset`."""
        self.truncate_from_end_unsaved(end_offset)
        self.save()

    def truncate_from_end_unsaved(self, end_offset: int) -> None:
        """As `truncate_from_end`, where `end_offset` is the end of the log: no need to write before the next batch."""
        entries = self._entries
        while entries and entries[-1].start_offset >= end_offset:
            entries.pop()
        self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget epochs that end at or before `start_offset`; the one it lies in starts there now."""
        entries = self._entries
        above = bisect_right(entries, start_offset, key=_start_offset)
        if not above or (entries[above - 1].start_offset == start_offset and above == 1):
            return
        entries[:above] = [EpochEntry(entries[above - 1].epoch, start_offset)]
        self._changed()
        self.save()

    def clear(self) -> None:
        """Forget all."""
        self._entries.clear()
        self._changed()
        self.save()

    def _changed(self) -> None:
        self.latest = self._entries[-1].epoch if self._entries else UNDEFINED_EPOCH
        self.saved_epoch = self.latest if self.entries == self._saved else None
