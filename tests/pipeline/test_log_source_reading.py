"""Records come out of the files of a log as they went in, whatever a broker or a disk does to these meanwhile."""

import os
import random
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ottla.log.log import PartitionLog
from ottla.log.removal import delete_old_segments
from ottla.pipeline import log_source_directories, log_source_reading
from ottla.pipeline.log_source_directories import UnreadableLogError
from ottla.pipeline.log_source_reading import DamagedLogError, SliceReader
from ottla.wire.records.batch import (
    HEADER_SIZE,
    Compression,
    ControlType,
    CorruptBatch,
    NewRecord,
    Record,
    TimestampType,
    build_batch,
    check_records,
    iter_records,
)
from ottla.wire.records.batch_header import CRC_POSITION, checksum
from tests.log.building import NOW_MS, TOPIC_PARTITION, open_log, records_from
from tests.log.compaction.compacting import clean_log, clean_steps, keyed
from tests.log.segments.test_transaction_index import batches
from tests.pipeline.log_tables import (
    checkpoint,
    options,
    plan,
    read,
    read_slices,
    rows,
    values,
    write,
)


def log_in(directory: Path, **config: Any) -> PartitionLog:
    return open_log(directory / str(TOPIC_PARTITION), **config)


def file_of(directory: Path, base_offset: int = 0) -> Path:
    return directory / str(TOPIC_PARTITION) / f"{base_offset:020d}.log"


def append_records(log: PartitionLog, records: list[NewRecord], **how: Any) -> None:
    log.append_as_follower(memoryview(build_batch(records, base_offset=log.log_end_offset, **how)), NOW_MS)


def some_records(choose: random.Random) -> list[NewRecord]:
    def some() -> bytes | None:
        return choose.choice([None, b"", b"x", choose.randbytes(choose.choice([10, 70, 300]))])

    def headers() -> tuple[tuple[str, bytes | None], ...]:
        return tuple((choose.choice(["", "trace", "ü"]), some()) for _ in range(choose.choice([0, 0, 0, 1, 3])))

    count = choose.choice([1, 2, 30])
    return [NewRecord(some(), some(), NOW_MS + choose.randint(-5, 10**7), headers()) for _ in range(count)]


@pytest.mark.trials(few=10, soak=50)
def test_any_records_are_read_as_they_are_in_any_slices_and_portions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, trials: int
) -> None:
    choose = random.Random(seed)
    for trial in range(trials):
        directory = tmp_path / str(trial)
        directory.mkdir()
        log = log_in(directory, segment_bytes=choose.choice([100_000, 10**9]), index_interval_bytes=500)
        for _ in range(30):
            codec = choose.choice(list(Compression))
            times = choose.choice(list(TimestampType))
            append_records(log, some_records(choose), compression=codec, timestamp_type=times)
        end = log.log_end_offset
        checkpoint(directory, end)
        written = records_from(log, end=end)
        log.flush()
        monkeypatch.setattr(log_source_directories, "SLICE_BYTES", choose.choice([3000, 10**9]))
        monkeypatch.setattr(log_source_reading, "CHUNK", choose.choice([61, 10_000, 10**9]))
        monkeypatch.setattr(log_source_reading, "COLUMN_BYTES", choose.choice([1, 10**9]))
        monkeypatch.setattr(log_source_reading, "COLUMN_ROWS", choose.choice([1, 7, 10**9]))
        first, last = sorted(choose.sample(range(end + 1), 2))
        between = {
            f"{key}Offsets": f'{{"orders": {{"3": {at}}}}}' for key, at in (("starting", first), ("ending", last))
        }
        assert read(directory) == written
        assert read(directory, **between) == written[first:last]
        log.release()


def test_a_record_that_comes_in_many_pieces_is_read(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    record = NewRecord(b"key", random.Random(1).randbytes(5_000_000), NOW_MS)
    for codec in Compression:
        append_records(log, [record, NewRecord(None, b"next", NOW_MS)], compression=codec)
    found = read(tmp_path)
    assert [each.value for each in found] == [record.value, b"next"] * len(Compression)
    log.release()


@pytest.mark.trials(few=10, soak=50)
def test_records_of_aborted_transactions_and_markers_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, trials: int
) -> None:
    choose = random.Random(seed)
    for trial in range(trials):
        directory = tmp_path / str(trial)
        directory.mkdir()
        log = log_in(directory, segment_bytes=1500, index_interval_bytes=200)
        pending: dict[int, dict[int, bytes]] = {}
        decided: dict[int, bytes] = {}
        everything: dict[int, bytes] = {}
        stable = []
        for producer, batch, offset, kind in batches(choose, 120):
            log.append_as_follower(memoryview(batch), NOW_MS)
            if kind is None:
                new = {at: b"%d" % at for at in range(offset, log.log_end_offset)}
                everything |= new
                pending.setdefault(producer, {}).update(new)
            else:
                ended = pending.pop(producer)
                decided |= ended if kind is ControlType.COMMIT else {}
            undecided = min((min(each) for each in pending.values()), default=log.log_end_offset)
            stable.append((log.log_end_offset, undecided))
        monkeypatch.setattr(log_source_directories, "SLICE_BYTES", choose.choice([500, 10**9]))
        for high_watermark, end in choose.sample(stable, 5):
            checkpoint(directory, high_watermark)
            # What was decided later is not known below that high watermark, and nothing of it is read.
            expected = {at: value for at, value in decided.items() if at < end}
            assert {each.offset: each.value for each in read(directory)} == expected
            uncommitted = {at: value for at, value in everything.items() if at < high_watermark}
            found = read(directory, isolation="read_uncommitted")
            assert {each.offset: each.value for each in found} == uncommitted
        log.release()


def test_a_log_is_read_at_every_step_of_a_compaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.pipeline.log_source_segments._BETWEEN_LOOKS_S", 0)
    log = log_in(tmp_path, segment_bytes=500, segment_index_bytes=240)
    for number in range(12):
        log.append_as_leader(keyed((b"%d" % (number % 3), b"%d" % number)), 0, NOW_MS)
        if number % 2:
            log.roll(NOW_MS)
    checkpoint(tmp_path, log.log_end_offset)
    before = read(tmp_path)
    newest = {record.key: record for record in before}
    early = plan(tmp_path)
    seen: list[list[Record]] = []

    def look() -> None:
        for slices in (plan(tmp_path), early):
            seen.append(read_slices(slices, options(tmp_path)))

    def rename_and_look(old: str, new: str, rename: Any = os.rename) -> None:
        look()
        rename(old, new)

    monkeypatch.setattr("os.rename", rename_and_look)
    for removed in clean_steps(log):
        look()
        for path in removed if isinstance(removed, list) else []:
            Path(path).unlink()
            look()
    assert len(seen) > 40
    for found in seen:
        assert all(record == before[record.offset] for record in found)
        assert [record.offset for record in found] == sorted({record.offset for record in found})
        assert {record.key: record for record in found} == newest
    assert {len(found) for found in seen} >= {len(before), len(newest)}
    log.release()


def test_what_was_compacted_is_read_with_its_gaps(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    for number in range(30):
        log.append_as_leader(keyed((b"%d" % (number % 4), b"%d" % number), (b"a", None)), 0, NOW_MS)
        if number % 10 == 9:
            log.roll(NOW_MS)
    clean_log(log)
    checkpoint(tmp_path, log.log_end_offset)
    found = read(tmp_path)
    assert found == records_from(log)
    assert len(found) < log.log_end_offset / 2
    log.release()


def test_a_segment_that_was_compacted_since_it_was_planned_for_is_read(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    for key, is_last in ((b"a", False), (b"b", True), (b"b", False), (b"b", True), (b"c", False)):
        log.append_as_leader(keyed((key, b"value")), 0, NOW_MS)
        if is_last:
            log.roll(NOW_MS)
    checkpoint(tmp_path, log.log_end_offset)
    early = plan(tmp_path)
    clean_log(log)
    # The first segment begins as before, and has no batch where it ended.
    assert [each.offset for each in read_slices(early, options(tmp_path))] == [0, 3, 4]
    log.release()


def in_segments(directory: Path) -> PartitionLog:
    """Values 0 to 8, three to a segment."""
    log = log_in(directory, retention_bytes=1, index_interval_bytes=1)
    for number in range(9):
        write(log, b"%d" % number)
        if number % 3 == 2:
            log.roll(NOW_MS)
    checkpoint(directory, 9)
    return log


def delete_old(log: PartitionLog) -> None:
    for path in delete_old_segments(log, 9, NOW_MS):
        Path(path).unlink()


def test_segments_that_are_deleted_before_they_are_read_are_told_of(tmp_path: Path) -> None:
    log = in_segments(tmp_path)
    slices = plan(tmp_path)
    assert [(each.start, each.end) for each in slices] == [(0, 3), (3, 6), (6, 9)]
    delete_old(log)
    write(log, b"9")
    lines = []
    for each in slices[:2]:
        with pytest.raises(UnreadableLogError, match=r"records \d to \d were deleted before they were read") as raised:
            read_slices([each], options(tmp_path))
        lines.append(str(raised.value).partition(" were")[0])
    assert lines == [f"orders-3: records {start} to {start + 2}" for start in (0, 3)]
    there = read_slices(slices, options(tmp_path, failOnDataLoss="false"))
    assert values(there) == [b"6", b"7", b"8"]
    shutil.rmtree(log.directory)
    with pytest.raises(UnreadableLogError, match="records 0 to 2 were deleted"):
        read_slices(slices, options(tmp_path))
    log.release()


def test_a_segment_that_is_deleted_while_it_is_read_is_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_source_reading, "COLUMN_ROWS", 1)
    monkeypatch.setattr(log_source_reading, "CHUNK", 61)
    log = in_segments(tmp_path)
    found: list[Record] = []
    for columns in SliceReader(plan(tmp_path)[0], is_permissive=False, fail_on_data_loss=True).read():
        delete_old(log)
        found += rows(columns)
    assert not file_of(tmp_path).exists()
    assert values(found) == [b"0", b"1", b"2"]
    log.release()


def flips(size: int) -> Iterable[tuple[int, int]]:
    """Some bit of each byte."""
    return ((byte, 1 << (byte * 5 % 8)) for byte in range(size))


def test_no_damage_to_a_batch_goes_unnoticed(tmp_path: Path) -> None:
    log = in_segments(tmp_path)
    log.flush()
    path = file_of(tmp_path)
    sound = path.read_bytes()
    size = len(sound) // 3
    unprotected = range(12, 16)  # the leader epoch, of which nothing is read
    written = read(tmp_path)
    for byte, bit in flips(size):
        data = bytearray(sound)
        data[size + byte] ^= bit
        path.write_bytes(data)
        if byte in unprotected:
            assert read(tmp_path) == written
        else:
            with pytest.raises(DamagedLogError, match=f"^{re.escape(str(path))}: position ({size}|{2 * size}): "):
                read(tmp_path)
            found = read(tmp_path, mode="PERMISSIVE")
            # Offsets are under no checksum, so a record may come with another one.
            wanted = [each for each in values(written) if each != b"1"]
            assert [each for each in values(found) if each != b"1"] == wanted
    path.write_bytes(sound[:-1])
    with pytest.raises(
        DamagedLogError, match=f"position {2 * size}: A batch of {size} bytes where {size - 1} are left"
    ):
        read(tmp_path)
    assert values(read(tmp_path, mode="PERMISSIVE")) == [each for each in values(written) if each != b"2"]
    log.release()


def test_a_batch_with_the_offset_of_another_is_told_of_wherever_it_is(tmp_path: Path) -> None:
    log = in_segments(tmp_path)
    for number in range(9, 12):
        write(log, b"%d" % number)
    log.flush()
    checkpoint(tmp_path, 12)
    written = read(tmp_path)
    for number in range(11):  # behind the last one there is nothing that tells
        path = file_of(tmp_path, number // 3 * 3)
        sound = path.read_bytes()
        start = number % 3 * (len(sound) // 3)
        for byte, bit in flips(8):
            data = bytearray(sound)
            data[start + byte] ^= bit
            path.write_bytes(data)
            with pytest.raises(UnreadableLogError, match=f"^{re.escape(str(path))}: position "):
                read(tmp_path)
        path.write_bytes(sound)
    assert read(tmp_path) == written
    log.release()


def test_damage_in_what_is_compressed_is_told_of(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    for codec in Compression:
        append_records(log, [NewRecord(None, b"value" * 20, NOW_MS)] * 10, compression=codec)
    checkpoint(tmp_path, log.log_end_offset)
    assert len(read(tmp_path)) == 50
    path = file_of(tmp_path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedLogError, match="The checksum of the batch is another one"):
        read(tmp_path)
    assert len(read(tmp_path, mode="PERMISSIVE")) == 40
    log.release()


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_records_are_malformed_where_the_reader_of_batches_says_so(tmp_path: Path, codec: Compression) -> None:
    log_in(tmp_path).release()
    records = [NewRecord(b"k", b"v" * 9, NOW_MS, (("h", b"v"), ("n", None))), NewRecord(None, None, NOW_MS)]
    good = build_batch(records, compression=codec)
    following = build_batch([NewRecord(b"next", b"one", NOW_MS, (("h", b"x"),))], base_offset=2)
    malformed = 0
    for byte, bit in ((byte, 1 << bit) for byte in range(HEADER_SIZE, len(good)) for bit in (1, 7)):
        bad = bytearray(good)
        bad[byte] ^= bit
        bad[CRC_POSITION : CRC_POSITION + 4] = checksum(bad).to_bytes(4, "big")
        file_of(tmp_path).write_bytes(bad)
        try:
            check_records(bad)
        except CorruptBatch:
            malformed += 1
            with pytest.raises(DamagedLogError, match=r"\.log: position 0: "):
                read(tmp_path)
            # What is left out leaves nothing behind.
            file_of(tmp_path).write_bytes(bad + following)
            assert read(tmp_path, mode="PERMISSIVE") == list(iter_records(following))
        else:
            assert read(tmp_path) == list(iter_records(bad))
    assert 20 < malformed < 2 * (len(good) - HEADER_SIZE)
