"""A batch in another codec holds the same records, of the same producer."""

import tracemalloc
from contextlib import suppress
from typing import Any

import pytest

from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.records.batch import (
    Compression,
    NewRecord,
    ProducedBatch,
    RecordRules,
    TimestampType,
    build_batch,
    crc_is_valid,
    iter_records,
    parse_header,
    recompressed,
    recompression_needs_offload,
    validate_produced,
)
from ottla.wire.records.batch_header import checksum

NOW = 1_700_000_000_000
ANY = 2**63 - 1
RULES = RecordRules(False, TimestampType.CREATE_TIME, ANY, ANY, 10**6)
RECORDS = [
    NewRecord(b"key", b"value" * 50, NOW, (("h", b"v"), ("h", None), ("", b""))),
    NewRecord(None, None, NOW + 9),
    NewRecord(b"", b"", NOW - 9, (("ключ", b"\0"),)),
]
IDENTITY: dict[str, Any] = {"producer_id": 2**40, "producer_epoch": 3, "base_sequence": 2**31 - 2}
codecs = pytest.mark.parametrize("codec", Compression, ids=lambda codec: codec.name)
targets = pytest.mark.parametrize("target", Compression, ids=lambda codec: codec.name)


def into(target: Compression | None, **rules: Any) -> RecordRules:
    return RULES._replace(compression=target, **rules)


def taken(batch: bytes | bytearray, rules: RecordRules) -> ProducedBatch:
    valid = validate_produced(memoryview(bytearray(batch)), api_version=9, rules=rules, now_ms=NOW)
    return recompressed(valid, rules)


@codecs
@targets
def test_the_records_and_their_producer_are_the_same_in_every_codec(codec: Compression, target: Compression) -> None:
    batch = build_batch(RECORDS, compression=codec, transactional=True, **IDENTITY)
    found = taken(batch, into(target))
    assert found.header == parse_header(found.data)
    assert found.header.size == len(found.data)
    assert crc_is_valid(found.data)
    assert found.header.compression is target
    assert list(iter_records(found.data)) == list(iter_records(batch))
    same = ("last_offset_delta", "base_timestamp", "max_timestamp", "record_count", "is_transactional", *IDENTITY)
    assert [getattr(found.header, name) for name in same] == [getattr(parse_header(batch), name) for name in same]
    assert found.max_timestamp == NOW + 9


@codecs
def test_a_batch_that_fits_is_kept_as_it_came(codec: Compression) -> None:
    batch = build_batch(RECORDS, compression=codec)
    for target in (codec, None):
        valid = validate_produced(memoryview(batch), api_version=9, rules=into(target), now_ms=NOW)
        assert recompressed(valid, into(target)) is valid


@codecs
@targets
def test_the_brokers_time_is_kept(codec: Compression, target: Compression) -> None:
    rules = into(target, timestamp_type=TimestampType.LOG_APPEND_TIME)
    found = taken(build_batch(RECORDS, compression=codec), rules)
    assert found.header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert crc_is_valid(found.data)
    assert {record.timestamp for record in iter_records(found.data)} == {NOW}


@targets
def test_records_out_of_order_are_numbered_and_recompressed(target: Compression) -> None:
    batch = build_batch(RECORDS[1:2] * 2)
    # The second record's offset delta: 1 becomes 0.
    at = batch.index(b"\0\x02\x01\x01\0", 62)
    batch[at + 1] = 0
    batch[17:21] = checksum(batch).to_bytes(4, "big")
    found = taken(batch, into(target))
    assert [record.offset for record in iter_records(found.data)] == [0, 1]


@pytest.mark.parametrize(
    ("target", "low", "high"), [(Compression.GZIP, 1, 9), (Compression.LZ4, 1, 17), (Compression.ZSTD, -50, 19)]
)
def test_a_higher_level_makes_it_smaller(target: Compression, low: int, high: int) -> None:
    words = b" ".join(b"%d" % (n * n % 977) for n in range(6000))
    batch = build_batch([NewRecord(None, words, NOW)])
    sizes = [taken(batch, into(target, compression_level=level)).header.size for level in (low, high)]
    assert sizes[1] < sizes[0]


def test_a_batch_that_is_too_large_in_the_topics_codec_is_refused() -> None:
    batch = build_batch([NewRecord(None, bytes(10_000), NOW)], compression=Compression.GZIP)
    assert taken(batch, into(Compression.ZSTD, max_message_bytes=1000)).header.size < 1000
    size = taken(batch, into(Compression.NONE)).header.size
    assert taken(batch, into(Compression.NONE, max_message_bytes=size)).header.size == size
    with pytest.raises(KafkaError) as caught:
        taken(batch, into(Compression.NONE, max_message_bytes=size - 1))
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


@codecs
@targets
def test_a_bomb_takes_little_memory(codec: Compression, target: Compression) -> None:
    if codec is Compression.NONE:
        return
    batch = build_batch([NewRecord(None, bytes(50_000_000), NOW)], compression=codec)
    rules = into(target, max_message_bytes=10**7)
    valid = validate_produced(memoryview(batch), api_version=9, rules=rules, now_ms=NOW)
    tracemalloc.start()
    try:
        with suppress(KafkaError):
            recompressed(valid, rules)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 30_000_000


def test_large_batches_are_not_for_the_loop() -> None:
    small, large = (memoryview(build_batch([NewRecord(None, bytes(size), NOW)])) for size in (8000, 8200))
    assert not recompression_needs_offload(small, into(Compression.GZIP))
    assert recompression_needs_offload(large, into(Compression.GZIP))
    assert recompression_needs_offload(small, into(Compression.GZIP), 2)
    assert not recompression_needs_offload(large, into(Compression.NONE))
    assert not recompression_needs_offload(large, into(None))
    assert not recompression_needs_offload(memoryview(b""), into(Compression.GZIP))


@codecs
def test_batches_that_become_large_are_not_for_the_loop(codec: Compression) -> None:
    if codec is Compression.NONE:
        return
    records = [NewRecord(None, bytes(9000), NOW)]
    batch = memoryview(build_batch(records, compression=codec))
    assert len(batch) < 1000
    other = Compression.ZSTD if codec is Compression.GZIP else Compression.GZIP
    assert recompression_needs_offload(batch, into(other))
    assert not recompression_needs_offload(batch, into(codec))


def test_malformed_compressed_data_is_left_to_the_validation() -> None:
    batch = build_batch([NewRecord(None, b"v", NOW)], compression=Compression.GZIP)
    batch[61:] = bytes(len(batch) - 61)
    assert not recompression_needs_offload(memoryview(batch), into(Compression.ZSTD))
