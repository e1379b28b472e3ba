"""Any history of keyed records, cleaned at any time: readers find the newest value of each key at its offset."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from ottla.log.compaction.compaction import CleanerLimits
from ottla.log.segments.segments import NEVER_CUT
from ottla.wire.records.batch import Compression, ProducedBatch, Record
from tests.log.building import NOW_MS, append, open_log, records_from
from tests.log.compaction.compacting import clean_log, dirt_of, keyed

pytestmark = pytest.mark.once

CONFIG: dict[str, Any] = {
    "segment_bytes": 700,
    "index_interval_bytes": 200,
    "segment_index_bytes": 240,
    "delete_retention_ms": 1000,
}
KEYS = st.sampled_from([None, b"", b"a", b"b", b"c", b"a long key of its own " * 3, b"a long key of another " * 3])
VALUES = st.one_of(st.none(), st.binary(max_size=60))


class CompactedLog(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.log = open_log(self.directory, **CONFIG)
        self.written: dict[int, Record] = {}
        self.clean_to = 0
        self.now_ms = NOW_MS
        self.sent: list[tuple[int, ProducedBatch]] = []
        self.last: dict[int, tuple[ProducedBatch, int]] = {}
        """By producer its last batch and the offset of it."""

    def teardown(self) -> None:
        self.log.release()
        shutil.rmtree(self.directory)

    @rule(
        pairs=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=5),
        compression=st.sampled_from([Compression.NONE, Compression.NONE, Compression.LZ4]),
        producer_id=st.integers(-1, 2),
        waited_ms=st.integers(0, 600),
    )
    def append(
        self, pairs: list[tuple[bytes | None, bytes | None]], compression: Compression, producer_id: int, waited_ms: int
    ) -> None:
        self.now_ms += waited_ms
        sequence = 0
        if producer_id in self.last:
            sequence = self.last[producer_id][0].header.last_sequence + 1
        batch = keyed(
            *pairs, compression=compression, producer_id=producer_id, sequence=sequence, timestamp=self.now_ms
        )
        info = append(self.log, batch)
        self.sent.append((info.first_offset, batch))
        if producer_id >= 0:
            self.last[producer_id] = batch, info.first_offset
        for number, (key, value) in enumerate(pairs):
            offset = info.first_offset + number
            self.written[offset] = Record(offset, self.now_ms + number, key, value)

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now_ms)

    @rule(max_keys=st.sampled_from([1, 2, 100]), waited_ms=st.sampled_from([0, 500, 2000]))
    def clean(self, max_keys: int, waited_ms: int) -> None:
        self.now_ms += waited_ms
        first = min(self.clean_to, self.log.segments.lowest_cut)
        self.log.segments.lowest_cut = NEVER_CUT
        if not dirt_of(self.log, first).cleanable_bytes:
            return
        stats = clean_log(self.log, first, limits=CleanerLimits(max_keys, 1), now_ms=self.now_ms)
        assert stats.end_offset > first
        self.clean_to = stats.end_offset

    @rule(is_clean=st.booleans(), loses_snapshots=st.booleans())
    def open_again(self, is_clean: bool, loses_snapshots: bool) -> None:
        if is_clean:
            self.log.close()
        else:
            self.log.release()
            if loses_snapshots:
                for path in self.directory.glob("*.snapshot"):
                    path.unlink()
        self.log = open_log(self.directory, clean=is_clean, **CONFIG)

    @rule(choice=st.integers(0, 100))
    def truncate(self, choice: int) -> None:
        """Truncate only records that were not cleaned, because only committed records are cleaned."""
        offsets = [base_offset for base_offset, _ in self.sent if base_offset >= self.clean_to]
        if not offsets:
            return
        end = offsets[choice % len(offsets)]
        self.log.truncate_to(end)
        self.written = {offset: record for offset, record in self.written.items() if offset < end}
        self.sent = [each for each in self.sent if each[0] < end]
        gone = [pid for pid, (_, offset) in self.last.items() if offset >= end]
        for pid in gone:
            del self.last[pid]
            # The batch before may have been cleaned away while it was not the last one.
            last_offset = (
                self.log.producers.entries[pid].batches[-1].last_offset if pid in self.log.producers.entries else -1
            )
            for base_offset, batch in self.sent:
                if batch.header.producer_id == pid and base_offset + batch.header.last_offset_delta == last_offset:
                    self.last[pid] = batch, base_offset
            if pid not in self.last:
                if pid in self.log.producers.entries:
                    self.log.producers.entries[pid].last_timestamp = 0
                    self.log.producers.remove_expired(self.now_ms)
                self.sent = [each for each in self.sent if each[1].header.producer_id != pid]

    @rule(producer_id=st.integers(0, 2))
    def send_again(self, producer_id: int) -> None:
        if producer_id in self.last:
            batch, offset = self.last[producer_id]
            info = append(self.log, batch)
            assert (info.is_duplicate, info.first_offset) == (True, offset)

    @invariant()
    def the_newest_value_of_each_key_is_there(self) -> None:
        found = {record.offset: record for record in records_from(self.log)}
        assert all(record == self.written[offset] for offset, record in found.items())
        newest = {record.key: record for record in self.written.values() if record.key is not None}
        for record in newest.values():
            assert record.offset in found or record.value is None
        seen = {record.key: record.value for record in found.values() if record.key is not None}
        assert {key: value for key, value in seen.items() if value is not None} == {
            key: record.value for key, record in newest.items() if record.value is not None
        }

    @invariant()
    def producers_go_on_where_they_were(self) -> None:
        known = {pid: entry.last_sequence for pid, entry in self.log.producers.entries.items()}
        assert known == {pid: batch.header.last_sequence for pid, (batch, _) in self.last.items()}


@pytest.mark.trials(few=30, soak=150)
def test_compaction_keeps_the_newest_values_and_all_producers(trials: int) -> None:
    run_state_machine_as_test(
        CompactedLog, settings=settings(max_examples=trials, stateful_step_count=30, deadline=None)
    )
