"""Produced records are taken, corrected or refused as by Kafka."""

import random
import tracemalloc
from struct import pack_into
from typing import Any

import pytest

from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.records.batch import (
    Compression,
    ControlType,
    InvalidRecordsError,
    NewRecord,
    ProducedBatch,
    RecordRules,
    TimestampType,
    build_batch,
    build_control_batch,
    crc_is_valid,
    iter_records,
    needs_offload,
    parse_header,
    validate_produced,
)
from ottla.wire.records.batch_header import HEADER_SIZE, checksum
from ottla.wire.records.compression import compress

NOW = 1_700_000_000_000
ANY = 2**63 - 1
RULES = RecordRules(
    compacted=False,
    timestamp_type=TimestampType.CREATE_TIME,
    before_max_ms=ANY,
    after_max_ms=ANY,
    max_message_bytes=10**6,
)
STAMPED = RULES._replace(timestamp_type=TimestampType.LOG_APPEND_TIME)
BOUNDED = RULES._replace(before_max_ms=1000, after_max_ms=2000)
CODECS = [codec for codec in Compression if codec]
codecs = pytest.mark.parametrize("codec", Compression, ids=lambda codec: codec.name)


def validate(batch: bytes | bytearray, rules: RecordRules = RULES, version: int = 9) -> ProducedBatch:
    return validate_produced(memoryview(bytearray(batch)), api_version=version, rules=rules, now_ms=NOW)


def refusal(batch: bytes | bytearray, rules: RecordRules = RULES, version: int = 9) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        validate(batch, rules, version)
    return caught.value


def refused(batch: bytes | bytearray, rules: RecordRules = RULES, version: int = 9) -> int:
    return int(refusal(batch, rules, version).code)


def batch_of(*timestamps: int, codec: Compression = Compression.NONE, **fields: Any) -> bytearray:
    records = [NewRecord(b"k", b"value", timestamp) for timestamp in timestamps or (NOW,)]
    return build_batch(records, compression=codec, **fields)


def sealed(batch: bytearray) -> bytearray:
    pack_into(">I", batch, 17, checksum(batch))
    return batch


def changed(batch: bytearray, position: int, form: str, value: int) -> bytearray:
    batch = batch.copy()
    pack_into(form, batch, position, value)
    return sealed(batch)


def with_records(data: bytes, codec: Compression = Compression.NONE, count: int = 1) -> bytearray:
    batch = batch_of(*[NOW] * count, codec=codec)[:HEADER_SIZE] + compress(codec, data)
    return changed(batch, 8, ">i", len(batch) - 12)


def plain_records(*timestamps: int) -> bytes:
    return bytes(batch_of(*timestamps)[HEADER_SIZE:])


@codecs
def test_a_valid_batch_is_taken_unchanged(codec: Compression) -> None:
    batch = batch_of(NOW, NOW + 7, NOW - 3, codec=codec, producer_id=5, producer_epoch=0, base_sequence=0)
    valid = validate(batch)
    assert valid.data == batch
    assert valid.header == parse_header(batch)
    assert valid.max_timestamp == NOW + 7


def test_no_records_at_all_are_refused() -> None:
    with pytest.raises(KafkaError) as caught:
        validate_produced(None, api_version=9, rules=RULES, now_ms=NOW)
    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert refused(b"") == 87


def test_a_batch_cut_anywhere_is_refused() -> None:
    batch = batch_of()
    assert {refused(batch[:length]) for length in range(len(batch))} == {87}


def test_half_a_batch_behind_a_whole_one_is_cut_off_as_kafka_does() -> None:
    batch = batch_of()
    for rest in (b"\0", batch[:-1], batch[:16]):
        assert validate(batch + rest).data == batch


def test_a_second_batch_is_refused_and_so_are_bytes_that_begin_no_batch() -> None:
    batch = batch_of()
    assert refused(batch + batch) == 87
    assert refused(batch + bytes(12)) == 2
    assert refused(batch + batch[:16] + b"\x07") == 2


@pytest.mark.parametrize("magic", [0, 1])
def test_records_of_older_formats_are_refused(magic: int) -> None:
    batch = batch_of()
    batch[16] = magic
    assert refused(batch) == 87


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_an_unknown_magic_is_corrupt(magic: int) -> None:
    batch = batch_of()
    batch[16] = magic
    assert refused(batch) == 2


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 14, 30, 48, 49])
def test_a_batch_too_short_for_its_header_is_corrupt(length: int) -> None:
    batch = batch_of()
    pack_into(">i", batch, 8, length)
    assert refused(batch) == 2


@pytest.mark.parametrize("length", [2**31 - 1, 2**31 - 13, 1000])
def test_a_batch_that_says_it_is_longer_is_half_a_batch(length: int) -> None:
    batch = batch_of()
    pack_into(">i", batch, 8, length)
    assert refused(batch) == 87


def test_zstd_is_refused_by_versions_that_do_not_know_it() -> None:
    batch = batch_of(codec=Compression.ZSTD)
    assert refused(batch, version=6) == 76
    assert validate(batch, version=7).data == batch


def test_a_flipped_bit_is_corrupt() -> None:
    batch = batch_of()
    batch[-3] ^= 1
    assert refused(batch) == 2


def test_the_size_of_a_batch_is_bounded() -> None:
    batch = batch_of()
    assert refused(batch, RULES._replace(max_message_bytes=len(batch) - 1)) == 10
    assert validate(batch, RULES._replace(max_message_bytes=len(batch))).data == batch


@pytest.mark.parametrize(
    ("position", "form", "value"),
    [
        (0, ">q", 1), (0, ">q", -1),  # base offset
        (23, ">i", 0), (23, ">i", 2), (23, ">i", -1),  # last offset delta
        (57, ">i", 1), (57, ">i", 3), (57, ">i", 0), (57, ">i", -1),  # count
        (22, ">B", 0x20),  # control
        (22, ">B", 1), (22, ">B", 2), (22, ">B", 3), (22, ">B", 4),  # other codecs than the data's
        (22, ">B", 5), (22, ">B", 6), (22, ">B", 7),  # unknown codecs
        (43, ">q", 0), (43, ">q", 7),  # a producer id without sequence
    ],
)  # fmt: skip
def test_an_impossible_header_is_refused(position: int, form: str, value: int) -> None:
    assert refused(changed(batch_of(NOW, NOW), position, form, value)) == 87


@pytest.mark.parametrize("count", [1, 3])
@codecs
def test_count_and_last_offset_that_agree_must_still_be_the_records(codec: Compression, count: int) -> None:
    batch = changed(batch_of(NOW, NOW, codec=codec), 23, ">i", count - 1)
    assert refused(changed(batch, 57, ">i", count)) == 87


def test_a_marker_from_a_client_is_refused() -> None:
    marker = build_control_batch(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=NOW
    )
    assert refused(marker) == 87


def test_unused_attributes_are_ignored() -> None:
    for value in (0x0080, 0x4000, -0x8000, 0x0040):
        batch = changed(batch_of(), 21, ">h", value)
        assert validate(batch).data == batch


@pytest.mark.parametrize("codec", CODECS)
def test_junk_behind_a_codec_is_refused(codec: Compression) -> None:
    batch = batch_of(codec=codec)
    junk = batch[:HEADER_SIZE] + random.Random(1).randbytes(len(batch) - HEADER_SIZE)
    assert refused(sealed(junk)) == 87
    assert refused(changed(batch[:-1], 8, ">i", len(batch) - 13)) == 87


@codecs
def test_bytes_behind_the_last_record_are_refused(codec: Compression) -> None:
    assert refused(with_records(plain_records() + b"\0", codec)) == 87


def outcome(batch: bytearray) -> int:
    try:
        validate(batch)
    except KafkaError as error:
        return int(error.code)
    return 0


def offsets_in(batch: bytearray) -> list[int]:
    try:
        return [record.offset for record in iter_records(batch)]
    except KafkaError:
        return []


@codecs
def test_malformed_records_are_refused(codec: Compression) -> None:
    good = plain_records()
    for position in range(len(good)):
        for value in (0x7F, 0xFF):
            data = bytearray(good)
            data[position] = value
            batch = with_records(bytes(data), codec)
            offsets = offsets_in(batch)
            is_sound = len(offsets) == 1 if codec is Compression.NONE else offsets == [0]
            assert outcome(batch) == (0 if is_sound else 87)


def renumbered(*deltas: int) -> bytes:
    """Return records with these offset deltas."""
    data = bytearray(plain_records(*[NOW] * len(deltas)))
    size = len(data) // len(deltas)
    for number, delta in enumerate(deltas):
        data[number * size + 3] = delta << 1
    return bytes(data)


def test_uncompressed_records_out_of_order_are_renumbered() -> None:
    batch = with_records(renumbered(3, 0, 0), count=3)
    assert [record.offset for record in iter_records(batch)] == [3, 0, 0]
    valid = validate(batch)
    assert crc_is_valid(valid.data)
    assert valid.header == parse_header(valid.data)
    assert [record.offset for record in iter_records(valid.data)] == [0, 1, 2]
    assert [record._replace(offset=0) for record in iter_records(valid.data)] == [
        record._replace(offset=0) for record in iter_records(batch)
    ]
    stamped = validate(batch, STAMPED)
    assert [(record.offset, record.timestamp) for record in iter_records(stamped.data)] == [
        (0, NOW),
        (1, NOW),
        (2, NOW),
    ]


def test_renumbering_may_change_the_size() -> None:
    batch = build_batch([NewRecord(None, b"v", NOW)] * 100)
    records = list(iter_records(batch))
    data = bytearray(batch[HEADER_SIZE:])
    data[3] = 0x7E  # the first says it is the 63rd
    valid = validate(changed(batch[:HEADER_SIZE] + data, 8, ">i", len(batch) - 12))
    assert list(iter_records(valid.data)) == records


def test_more_than_a_thousand_records_are_not_renumbered() -> None:
    for count, code in ((1000, 0), (1001, 87)):
        data = bytearray(build_batch([NewRecord(None, b"v", NOW)] * count)[HEADER_SIZE:])
        data[3] = 2
        assert outcome(with_records(bytes(data), count=count)) == code


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_records_out_of_order_are_refused(codec: Compression) -> None:
    assert refused(with_records(renumbered(0, 2), codec, 2)) == 87


@codecs
def test_a_wrong_maximum_timestamp_is_corrected(codec: Compression) -> None:
    batch = batch_of(NOW, NOW + 5, codec=codec)
    valid = validate(changed(batch, 35, ">q", NOW + 99))
    assert valid.data == batch
    assert valid.header == parse_header(batch)
    assert valid.max_timestamp == NOW + 5


def test_records_without_timestamp_are_taken() -> None:
    assert validate(batch_of(-1, -1), BOUNDED).max_timestamp == -1
    assert validate(batch_of(-1, NOW), BOUNDED).max_timestamp == NOW


@codecs
def test_timestamps_may_not_be_too_early_or_too_late(codec: Compression) -> None:
    for timestamp in (NOW - 1000, NOW + 2000):
        assert validate(batch_of(timestamp, codec=codec), BOUNDED).max_timestamp == timestamp
    error = refusal(batch_of(NOW - 1001, NOW, NOW + 2001, codec=codec), BOUNDED)
    assert isinstance(error, InvalidRecordsError)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [0, 2]
    assert str(NOW + 2001) in error.record_errors[1][1]


@pytest.mark.parametrize("base", [-(2**63), -(2**62), -2, 0, 2**62, 2**63 - 1])
def test_without_bounds_any_timestamp_goes(base: int) -> None:
    assert validate(batch_of(base)).max_timestamp == max(-1, base)
    assert refused(batch_of(base), BOUNDED) == 32


def test_a_timestamp_beyond_64_bits_is_out_of_range() -> None:
    batch = changed(batch_of(5, 6), 27, ">q", 2**63 - 1)
    assert refused(batch) == 32
    batch = changed(batch_of(5, 4), 27, ">q", -(2**63))
    assert refused(batch) == 32


@codecs
def test_log_append_time_is_stamped_by_the_broker(codec: Compression) -> None:
    batch = batch_of(5, 2**62, codec=codec)
    valid = validate(batch, STAMPED._replace(before_max_ms=1, after_max_ms=1))
    assert crc_is_valid(valid.data)
    assert valid.header == parse_header(valid.data)
    assert (valid.header.timestamp_type, valid.max_timestamp) == (TimestampType.LOG_APPEND_TIME, NOW)
    assert valid.header.compression is codec
    assert {record.timestamp for record in iter_records(valid.data)} == {NOW}


def test_log_append_time_from_a_client_is_refused_or_made_create_time() -> None:
    batch = batch_of(NOW, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert refused(batch, STAMPED) == 32
    valid = validate(batch, BOUNDED)
    assert (valid.header.timestamp_type, valid.max_timestamp) == (TimestampType.CREATE_TIME, NOW)
    assert crc_is_valid(valid.data)
    for timestamp in (NOW - 1001, NOW + 2001, -1):
        assert refused(batch_of(timestamp, timestamp_type=TimestampType.LOG_APPEND_TIME), BOUNDED) == 32


@codecs
def test_a_compacted_topic_takes_no_record_without_key(codec: Compression) -> None:
    compacted = BOUNDED._replace(compacted=True)
    records = [NewRecord(b"", None, NOW), NewRecord(None, b"v", NOW)]
    error = refusal(build_batch(records, compression=codec), compacted)
    assert isinstance(error, InvalidRecordsError)
    assert error.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in error.record_errors] == [1]
    assert validate(build_batch(records[:1], compression=codec), compacted)
    late = build_batch([*records, NewRecord(b"k", None, NOW + 9999)], compression=codec)
    assert refused(late, compacted) == 32


def test_at_most_a_hundred_record_errors_are_returned() -> None:
    error = refusal(build_batch([NewRecord(None, b"v", NOW)] * 1000), RULES._replace(compacted=True))
    assert isinstance(error, InvalidRecordsError)
    assert [index for index, _ in error.record_errors] == list(range(100))
    assert "1000" in error.detail


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_taken_with_little_memory(codec: Compression) -> None:
    batch = build_batch([NewRecord(b"k", bytes(100_000_000), NOW)], compression=codec)
    tracemalloc.start()
    try:
        valid = validate(batch, RULES._replace(max_message_bytes=10**8))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert valid.max_timestamp == NOW
    assert peak < 16_000_000 + 2 * len(batch)


@codecs
def test_small_batches_are_validated_at_once(codec: Compression) -> None:
    assert not needs_offload(memoryview(batch_of(*range(100), codec=codec)))


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_expands_far_is_validated_elsewhere(codec: Compression) -> None:
    bomb = build_batch([NewRecord(None, bytes(1_000_000), NOW)], compression=codec)
    assert needs_offload(memoryview(bomb))
    assert needs_offload(
        memoryview(build_batch([NewRecord(None, random.Random(1).randbytes(200_000))], compression=codec))
    )


def test_a_large_batch_that_is_not_compressed_is_validated_at_once() -> None:
    assert not needs_offload(memoryview(build_batch([NewRecord(None, bytes(900_000), NOW)])))


@pytest.mark.parametrize("codec", range(8))
def test_needs_offload_takes_any_bytes(codec: int) -> None:
    batch = batch_of()
    batch[22] = codec
    assert not needs_offload(memoryview(batch))
    assert not needs_offload(memoryview(batch[:40]))
    assert not needs_offload(memoryview(b""))
