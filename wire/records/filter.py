"""Removing records from a batch, which keeps its offsets, its producer and its codec.

Owns the filtered batch. Must not know the reason of a removal. Counterpart in Kafka: `MemoryRecords.filterTo`.

The bytes of kept records are copied. Kafka makes the first kept record's timestamp the base; here the base timestamp
stays, unless a delete horizon replaces it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.wire.records.batch_header import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CRC_POSITION,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    BatchHeader,
    CorruptBatch,
    TimestampType,
    checksum,
)
from ottla.wire.records.builder import varint
from ottla.wire.records.compression import Compression, DecompressionError, compress, decompress_pieces
from ottla.wire.records.scan import read_varint, read_varlong, record_spans

Span = tuple[int, int, int, int, int, int, bool]
"""A record, as `record_spans` returns it."""


class BatchRecords(NamedTuple):
    """The records of a batch, and their positions in `data`."""

    data: bytes
    spans: Sequence[Span]


def batch_records(header: BatchHeader, data: bytes, position: int) -> BatchRecords:
    """Return the decompressed records of the batch at `position`. CorruptBatch: they are malformed."""
    start, end = position + HEADER_SIZE, position + header.size
    try:
        if header.compression is not Compression.NONE:
            data = b"".join(decompress_pieces(header.compression, memoryview(data)[start:end]))
            start, end = 0, len(data)
        return BatchRecords(data, record_spans(data, start, end, header.record_count))
    except (ValueError, DecompressionError) as error:
        raise CorruptBatch(str(error)) from None


def filtered_batch(
    header: BatchHeader, data: bytes, kept: Sequence[Span], delete_horizon_ms: int | None = None
) -> bytearray:
    """Return the batch with only the `kept` records, at least one, and with the delete horizon if one is given."""
    max_timestamp = header.max_timestamp
    if header.timestamp_type is TimestampType.CREATE_TIME:
        max_timestamp = header.base_timestamp + max(span[2] for span in kept)
    attributes, base_timestamp = header.attributes, header.base_timestamp
    if delete_horizon_ms is None:
        records = b"".join([data[span[0] : span[1]] for span in kept])
    else:
        attributes |= DELETE_HORIZON_FLAG
        shift = base_timestamp - delete_horizon_ms
        base_timestamp = delete_horizon_ms
        records = b"".join([_later(data, span[0], span[1], shift) for span in kept])
    if header.compression is not Compression.NONE:
        records = compress(header.compression, records)
    return _batch(
        header._replace(
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            record_count=len(kept),
        ),
        records,
    )


def emptied_batch(header: BatchHeader) -> bytearray:
    """Return the batch without records, which keeps its offsets and its producer."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON_FLAG)
    return _batch(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), b"")


def _later(data: bytes, start: int, end: int, shift: int) -> bytes:
    """Return a record with `shift` added to its timestamp delta."""
    _, attributes = read_varint(data, start, end)
    delta, rest = read_varlong(data, attributes + 1, end)
    body = data[attributes : attributes + 1] + varint(delta + shift) + data[rest:end]
    return varint(len(body)) + body


def _batch(header: BatchHeader, records: bytes) -> bytearray:
    batch = bytearray(HEADER_SIZE)
    batch += records
    HEADER.pack_into(batch, 0, *header._replace(batch_length=len(batch) - LOG_OVERHEAD, crc=0))
    batch[CRC_POSITION:ATTRIBUTES_POSITION] = checksum(batch).to_bytes(4, "big")
    return batch
