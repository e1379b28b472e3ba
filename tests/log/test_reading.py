from pathlib import Path

import pytest

from ottla.log.log import PartitionLog
from ottla.log.segments.open_files import FileRegion
from ottla.log.segments.segment import TimestampAndOffset
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.records.batch import Compression, NewRecord, build_batch, iter_batches, parse_header
from tests.log.building import NOW_MS, append, content, open_log, produced, records_from


def _refusal(log: PartitionLog, offset: int) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        log.read(offset, 100, log.log_end_offset, True)
    return refused.value.code


# Reading


def test_reads_outside_the_log_are_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, produced(5))
    log.increment_log_start_offset(2)
    assert _refusal(log, 1) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert _refusal(log, -1) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert _refusal(log, 6) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.read(5, 100, 5, True) == b""
    assert log.read(5, 100, 9, True) == b""


def test_a_read_ends_at_its_limit_but_returns_one_whole_batch_if_asked(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    sizes = [len(produced(2, value=bytes(number * 10)).data) for number in range(10)]
    for number in range(10):
        append(log, produced(2, value=bytes(number * 10)))
    whole = content(log.read(0, 1 << 20, 20, True))
    for number in range(10):
        start = sum(sizes[:number])
        for limit in (0, 1, 12, sizes[number] - 1, sizes[number], sizes[number] + 1, sum(sizes)):
            for offset in (2 * number, 2 * number + 1):
                asked = content(log.read(offset, limit, 20, True))
                assert asked == whole[start : start + max(limit, sizes[number])]
                optional = content(log.read(offset, limit, 20, False))
                assert optional == (whole[start : start + limit] if limit >= sizes[number] else b"")


def test_small_reads_return_bytes_and_large_reads_regions(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(30):
        append(log, produced(1, value=bytes(10_000)))
    large = log.read(0, 1 << 20, 30, True)
    assert isinstance(large, FileRegion)
    for limit in (20_000, 61_000):
        small = log.read(0, limit, 30, True)
        assert isinstance(small, bytearray)
        assert small == large.read()[:limit]
    assert isinstance(log.read(0, 1, 30, True), FileRegion)


@pytest.mark.parametrize("limit", [300, 1000, 50_000])
def test_consecutive_reads_miss_nothing(tmp_path: Path, limit: int) -> None:
    """Remembered positions must be forgotten at a roll or a truncation, and stay right if a reader jumps."""
    log = open_log(tmp_path, segment_bytes=2000)
    for number in range(100):
        append(log, produced(2, value=bytes(number)))
    end = log.log_end_offset
    for _ in range(2):
        assert [record.offset for record in records_from(log, 0, end, max_bytes=limit)] == list(range(end))
    log.truncate_to(100)

    while log.log_end_offset < end:
        append(log, produced(5))
    assert [record.offset for record in records_from(log, 0, end, max_bytes=limit)][:end] == list(range(end))


def test_a_read_ends_before_its_end_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=500)
    for _ in range(20):
        append(log, produced(3))
    log.close()
    log = open_log(tmp_path, segment_bytes=500)
    for end in range(61):
        seen = [record.offset for record in records_from(log, 0, end)]
        assert seen == list(range(end - end % 3))
        for offset in range(end, 61):
            assert log.read(offset, 1 << 20, end, True) == b""


def test_a_read_does_not_cross_segments_and_goes_on_in_the_next(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=500)
    for _ in range(30):
        append(log, produced(2))
    bases = [segment.base_offset for segment in log.segments]
    assert len(bases) > 4
    for base, following in zip(bases, [*bases[1:], 60], strict=True):
        headers = [header for header, _ in iter_batches(memoryview(content(log.read(base, 1 << 20, 60, True))))]
        assert (headers[0].base_offset, headers[-1].next_offset) == (base, following)


def test_a_read_from_a_gap_starts_behind_the_gap(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=300)
    for offset in range(0, 400, 20):
        log.append_as_follower(
            memoryview(build_batch([NewRecord(value=b"v", timestamp=NOW_MS)], base_offset=offset)), NOW_MS
        )
    for offset in range(381):
        found = records_from(log, offset)
        assert found[0].offset == -(-offset // 20) * 20
    log.truncate_to(385)
    assert records_from(log, 381) == []
    log.truncate_to(375)
    assert log.log_end_offset == 375
    assert log.read(370, 1000, 375, True) == b""


def test_a_region_stays_readable_when_its_segment_is_truncated(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, produced(value=bytes(100_000)))
    region = log.read(0, 1 << 20, 1, True)
    assert isinstance(region, FileRegion)
    log.truncate_fully_and_start_at(100)
    assert parse_header(region.read()).record_count == 1
    assert log.read(100, 10, 100, True) == b""
    assert append(log).first_offset == 100


def test_a_closed_log_refuses_reads_and_appends(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log)
    log.close()
    log.close()
    with pytest.raises(KafkaError) as refused:
        log.read(0, 100, 1, True)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError):
        append(log)
    assert log.log_end_offset == 1


# By timestamp


@pytest.mark.parametrize("codec", list(Compression))
def test_records_are_found_by_timestamp(tmp_path: Path, codec: Compression) -> None:
    log = open_log(tmp_path, segment_bytes=2000, index_interval_bytes=200)
    stamps = [[10, 30, 20], [15, 25], [40], [35, 35], [40, 41], [5]] * 8
    flat: list[int] = []
    for number, times in enumerate(stamps):
        shifted = [time + number * 10 for time in times]
        batch = build_batch(
            [NewRecord(value=bytes(50), timestamp=time) for time in shifted],
            compression=codec, base_offset=len(flat), leader_epoch=2,
        )  # fmt: skip
        log.append_as_follower(memoryview(batch), NOW_MS)
        flat += shifted
    assert len(log.segments) > 1 or codec is not Compression.NONE
    for _ in range(2):
        for wanted in range(600):
            first = next((offset for offset, time in enumerate(flat) if time >= wanted), None)
            expected = None if first is None else TimestampAndOffset(flat[first], first, 2)
            assert log.offset_for_timestamp(wanted) == expected
        largest = max(flat)
        assert log.offset_of_max_timestamp() == TimestampAndOffset(largest, flat.index(largest), 2)
        log.close()
        log = open_log(tmp_path, segment_bytes=2000, index_interval_bytes=200)


def test_records_before_the_log_start_are_not_found_by_timestamp(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, produced(timestamps=[10, 20, 30]))
    log.increment_log_start_offset(1)
    assert log.offset_for_timestamp(5) == TimestampAndOffset(20, 1, 0)


def test_an_empty_log_has_no_timestamps(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert log.offset_for_timestamp(0) is None
    assert log.offset_of_max_timestamp() is None
    append(log, produced(timestamp=-1))
    assert log.offset_of_max_timestamp() is None
