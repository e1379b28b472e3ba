"""The log against a plain list, with appends, truncations, rolls, clean shutdowns, kills and torn writes."""

import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from ottla.log.log import PartitionLog
from ottla.wire.records.batch import iter_batches, iter_records
from tests.log.building import append, content, open_log, produced

pytestmark = pytest.mark.once

CONFIG: dict[str, Any] = {"segment_bytes": 1500, "index_interval_bytes": 200, "segment_index_bytes": 240}


class Batch(NamedTuple):
    base_offset: int
    values: list[bytes]
    size: int
    producer_id: int
    last_sequence: int
    timestamp: int

    @property
    def next_offset(self) -> int:
        return self.base_offset + len(self.values)


class LogAgainstList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.log: PartitionLog = open_log(self.directory, **CONFIG)
        self.batches: list[Batch] = []
        self.epochs: list[tuple[int, int]] = []
        self.end = 0
        self.written = 0

    def teardown(self) -> None:
        self.log.release()
        shutil.rmtree(self.directory)

    def _last_sequences(self) -> dict[int, int]:
        return {batch.producer_id: batch.last_sequence for batch in self.batches if batch.producer_id >= 0}

    @rule(
        count=st.integers(1, 5),
        size=st.integers(0, 150),
        producer_id=st.integers(-1, 2),
        new_epoch=st.booleans(),
        timestamp=st.integers(0, 10**6),
    )
    def append(self, count: int, size: int, producer_id: int, new_epoch: bool, timestamp: int) -> None:
        values = [b"%d" % self.written + bytes(size)] * count
        self.written += 1
        sequence = self._last_sequences().get(producer_id, 99) + 1
        batch = produced(
            count, value=values[0], producer_id=producer_id, sequence=sequence, timestamp=2 * 10**12 + timestamp
        )
        epoch = (self.epochs[-1][0] if self.epochs else 0) + new_epoch
        if not self.epochs or self.epochs[-1][0] != epoch:
            self.epochs = [entry for entry in self.epochs if entry[1] < self.end] + [(epoch, self.end)]
        info = append(self.log, batch, epoch=epoch)
        assert (info.first_offset, info.last_offset) == (self.end, self.end + count - 1)
        last_sequence = sequence + count - 1 if producer_id >= 0 else -1
        size = len(batch.data)
        self.batches.append(Batch(self.end, values, size, producer_id, last_sequence, batch.max_timestamp))
        self.end += count

    @precondition(lambda self: self.batches and self.batches[-1].producer_id >= 0)
    @rule()
    def send_the_last_batch_again(self) -> None:
        last = self.batches[-1]
        sequence = last.last_sequence - len(last.values) + 1
        again = produced(len(last.values), producer_id=last.producer_id, sequence=sequence)
        info = append(self.log, again)
        assert (info.is_duplicate, info.first_offset) == (True, last.base_offset)

    @rule(offset=st.integers(0, 200), max_bytes=st.integers(0, 2000), behind=st.integers(0, 30), whole=st.booleans())
    def read(self, offset: int, max_bytes: int, behind: int, whole: bool) -> None:
        offset %= self.end + 1
        limit = max(self.end - behind, 0)
        found = content(self.log.read(offset, max_bytes, limit, whole))
        visible = [batch for batch in self.batches if batch.next_offset > offset and batch.next_offset <= limit]
        if offset >= limit or not visible:
            assert found == b""
            return
        if len(found) < visible[0].size:
            assert not whole
            assert found == b""
            assert max_bytes < visible[0].size
            return
        assert len(found) <= max(max_bytes, visible[0].size)
        read = list(iter_batches(memoryview(found)))
        for (header, data), batch in zip(read, visible, strict=False):
            assert header.base_offset == batch.base_offset
            assert [record.value for record in iter_records(data)] == batch.values
        ends = sum(header.size for header, _ in read) == len(found)
        boundary = {segment.base_offset for segment in self.log.segments} | {self.end, limit}
        if ends and len(found) < max_bytes and len(read) < len(visible):
            assert visible[len(read)].base_offset in boundary

    def _cut(self, offset: int) -> None:
        self.end = offset
        self.batches = [batch for batch in self.batches if batch.next_offset <= offset]
        self.epochs = [entry for entry in self.epochs if entry[1] < offset]

    @rule(offset=st.integers(0, 200))
    def truncate(self, offset: int) -> None:
        offset %= self.end + 1
        self.log.truncate_to(offset)
        self._cut(offset)

    @rule()
    def roll(self) -> None:
        self.log.roll(0)

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.recovery_point == self.end

    @rule(forget_indexes=st.booleans())
    def stop_and_start(self, forget_indexes: bool) -> None:
        self.log.close()
        self._forget(forget_indexes)
        self._reopen(clean=True)

    @rule(forget_indexes=st.booleans())
    def kill_and_start(self, forget_indexes: bool) -> None:
        self.log.release()
        self._forget(forget_indexes)
        self._reopen(clean=False)

    def _forget(self, indexes: bool) -> None:
        for path in [*self.directory.glob("*.index"), *self.directory.glob("*.timeindex")] if indexes else ():
            path.unlink()

    @precondition(lambda self: self.batches and self.log.recovery_point < self.batches[-1].next_offset)
    @rule(cut=st.integers(1, 400), noise=st.binary(max_size=200))
    def tear_and_start(self, cut: int, noise: bytes) -> None:
        """Cut the last write, and maybe replace it by noise."""
        last = self.log.segments[-1]
        if not last.size or self._lost_from() is not None:
            return
        cut = min(cut, self.batches[-1].size)
        self.log.release()
        with open(last.file.path, "r+b") as file:
            file.truncate(last.size - cut)
            file.seek(0, 2)
            file.write(noise[:cut].translate(bytes(255 - byte for byte in range(256))))
            same = len(noise) >= cut
        self._reopen(clean=False, compare=False)
        if not same or self.log.log_end_offset != self.end:
            del self.batches[-1]
            self._cut(self._end_on_disk())

    def _lost_from(self) -> int | None:
        """Return the offset of the first empty segment: a truncation left it, but recovery takes it for a loss."""
        unflushed = self.log.segments.reaching(self.log.recovery_point)
        return next((segment.base_offset for segment in unflushed[:-1] if not segment.size), None)

    def _reopen(self, *, clean: bool, compare: bool = True) -> None:
        lost_from = None if clean else self._lost_from()
        self.log = open_log(self.directory, clean=clean, recovery_point=self.log.recovery_point, **CONFIG)
        if lost_from is not None:
            self._cut(lost_from)
        if compare:
            self._cut(self._end_on_disk())

    def _end_on_disk(self) -> int:
        """Return the log end after a restart. A truncation within a batch is kept only by a new segment."""
        last = self.batches[-1].next_offset if self.batches else 0
        return max(last, self.log.segments[-1].base_offset)

    @invariant()
    def offsets_and_records_agree(self) -> None:
        assert self.log.log_end_offset == self.end
        assert self.log.size == sum(batch.size for batch in self.batches)
        assert [tuple(entry) for entry in self.log.leader_epochs.entries] == self.epochs
        for offset in {batch.base_offset for batch in self.batches[-3:]} | {0}:
            found = content(self.log.read(offset, 10, self.end, True)) if offset < self.end else b""
            following = next((batch for batch in self.batches if batch.next_offset > offset), None)
            assert len(found) == (following.size if following else 0)

    @invariant()
    def producers_agree(self) -> None:
        found = {pid: entry.last_sequence for pid, entry in self.log.producers.entries.items()}
        assert found == self._last_sequences()
        assert self.log.producers.end_offset == self.end

    @invariant()
    def timestamps_agree(self) -> None:
        largest = max((batch.timestamp for batch in self.batches), default=None)
        found = self.log.offset_of_max_timestamp()
        assert (found.timestamp if found else None) == largest
        for wanted in {largest, self.batches[0].timestamp} if self.batches and largest is not None else ():
            first = next(batch for batch in self.batches if batch.timestamp >= wanted)
            by_time = self.log.offset_for_timestamp(wanted)
            assert by_time is not None
            assert (by_time.timestamp, by_time.offset) == (first.timestamp, first.base_offset)


@pytest.mark.trials(few=30, soak=150)
def test_the_log_behaves_like_a_list(trials: int) -> None:
    run_state_machine_as_test(
        LogAgainstList, settings=settings(max_examples=trials, stateful_step_count=40, deadline=None)
    )
