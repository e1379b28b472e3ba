"""Scanning fetched batches for the first data record at or after an offset."""

from ottla.client.admin.fetching import scan
from ottla.wire.records.batch import Compression, ControlType, NewRecord, build_batch, build_control_batch

AT = 1_700_000_000_000


def batch(first: int, count: int, compression: Compression = Compression.NONE) -> bytes:
    records = [NewRecord(b"key-%d" % offset, b"v", AT + offset) for offset in range(first, first + count)]
    return bytes(build_batch(records, base_offset=first, compression=compression))


def marker(offset: int) -> bytes:
    return bytes(
        build_control_batch(
            ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=AT, base_offset=offset
        )
    )


def test_the_record_at_an_offset_is_found_in_the_middle_of_a_batch() -> None:
    for compression in (Compression.NONE, Compression.GZIP, Compression.ZSTD):
        found = scan(memoryview(batch(0, 10, compression)), 7)
        assert found.record is not None
        assert (found.record.offset, found.record.timestamp) == (7, AT + 7)


def test_markers_are_skipped() -> None:
    found = scan(memoryview(marker(4) + marker(5) + batch(6, 2)), 4)
    assert found.record is not None
    assert found.record.offset == 6


def test_without_a_record_the_scan_continues_after_the_last_batch() -> None:
    assert scan(memoryview(batch(0, 3) + marker(3)), 3) == (None, 4, 0)
    assert scan(memoryview(b""), 3) == (None, 3, 0)


def test_an_incomplete_last_batch_is_left_for_the_next_fetch() -> None:
    assert scan(memoryview(batch(0, 3) + batch(3, 3)[:-1]), 3) == (None, 3, 0)


def test_a_record_is_found_by_its_content_and_earlier_records_are_counted() -> None:
    found = scan(memoryview(batch(0, 10)), 2, lambda record: record.key == b"key-5")
    assert found.record is not None
    assert (found.record.offset, found.records) == (5, 4)
