"""Batches from which records are taken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.records.batch import Compression, NewRecord, TimestampType, build_batch, iter_records
from ottla.wire.records.batch_header import HEADER_SIZE, CorruptBatch, crc_is_valid, parse_header
from ottla.wire.records.filter import batch_records, emptied_batch, filtered_batch

BYTES = st.none() | st.binary(max_size=300)
RECORDS = st.lists(
    st.builds(
        NewRecord,
        BYTES,
        BYTES,
        st.integers(-1, 2**50),
        st.lists(st.tuples(st.text(max_size=9), BYTES), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=12,
)


@given(
    records=RECORDS,
    data=st.data(),
    compression=st.sampled_from(Compression),
    horizon=st.none() | st.integers(0, 2**60),
    timestamp_type=st.sampled_from(TimestampType),
)
def test_kept_records_of_a_batch_are_unchanged(
    records: list[NewRecord],
    data: st.DataObject,
    compression: Compression,
    horizon: int | None,
    timestamp_type: TimestampType,
) -> None:
    batch = bytes(
        build_batch(
            records,
            compression=compression,
            base_offset=1000,
            leader_epoch=3,
            producer_id=5,
            producer_epoch=6,
            base_sequence=7,
            timestamp_type=timestamp_type,
        )
    )
    header = parse_header(batch)
    found = batch_records(header, b"before" + batch, 6)
    numbers = sorted(data.draw(st.sets(st.integers(0, len(records) - 1), min_size=1)))
    less = filtered_batch(header, found.data, [found.spans[number] for number in numbers], horizon)
    assert crc_is_valid(less)
    everything = list(iter_records(batch))
    kept = list(iter_records(less))
    assert kept == [everything[number] for number in numbers]
    after = parse_header(less)
    assert after.size == len(less)
    same = ("base_offset", "last_offset", "partition_leader_epoch", "producer_id", "producer_epoch", "base_sequence")
    assert [getattr(after, name) for name in same] == [getattr(header, name) for name in same]
    assert (after.compression, after.timestamp_type) == (compression, timestamp_type)
    assert after.max_timestamp == max(record.timestamp for record in kept)
    assert (after.base_timestamp if after.has_delete_horizon else None) == horizon
    spans = batch_records(after, bytes(less), 0).spans
    assert [(span[5] >= 0, span[6]) for span in spans] == [
        (record.key is not None, record.value is not None) for record in kept
    ]


def test_an_emptied_batch_keeps_its_offsets_and_its_producer() -> None:
    batch = build_batch(
        [NewRecord(b"k", b"v", 9), NewRecord(b"k", b"w", 5)],
        compression=Compression.ZSTD,
        base_offset=40,
        leader_epoch=2,
        producer_id=5,
        producer_epoch=6,
        base_sequence=7,
        transactional=True,
    )
    header = parse_header(batch)
    empty = emptied_batch(header)
    after = parse_header(empty)
    assert (len(empty), after.record_count, after.compression) == (HEADER_SIZE, 0, Compression.NONE)
    assert crc_is_valid(empty)
    assert list(iter_records(empty)) == []
    assert (after.base_offset, after.last_offset, after.last_sequence) == (40, 41, 8)
    assert (after.base_timestamp, after.max_timestamp) == (-1, 9)
    assert (after.producer_id, after.producer_epoch, after.is_transactional) == (5, 6, True)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_filtering_malformed_records_raises_corrupt_batch(compression: Compression) -> None:
    batch = bytes(build_batch([NewRecord(b"k", b"v")], compression=compression))
    header = parse_header(batch)
    for wrong in (header._replace(record_count=2), header._replace(batch_length=header.batch_length - 1)):
        with pytest.raises(CorruptBatch):
            batch_records(wrong, batch, 0)
