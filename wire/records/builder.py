"""Building record batches, for coordinators, markers, tools and tests; producers' batches are not built again.

Owns the layout of a written batch and its records. Must not know logs, nor offsets that a leader assigns.
Counterpart in Kafka: `MemoryRecordsBuilder`, `DefaultRecord.writeTo`, `EndTransactionMarker`.
"""

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from ottla.wire.records.batch_header import (
    CONTROL_FLAG,
    CRC_POSITION,
    HEADER,
    HEADER_SIZE,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    TimestampType,
    checksum,
    parse_header,
)
from ottla.wire.records.compression import Compression, compress
from ottla.wire.records.scan import renumber

CONTROL_KEY = Struct(">hh")
MARKER_VALUE = Struct(">hi")
_ONE_BYTE = [bytes([value]) for value in range(0x80)]
# The length of null: -1.
_NULL = b"\x01"


class ControlType(IntEnum):
    """The type of a control record."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class Record(NamedTuple):
    """A record that was read."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


class NewRecord(NamedTuple):
    """A record without an offset."""

    key: bytes | None = None
    value: bytes | None = None
    timestamp: int = NO_TIMESTAMP
    headers: Sequence[tuple[str, bytes | None]] = ()


def build_batch(
    records: Sequence[NewRecord | Record],
    *,
    compression: Compression = Compression.NONE,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> bytearray:
    """Return a batch of at least one record, with offsets from `base_offset` on; `Record.offset` is ignored."""
    attributes = int(compression)
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= TIMESTAMP_TYPE_FLAG
    if transactional:
        attributes |= TRANSACTIONAL_FLAG
    identity = (producer_id, producer_epoch, base_sequence)
    return _build(records, compression, attributes, base_offset, leader_epoch, identity)


def build_control_batch(
    control_type: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> bytearray:
    """Return a control batch as it lies in a log. It is never compressed, whatever the topic's codec is."""
    key = CONTROL_KEY.pack(0, control_type)
    record = NewRecord(timestamp=timestamp, key=key, value=MARKER_VALUE.pack(0, coordinator_epoch))
    attributes = CONTROL_FLAG | TRANSACTIONAL_FLAG
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= TIMESTAMP_TYPE_FLAG
    identity = (producer_id, producer_epoch, NO_SEQUENCE)
    return _build([record], Compression.NONE, attributes, base_offset, leader_epoch, identity)


def build_marker(
    producer_id: int,
    producer_epoch: int,
    control_type: ControlType,
    coordinator_epoch: int,
    timestamp: int,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> bytearray:
    """Return the marker by which a leader ends a transaction: COMMIT or ABORT. The log assigns its offset."""
    return build_control_batch(
        control_type,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp=timestamp,
        timestamp_type=timestamp_type,
    )


def _build(
    records: Sequence[NewRecord | Record],
    compression: Compression,
    attributes: int,
    base_offset: int,
    leader_epoch: int,
    identity: tuple[int, int, int],
) -> bytearray:
    base_timestamp = records[0].timestamp
    body = bytearray()
    for delta, record in enumerate(records):
        _append_record(body, record, delta, base_timestamp)
    out = bytearray(HEADER_SIZE)
    out += body if compression is Compression.NONE else compress(compression, body)
    max_timestamp = max(record.timestamp for record in records)
    timestamps = (base_timestamp, max_timestamp)
    start = (base_offset, len(out) - LOG_OVERHEAD, leader_epoch, MAGIC, 0, attributes, len(records) - 1)
    HEADER.pack_into(out, 0, *start, *timestamps, *identity, len(records))
    _seal(out)
    return out


def varint(value: int) -> bytes:
    """Return a zigzag varint, of 32 or 64 bits."""
    rest = value << 1 if value >= 0 else ~(value << 1)
    if rest <= 0x7F:
        return _ONE_BYTE[rest]
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _append_record(out: bytearray, record: NewRecord | Record, offset_delta: int, base_timestamp: int) -> None:
    # The first byte is the attributes, which are unused.
    parts = [b"\0", varint(record.timestamp - base_timestamp), varint(offset_delta)]
    for each in (record.key, record.value):
        parts += (_NULL,) if each is None else (varint(len(each)), each)
    parts.append(varint(len(record.headers)))
    for key, value in record.headers:
        name = key.encode()
        parts += (varint(len(name)), name)
        parts += (_NULL,) if value is None else (varint(len(value)), value)
    body = b"".join(parts)
    out += varint(len(body))
    out += body


def renumber_batch(batch: memoryview) -> bytearray:
    """Return an uncompressed batch with its valid records numbered from 0 on."""
    data = bytes(batch)
    out = bytearray(data[:HEADER_SIZE])
    out += renumber(data, HEADER_SIZE, parse_header(data).record_count)
    out[LENGTH_POSITION:LOG_OVERHEAD] = (len(out) - LOG_OVERHEAD).to_bytes(4, "big")
    _seal(out)
    return out


def _seal(batch: bytearray) -> None:
    batch[CRC_POSITION : CRC_POSITION + 4] = checksum(batch).to_bytes(4, "big")
