"""Reading the records of a batch, for coordinators, compaction, tools and tests; brokers do not read them.

Owns the decoding of a batch into records. Must not know a broker's rules for produced batches.
Counterpart in Kafka: the iterators of `DefaultRecordBatch`, `ControlRecordType`, `EndTransactionMarker`.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ottla.wire.records.batch_header import HEADER_SIZE, BatchHeader, Buffer, CorruptBatch, TimestampType, parse_header
from ottla.wire.records.builder import CONTROL_KEY, MARKER_VALUE, ControlType, Record
from ottla.wire.records.compression import DecompressionError, decompress_pieces
from ottla.wire.records.scan import PieceReader, RecordScan, read_varint, read_varlong, scan_pieces


class EndTransactionMarker(NamedTuple):
    """The content of a control batch that ends a transaction."""

    control_type: ControlType
    coordinator_epoch: int


def iter_records(batch: Buffer) -> Iterator[Record]:
    """Return the records of a whole batch, one in memory at a time. CorruptBatch: the next one is malformed."""
    header = parse_header(batch)
    append_time = header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    source = PieceReader(decompress_pieces(header.compression, memoryview(batch)[HEADER_SIZE : header.size]))
    try:
        for _ in range(header.record_count):
            record = _read_record(source.take(max(0, source.varint())), header)
            yield record if append_time is None else record._replace(timestamp=append_time)
    except (ValueError, DecompressionError) as error:
        raise CorruptBatch(str(error)) from None


def check_records(batch: Buffer) -> None:
    """Raise CorruptBatch if the records of a whole batch are malformed, or contradict its header."""
    header = parse_header(batch)
    if header.last_offset_delta < 0 or not 0 <= header.record_count <= header.last_offset_delta + 1:
        raise CorruptBatch(f"{header.record_count} records where {header.last_offset_delta + 1} offsets are")
    scan = RecordScan(header.record_count, False, 0, -(2**63), 2**63 - 1)
    try:
        scan_pieces(scan, decompress_pieces(header.compression, memoryview(batch)[HEADER_SIZE : header.size]))
    except (ValueError, DecompressionError) as error:
        raise CorruptBatch(str(error)) from None
    if scan.in_order:
        return
    lowest = header.base_offset  # compaction leaves gaps
    for record in iter_records(batch):
        if not lowest <= record.offset <= header.last_offset:
            raise CorruptBatch(f"A record has offset {record.offset}, not {lowest} to {header.last_offset}")
        lowest = record.offset + 1


def _read_record(data: bytes, batch: BatchHeader) -> Record:
    end = len(data)
    timestamp_delta, position = read_varlong(data, 1, end)
    offset_delta, position = read_varint(data, position, end)
    key, position = _read_bytes(data, position)
    value, position = _read_bytes(data, position)
    count, position = read_varint(data, position, end)
    headers = []
    for _ in range(count):
        header_key, position = _read_bytes(data, position)
        if header_key is None:
            raise ValueError("A header without key")
        header_value, position = _read_bytes(data, position)
        headers.append((header_key.decode(errors="replace"), header_value))
    if position != end or count < 0:
        raise ValueError(f"A record of {end} bytes whose fields take {position}")
    return Record(batch.base_offset + offset_delta, batch.base_timestamp + timestamp_delta, key, value, tuple(headers))


def _read_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = read_varint(data, position, len(data))
    if size < 0:
        return None, position
    if size > len(data) - position:
        raise ValueError(f"{size} bytes where {len(data) - position} are left")
    return data[position : position + size], position + size


def control_type(batch: Buffer) -> ControlType:
    """Return the type of a control batch; UNKNOWN for a later version's type."""
    return _control_type(_only_record(batch))


def end_transaction_marker(batch: Buffer) -> EndTransactionMarker:
    """Return the marker in a control batch. CorruptBatch: it does not end a transaction."""
    record = _only_record(batch)
    kind = _control_type(record)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        raise CorruptBatch(f"{kind.name} does not end a transaction")
    if record.value is None or len(record.value) < MARKER_VALUE.size:
        raise CorruptBatch("The value of a transaction marker is too short")
    version, coordinator_epoch = MARKER_VALUE.unpack_from(record.value)
    if version < 0:
        raise CorruptBatch(f"Invalid version found for end transaction marker: {version}")
    return EndTransactionMarker(kind, coordinator_epoch)


def _only_record(batch: Buffer) -> Record:
    for record in iter_records(batch):
        return record
    raise CorruptBatch("A control batch without record")


def _control_type(record: Record) -> ControlType:
    if record.key is None or len(record.key) < CONTROL_KEY.size:
        raise CorruptBatch("The key of a control record is too short")
    version, number = CONTROL_KEY.unpack_from(record.key)
    if version < 0:
        raise CorruptBatch(f"Invalid version found for control record: {version}")
    return ControlType(number) if ControlType.ABORT <= number <= ControlType.KRAFT_VOTERS else ControlType.UNKNOWN
