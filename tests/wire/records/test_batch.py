"""Batches: their header, the walk from one to the next, building and reading."""

from struct import pack_into

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.records.batch import (
    HEADER_SIZE,
    Compression,
    ControlType,
    CorruptBatch,
    EndTransactionMarker,
    NewRecord,
    Record,
    TimestampType,
    build_batch,
    build_control_batch,
    build_marker,
    control_type,
    crc_is_valid,
    end_transaction_marker,
    increment_sequence,
    iter_batches,
    iter_records,
    parse_header,
    place,
)

NOW = 1_700_000_000_000

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
values = st.none() | st.binary(max_size=200)
new_records = st.builds(
    NewRecord,
    key=values,
    value=values,
    timestamp=st.integers(-1, 2**62),
    headers=st.lists(st.tuples(texts, values), max_size=3).map(tuple),
)
batches = st.lists(new_records, min_size=1, max_size=20)


@given(batches, st.sampled_from(Compression), st.integers(0, 2**62), st.booleans())
def test_records_come_back_as_they_were(
    records: list[NewRecord], compression: Compression, base_offset: int, transactional: bool
) -> None:
    batch = build_batch(
        records, compression=compression, base_offset=base_offset, leader_epoch=4, producer_id=9, producer_epoch=1,
        base_sequence=5, transactional=transactional,
    )  # fmt: skip
    header = parse_header(batch)
    assert crc_is_valid(batch)
    assert header.size == len(batch)
    assert (header.base_offset, header.next_offset) == (base_offset, base_offset + len(records))
    assert (header.compression, header.is_transactional, header.is_control) == (compression, transactional, False)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 1, 5)
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert list(iter_records(batch)) == [
        Record(base_offset + number, record.timestamp, record.key, record.value, record.headers)
        for number, record in enumerate(records)
    ]


@given(batches, st.sampled_from(Compression))
def test_read_records_build_the_same_batch(records: list[NewRecord], compression: Compression) -> None:
    batch = build_batch(records, compression=compression)
    assert build_batch(list(iter_records(batch)), compression=compression) == batch


def test_a_header_has_the_fields_of_its_batch() -> None:
    batch = build_batch(
        [NewRecord(value=b"v", timestamp=5)] * 3, base_offset=10, producer_id=1, base_sequence=2**31 - 2
    )
    header = parse_header(bytes(7) + batch, 7)
    assert (header.base_offset, header.last_offset, header.next_offset) == (10, 12, 13)
    assert (header.partition_leader_epoch, header.magic, header.record_count) == (-1, 2, 3)
    assert (header.base_timestamp, header.max_timestamp, header.timestamp_type) == (5, 5, TimestampType.CREATE_TIME)
    assert (header.has_producer_id, header.last_sequence) == (True, 0)
    assert not header.has_delete_horizon
    anonymous = parse_header(build_batch([NewRecord()]))
    assert (anonymous.has_producer_id, anonymous.last_sequence) == (False, -1)


def test_sequences_wrap_to_zero() -> None:
    assert increment_sequence(5, 2) == 7
    assert increment_sequence(2**31 - 1, 1) == 0
    assert increment_sequence(2**31 - 1, 3) == 2


def test_an_unknown_codec_raises_kafka_error() -> None:
    batch = build_batch([NewRecord(value=b"v")])
    batch[22] |= 5
    with pytest.raises(KafkaError) as caught:
        _ = parse_header(batch).compression
    assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(("position", "form", "value"), [(16, ">b", 1), (16, ">b", 3), (8, ">i", 48), (8, ">i", -1)])
def test_a_header_of_no_batch_is_refused(position: int, form: str, value: int) -> None:
    batch = build_batch([NewRecord(value=b"v")])
    pack_into(form, batch, position, value)
    with pytest.raises(CorruptBatch):
        parse_header(batch)


def test_a_header_needs_all_its_bytes_but_no_records() -> None:
    batch = build_batch([NewRecord(value=b"v")])
    assert parse_header(batch[:HEADER_SIZE]) == parse_header(batch)
    with pytest.raises(CorruptBatch):
        parse_header(batch[: HEADER_SIZE - 1])
    with pytest.raises(CorruptBatch):
        parse_header(batch, len(batch) - HEADER_SIZE + 1)


@pytest.mark.parametrize("rest", [0, 1, 60, 61, 69])
def test_the_walk_stops_at_an_incomplete_last_batch(rest: int) -> None:
    one, two = build_batch([NewRecord(value=b"one")]), build_batch([NewRecord(value=b"two"), NewRecord()])
    assert rest < len(one)
    found = list(iter_batches(memoryview(one + two + one[:rest])))
    assert [bytes(data) for _, data in found] == [one, two]
    assert [header.record_count for header, _ in found] == [1, 2]


def test_a_batch_is_placed_without_touching_its_checksum() -> None:
    batch = build_batch([NewRecord(value=b"v")] * 2)
    place(memoryview(batch), 2**40, 77)
    header = parse_header(batch)
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (2**40, 2**40 + 1, 77)
    assert header.magic == 2
    assert crc_is_valid(batch)


def test_any_flipped_bit_behind_the_checksum_is_seen() -> None:
    batch = build_batch([NewRecord(value=b"value")])
    for position in range(17, len(batch)):
        batch[position] ^= 0x10
        assert not crc_is_valid(batch)
        batch[position] ^= 0x10
    assert crc_is_valid(batch)


def test_with_log_append_time_every_record_has_the_time_of_the_batch() -> None:
    records = [NewRecord(timestamp=NOW), NewRecord(timestamp=NOW - 5)]
    batch = build_batch(records, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert [record.timestamp for record in iter_records(batch)] == [NOW, NOW]


def test_a_header_key_that_is_no_utf_8_is_read_as_java_reads_it() -> None:
    batch = build_batch([NewRecord(headers=[("xx", b"v")])])
    batch[-4:-2] = b"\xff\xfe"
    assert next(iter_records(batch)).headers == (("��", b"v"),)


@pytest.mark.parametrize("codec", Compression)
def test_records_that_do_not_fit_their_batch_are_corrupt(codec: Compression) -> None:
    batch = build_batch([NewRecord(value=b"v")] * 2, compression=codec)
    pack_into(">i", batch, 57, 3)
    records = iter_records(batch)
    assert [next(records).value, next(records).value] == [b"v", b"v"]
    with pytest.raises(CorruptBatch):
        next(records)


@given(st.binary(max_size=100), st.sampled_from(Compression))
def test_random_bytes_for_records_raise_corrupt_batch(data: bytes, codec: Compression) -> None:
    batch = build_batch([NewRecord()], compression=codec)[:HEADER_SIZE] + data
    pack_into(">i", batch, 8, len(batch) - 12)
    pack_into(">i", batch, 57, 1000)
    with pytest.raises(CorruptBatch):
        list(iter_records(batch))


@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.COMMIT])
def test_a_marker_comes_back_as_it_was(kind: ControlType) -> None:
    batch = build_control_batch(kind, producer_id=3, producer_epoch=1, coordinator_epoch=12, timestamp=NOW)
    header = parse_header(batch)
    assert (header.is_control, header.is_transactional, header.base_sequence) == (True, True, -1)
    assert control_type(batch) is kind
    assert end_transaction_marker(batch) == EndTransactionMarker(kind, 12)


@pytest.mark.parametrize(
    ("kind", "number", "stamp", "attributes"),
    [
        (ControlType.ABORT, 0, TimestampType.CREATE_TIME, 0x30),
        (ControlType.COMMIT, 1, TimestampType.CREATE_TIME, 0x30),
        (ControlType.COMMIT, 1, TimestampType.LOG_APPEND_TIME, 0x38),
    ],
)
def test_a_marker_has_the_layout_of_kafka(
    kind: ControlType, number: int, stamp: TimestampType, attributes: int
) -> None:
    batch = bytes(build_marker(0x0102030405060708, 0x1112, kind, 0x21222324, NOW, stamp))
    record = (
        b"\0"  # attributes
        b"\0"  # the delta of the timestamp
        b"\0"  # the delta of the offset
        b"\x08" + bytes(3) + bytes([number]) +  # the key: 4 bytes, version 0, type
        b"\x0c" + bytes(2) + b"\x21\x22\x23\x24"  # the value: 6 bytes, version 0, coordinator epoch
        b"\0"  # no headers
    )  # fmt: skip
    body = b"".join(
        [
            attributes.to_bytes(2, "big"),
            bytes(4),  # the delta of the last offset
            NOW.to_bytes(8, "big"),
            NOW.to_bytes(8, "big"),
            b"\1\2\3\4\5\6\7\x08",
            b"\x11\x12",
            b"\xff\xff\xff\xff",  # no sequence
            b"\0\0\0\1",
            b"\x20",  # the size of the record
            record,
        ]
    )
    crc = crc32c(body).to_bytes(4, "big")
    assert batch == bytes(8) + b"\0\0\0\x42" + b"\xff\xff\xff\xff" + b"\2" + crc + body
    assert len(batch) == 78
    assert end_transaction_marker(batch) == EndTransactionMarker(kind, 0x21222324)
    assert [each.timestamp for each in iter_records(batch)] == [NOW]


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (b"\0\0\0\2", ControlType.LEADER_CHANGE),
        (b"\0\1\0\0rest", ControlType.ABORT),
        (b"\0\0\0\x63", ControlType.UNKNOWN),
    ],
)
def test_control_records_have_their_own_types(key: bytes, kind: ControlType) -> None:
    assert control_type(build_batch([NewRecord(key=key, value=b"")])) is kind


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, bytes(6)), (b"\0\0\0", bytes(6)), (b"\xff\xff\0\0", bytes(6)), (bytes(4), None), (bytes(4), bytes(5)),
     (bytes(4), b"\xff\xff\0\0\0\0"), (b"\0\0\0\2", bytes(6))],
)  # fmt: skip
def test_a_malformed_marker_is_corrupt(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptBatch):
        end_transaction_marker(build_batch([NewRecord(key=key, value=value)]))
