"""The records that stay in a compacted log."""

import os
from pathlib import Path

import pytest

from ottla.log.compaction.cleaner import CorruptLogError
from ottla.log.compaction.compaction import CleanerLimits
from ottla.log.log import PartitionLog
from ottla.wire.records.batch import Compression, iter_batches
from tests.log.building import NOW_MS, append, content, open_log, records_from
from tests.log.compaction.compacting import LIMITS, clean_log, keyed

DAY_MS = 86_400_000


def kept(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records_from(log)]


def batches(log: PartitionLog) -> list[tuple[int, int, int]]:
    """Return first offset, last offset and number of records of each batch."""
    found = []
    for segment in log.segments:
        data = Path(segment.file.path).read_bytes()
        found += [
            (header.base_offset, header.last_offset, header.record_count)
            for header, _ in iter_batches(memoryview(data))
        ]
    return found


@pytest.mark.parametrize("compression", list(Compression))
def test_the_newest_record_of_each_key_stays_unchanged(tmp_path: Path, compression: Compression) -> None:
    log = open_log(tmp_path)
    append(log, keyed((b"a", b"1"), (b"b", b"1"), (b"a", b"2"), compression=compression))
    append(log, keyed((b"c", b"1"), (b"d" * 40, b"1"), compression=compression))
    append(log, keyed((b"b", b"2"), (b"d" * 40, b"2"), compression=compression))
    log.roll(NOW_MS)
    before = {record.offset: record for record in records_from(log)}
    stats = clean_log(log)
    assert kept(log) == [(2, b"a", b"2"), (3, b"c", b"1"), (5, b"b", b"2"), (6, b"d" * 40, b"2")]
    assert all(record == before[record.offset] for record in records_from(log))
    assert batches(log) == [(0, 2, 1), (3, 4, 1), (5, 6, 2)]
    assert (stats.end_offset, stats.messages_read, stats.messages_written) == (7, 7, 4)
    codecs = {header.compression for header, _ in iter_batches(memoryview(content(log.read(0, 1 << 20, 7, True))))}
    assert codecs == {compression}
    log.close()


def test_records_of_the_active_segment_stay_and_do_not_count(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, keyed((b"a", b"1")))
    log.roll(NOW_MS)
    append(log, keyed((b"a", b"2")))
    clean_log(log)
    assert kept(log) == [(0, b"a", b"1"), (1, b"a", b"2")]
    log.close()


def test_records_without_key_are_removed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, keyed((None, b"1"), (b"", b"2")))
    append(log, keyed((None, b"3")))
    log.roll(NOW_MS)
    stats = clean_log(log)
    assert kept(log) == [(1, b"", b"2")]
    assert stats.invalid_messages == 2
    log.close()


def test_a_tombstone_stays_for_delete_retention_ms_after_the_first_cleaning(tmp_path: Path) -> None:
    log = open_log(tmp_path, delete_retention_ms=DAY_MS)
    append(log, keyed((b"a", b"1"), (b"b", b"1")))
    append(log, keyed((b"a", None), (b"c", b"1"), timestamp=NOW_MS + 500))
    log.roll(NOW_MS)
    later = NOW_MS + 10 * DAY_MS
    clean_log(log, now_ms=later)
    found = records_from(log)
    assert kept(log) == [(1, b"b", b"1"), (2, b"a", None), (3, b"c", b"1")]
    assert [record.timestamp for record in found] == [NOW_MS + 1, NOW_MS + 500, NOW_MS + 501]
    horizons = {
        header.base_offset: header.base_timestamp
        for header, _ in iter_batches(memoryview(content(log.read(0, 1 << 20, 4, True))))
        if header.has_delete_horizon
    }
    assert horizons == {2: later + DAY_MS}
    clean_log(log, 4, now_ms=later + DAY_MS - 1)
    assert kept(log) == [(1, b"b", b"1"), (2, b"a", None), (3, b"c", b"1")]
    clean_log(log, 4, now_ms=later + DAY_MS)
    assert [(record.offset, record.timestamp) for record in records_from(log)] == [(1, NOW_MS + 1), (3, NOW_MS + 501)]
    log.close()


def test_the_last_batch_of_each_producer_stays_even_if_it_is_empty(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, keyed((b"a", b"1"), producer_id=7))
    append(log, keyed((b"a", b"2"), (b"a", b"3"), producer_id=7, sequence=1))
    append(log, keyed((b"a", b"4")))
    log.roll(NOW_MS)
    clean_log(log)
    assert batches(log) == [(1, 2, 0), (3, 3, 1)]
    log.release()
    for path in tmp_path.glob("*.snapshot"):
        path.unlink()
    again = open_log(tmp_path, clean=False)
    assert again.producers.entries[7].last_sequence == 2
    duplicate = append(again, keyed((b"a", b"2"), (b"a", b"3"), producer_id=7, sequence=1))
    assert (duplicate.is_duplicate, duplicate.first_offset) == (True, 1)
    assert append(again, keyed((b"b", b"1"), producer_id=7, sequence=3)).first_offset == 4
    again.close()


def test_segments_that_fit_together_become_one(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=400)
    for number in range(30):
        append(log, keyed((b"%d" % (number % 3), b"v" * 20)))
    log.roll(NOW_MS)
    count = len(log.segments)
    clean_log(log)
    assert kept(log) == [(number, b"%d" % (number % 3), b"v" * 20) for number in range(27, 30)]
    first = len(log.segments)
    clean_log(log, 30)
    assert len(log.segments) < first <= count
    clean_log(log, 30)
    assert [segment.base_offset for segment in log.segments] == [0, 30]
    assert not [path for path in tmp_path.iterdir() if path.suffix in (".cleaned", ".swap", ".deleted")]
    log.close()


def test_a_log_with_more_keys_than_the_map_is_cleaned_in_parts(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(20):
        append(log, keyed((b"%d" % (number % 10), b"%d" % number), (b"x", b"%d" % number)))
    log.roll(NOW_MS)
    ends = [0]
    while ends[-1] < log.log_end_offset:
        ends.append(clean_log(log, ends[-1], limits=LIMITS._replace(max_keys=4)).end_offset)
    assert len(ends) > 4
    assert ends == sorted(set(ends))
    newest = {key: value for _, key, value in kept(log)}
    assert newest == {b"x": b"19"} | {b"%d" % key: b"%d" % (10 + key) for key in range(10)}
    assert len(kept(log)) == 11
    log.close()


def test_a_corrupt_batch_ends_the_cleaning_and_leaves_the_log_unchanged(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, keyed((b"a", b"1")))
    append(log, keyed((b"a", b"2")))
    log.roll(NOW_MS)
    path = Path(log.segments[0].file.path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptLogError, match=r"the batch at position 70 of .* is corrupt"):
        clean_log(log)
    assert path.read_bytes() == data
    assert not list(tmp_path.glob("*.cleaned"))
    log.release()


def test_a_region_of_a_cleaned_segment_stays_readable(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, keyed((b"a", b"1")))
    append(log, keyed((b"a", b"2")))
    log.roll(NOW_MS)
    region = log.read(0, 1 << 20, 2, True, may_copy=False)
    before = content(region)
    clean_log(log)
    assert content(region) == before
    assert kept(log) == [(1, b"a", b"2")]
    log.close()


def test_a_cleaned_segment_gets_the_time_of_the_last_segment_it_replaces(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(3):
        append(log, keyed((b"a", b"%d" % number)))
        log.roll(NOW_MS)
    for number, segment in enumerate(log.segments):
        os.utime(segment.file.path, (1000 + number, 1000 + number))
    clean_log(log, limits=CleanerLimits(10, 1))
    assert Path(log.segments[0].file.path).stat().st_mtime == 1002
    assert len(log.segments) == 2
    log.close()
