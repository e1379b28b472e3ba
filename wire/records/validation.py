"""The validation of produced records: one batch that may be appended, with its timestamps settled.

Owns the reasons for which a leader refuses records, and its corrections of a batch. Must not know the partition's role,
transactions, nor the log, which checks sequence numbers. Counterpart in Kafka: `ProduceRequest.validateRecords`,
`UnifiedLog.analyzeAndValidateRecords`, `LogValidator`.

Differences from Kafka:
- INVALID_RECORD where Kafka fails without a proper error: for no records, an unknown codec, malformed compressed data,
  and compressed records that are not numbered from 0 on.
- Uncompressed records that are not numbered from 0 on are renumbered, as by Kafka. A batch of more than _INLINE_RECORDS
  is refused instead, because renumbering blocks the loop.
- Compressed records with contradictory lengths are refused. Kafka stores them, and consumers stop at them.
- A timestamp beyond 64 bits is out of range. Kafka wraps it around.
"""

from collections.abc import Iterator
from itertools import islice
from struct import Struct
from types import FunctionType
from typing import NamedTuple

from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.records.batch_header import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_POSITION,
    HEADER_SIZE,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    MAX_TIMESTAMP_POSITION,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    BatchHeader,
    CorruptBatch,
    TimestampType,
    checksum,
    crc_is_valid,
    parse_header,
)
from ottla.wire.records.builder import renumber_batch
from ottla.wire.records.compression import Compression, DecompressionError, decompress_pieces
from ottla.wire.records.scan import RecordScan, scan_pieces

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_UINT32 = Struct(">I")
_INT64 = Struct(">q")
_MIN_INT64 = -(2**63)
_MAX_INT64 = 2**63 - 1

_SMALLEST_LENGTH = 14
"""The smallest length of a batch of any magic. Kafka checks it first."""
_ZSTD_PRODUCE_VERSION = 7
_KNOWN_ATTRIBUTES = 0x7F
_MAX_RECORD_ERRORS = 100
"""The most errors in a response, because a hostile batch has a hundred thousand of them."""

# Plain Python functions have this type; the walk is 60 times slower in plain Python.
_SCAN_IS_COMPILED = not isinstance(scan_pieces, FunctionType)
_INLINE_BYTES = 1 << 16
_INLINE_PIECE = 1 << 17
_INLINE_RECORDS = 1000


class RecordRules(NamedTuple):
    """A topic's configuration of its records; built once for each configuration."""

    compacted: bool
    timestamp_type: TimestampType
    before_max_ms: int
    after_max_ms: int
    max_message_bytes: int
    compression: Compression | None = None
    """The codec of stored batches. None: the producer's codec."""
    compression_level: int | None = None


class ProducedBatch:
    """A valid batch with settled timestamps; base offset and leader epoch are not assigned yet."""

    __slots__ = ("data", "header", "max_timestamp")

    def __init__(self, header: BatchHeader, data: memoryview, max_timestamp: int) -> None:
        self.header = header
        self.data = data
        """The writable bytes of the batch, with nothing behind them."""
        self.max_timestamp = max_timestamp
        """The header's maximum; NO_TIMESTAMP if no record has a timestamp."""


class InvalidRecordsError(KafkaError):
    """Some records of a batch are invalid; `record_errors` has their indices and reasons, for the response."""

    def __init__(self, code: ErrorCode, detail: str, record_errors: list[tuple[int, str]]) -> None:
        super().__init__(code, detail)
        self.record_errors = record_errors


class UnreadableStartError(CorruptBatch):
    """No batch of any magic begins with these bytes."""


class NotOneBatchError(KafkaError):
    """A partition's records are not one batch of a magic and codec that the request's version allows."""


def validate_produced(
    records: memoryview | None, *, api_version: int, rules: RecordRules, now_ms: int
) -> ProducedBatch:
    """Return the only batch in a partition's `records`, ready to be appended. KafkaError: it is refused.

    LogAppendTime, and a wrong maximum timestamp, change the header in place.
    """
    header = _only_batch(records, api_version)
    assert records is not None
    size = LOG_OVERHEAD + header.batch_length
    data = records if len(records) == size else records[:size]
    _check_header(header, data, rules)
    scan = _scan(header, data, rules, now_ms)
    has_append_time = header.attributes & TIMESTAMP_TYPE_FLAG
    stamp_error = _stamp_error(header, rules, now_ms) if has_append_time else ""
    if scan.keyless or scan.untimely or stamp_error:
        raise _rejected(header, scan, stamp_error, rules, now_ms)
    max_timestamp = _settled_timestamp(header, scan, rules, now_ms)
    if not scan.in_order:
        if header.attributes & CODEC_MASK or header.record_count > _INLINE_RECORDS:
            raise _invalid("The records are not numbered from 0 on")
        data = memoryview(renumber_batch(data))
        header = parse_header(data)
    if header.max_timestamp != max_timestamp or header.timestamp_type is not rules.timestamp_type:
        header = _stamp(data, header, rules.timestamp_type, max_timestamp)
    return ProducedBatch(header, data, max_timestamp)


def check_start(records: memoryview) -> None:
    """Raise UnreadableStartError if no batch of any magic begins with these bytes."""
    _batch_size(records, 0)


def needs_offload(records: memoryview, piece: int = _INLINE_PIECE) -> bool:
    """Return whether validation may block for more than about a millisecond.

    It may if the records expand beyond `piece` bytes, however small they are.
    """
    if len(records) < HEADER_SIZE:
        return False
    if not _SCAN_IS_COMPILED and _INT32.unpack_from(records, HEADER_SIZE - 4)[0] > _INLINE_RECORDS:
        return True
    codec = records[ATTRIBUTES_POSITION + 1] & CODEC_MASK
    if codec == Compression.NONE or codec > Compression.ZSTD:
        return False
    if len(records) > _INLINE_BYTES:
        return True
    # The announced size cannot be trusted, so a part of the data is decompressed.
    pieces = decompress_pieces(Compression(codec), records[HEADER_SIZE:], piece)
    try:
        first = next(pieces, b"")
        return len(first) > piece or next(pieces, None) is not None
    except DecompressionError:
        return False


def _invalid(detail: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, detail)


def size_of_one_batch(records: memoryview | None, api_version: int) -> int:
    """Return the size of the only batch. NotOneBatchError or UnreadableStartError: there is not exactly one.

    An incomplete batch behind it is ignored, as by Kafka.
    """
    size = 0 if records is None else _batch_size(records, 0)
    if records is None or not size:
        detail = "Produce requests must have at least one record batch per partition"
        raise NotOneBatchError(ErrorCode.INVALID_RECORD, detail)
    if records[MAGIC_POSITION] != MAGIC:
        detail = "Produce requests are only allowed to contain record batches with magic version 2"
        raise NotOneBatchError(ErrorCode.INVALID_RECORD, detail)
    if records[ATTRIBUTES_POSITION + 1] & CODEC_MASK == Compression.ZSTD and api_version < _ZSTD_PRODUCE_VERSION:
        detail = f"Produce requests with version {api_version} are not allowed to use ZStandard compression"
        raise NotOneBatchError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, detail)
    if size < len(records) and _batch_size(records, size):
        detail = "Produce requests are only allowed to contain exactly one record batch per partition"
        raise NotOneBatchError(ErrorCode.INVALID_RECORD, detail)
    return size


def _only_batch(records: memoryview | None, api_version: int) -> BatchHeader:
    size = size_of_one_batch(records, api_version)
    assert records is not None
    if size < HEADER_SIZE:
        if any(records[:LENGTH_POSITION]):
            raise _invalid("The baseOffset of the record batch should be 0")
        raise CorruptBatch(f"A batch of {size} bytes is smaller than its header")
    return parse_header(records)


def _batch_size(records: memoryview, position: int) -> int:
    """Return the size of the whole batch of any magic at `position`, 0 if it is incomplete.

    UnreadableStartError: no batch begins with these bytes.
    """
    remaining = len(records) - position
    if remaining < LOG_OVERHEAD:
        return 0
    length: int = _INT32.unpack_from(records, position + LENGTH_POSITION)[0]
    if length < _SMALLEST_LENGTH:
        raise UnreadableStartError(
            f"Record size {length} is less than the minimum record overhead ({_SMALLEST_LENGTH})"
        )
    if remaining <= MAGIC_POSITION:
        return 0
    if records[position + MAGIC_POSITION] > MAGIC:
        raise UnreadableStartError(f"Invalid magic found in record: {records[position + MAGIC_POSITION]}")
    size = LOG_OVERHEAD + length
    return size if size <= remaining else 0


def _check_header(header: BatchHeader, data: memoryview, rules: RecordRules) -> None:
    """Raise the first error of a batch's header, in Kafka's order."""
    if header.base_offset != 0:
        raise _invalid(f"The baseOffset of the record batch should be 0, but it is {header.base_offset}")
    if len(data) > rules.max_message_bytes:
        detail = f"The record batch size is {len(data)} bytes, the maximum is {rules.max_message_bytes}."
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, detail)
    if not crc_is_valid(data):
        raise CorruptBatch(f"Record is corrupt (stored crc = {header.crc})")
    if header.attributes & CODEC_MASK > Compression.ZSTD:
        raise _invalid(f"Unknown compression type id: {header.attributes & CODEC_MASK}")
    if header.record_count <= 0 or header.last_offset_delta + 1 != header.record_count:
        detail = f"Inconsistent batch offset range [0, {header.last_offset_delta}] and count of records "
        raise _invalid(detail + str(header.record_count))
    if header.attributes & CONTROL_FLAG:
        raise _invalid("Clients are not allowed to write control records")
    if header.base_sequence < 0 <= header.producer_id:
        detail = f"Invalid sequence number {header.base_sequence} in record batch with producerId "
        raise _invalid(detail + str(header.producer_id))


def _scan(header: BatchHeader, data: memoryview, rules: RecordRules, now_ms: int) -> RecordScan:
    """Return the findings of a walk over all records. KafkaError: a record is malformed."""
    base = header.base_timestamp
    lowest, highest = _MIN_INT64, _MAX_INT64
    if rules.timestamp_type is TimestampType.CREATE_TIME and not header.attributes & TIMESTAMP_TYPE_FLAG:
        earliest, latest = _bounds(rules, now_ms)
        lowest = max(_MIN_INT64, min(_MAX_INT64, earliest - base))
        highest = max(_MIN_INT64, min(_MAX_INT64, latest - base))
    scan = RecordScan(header.record_count, rules.compacted, NO_TIMESTAMP - base, lowest, highest)
    codec = header.attributes & CODEC_MASK
    try:
        if codec:
            scan_pieces(scan, decompress_pieces(Compression(codec), data[HEADER_SIZE:]))
        else:
            raw = bytes(data)
            end = scan.walk(raw, HEADER_SIZE, len(raw))
            if end != len(raw) or scan.seen != header.record_count:
                raise _invalid("The batch does not hold as many records as it says")
    except (ValueError, DecompressionError) as error:
        raise _invalid(str(error)) from None
    return scan


def _bounds(rules: RecordRules, now_ms: int) -> tuple[int, int]:
    """Return the earliest and latest timestamp that a record may have."""
    earliest = _MIN_INT64 if rules.before_max_ms == _MAX_INT64 else now_ms - rules.before_max_ms
    latest = _MAX_INT64 if rules.after_max_ms == _MAX_INT64 else now_ms + rules.after_max_ms
    return earliest, latest


def _settled_timestamp(header: BatchHeader, scan: RecordScan, rules: RecordRules, now_ms: int) -> int:
    """Return the batch's maximum timestamp as it is stored."""
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return now_ms
    if header.attributes & TIMESTAMP_TYPE_FLAG:
        return max(NO_TIMESTAMP, header.max_timestamp)
    return max(NO_TIMESTAMP, header.base_timestamp + scan.max_delta) if scan.is_timed else NO_TIMESTAMP


def _stamp_error(header: BatchHeader, rules: RecordRules, now_ms: int) -> str:
    """Return the error of a batch to which the client itself gave LogAppendTime; empty if there is none."""
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME or header.max_timestamp == NO_TIMESTAMP:
        return "Producer should not set timestamp type to LogAppendTime."
    earliest, latest = _bounds(rules, now_ms)
    if earliest <= header.max_timestamp <= latest:
        return ""
    return _out_of_range(header.max_timestamp, rules, now_ms)


def _out_of_range(timestamp: int, rules: RecordRules, now_ms: int) -> str:
    earliest, latest = _bounds(rules, now_ms)
    return f"Timestamp {timestamp} is out of range. The timestamp should be within [{earliest}, {latest}]"


def _rejected(
    header: BatchHeader, scan: RecordScan, stamp_error: str, rules: RecordRules, now_ms: int
) -> InvalidRecordsError:
    """Return the error for a batch with invalid records. The timestamp of a record without key is not checked."""
    keyless = frozenset(scan.keyless)

    def reasons() -> Iterator[tuple[int, str]]:
        for index, delta in scan.untimely:
            yield index, _out_of_range(header.base_timestamp + delta, rules, now_ms)
        if stamp_error:
            yield from ((index, stamp_error) for index in range(header.record_count) if index not in keyless)
        for index in scan.keyless:
            yield index, "Compacted topic cannot accept message without key"

    errors = sorted(islice(reasons(), _MAX_RECORD_ERRORS))
    if scan.untimely or (stamp_error and len(keyless) < header.record_count):
        detail = "One or more records have been rejected due to invalid timestamp"
        return InvalidRecordsError(ErrorCode.INVALID_TIMESTAMP, detail, errors)
    detail = f"One or more records have been rejected due to {len(keyless)} record errors in total"
    return InvalidRecordsError(ErrorCode.INVALID_RECORD, detail, errors)


def _stamp(data: memoryview, header: BatchHeader, timestamp_type: TimestampType, max_timestamp: int) -> BatchHeader:
    """Write timestamp type, maximum timestamp and the new checksum into the batch; return its new header."""
    attributes = header.attributes & _KNOWN_ATTRIBUTES & ~TIMESTAMP_TYPE_FLAG
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= TIMESTAMP_TYPE_FLAG
    _INT16.pack_into(data, ATTRIBUTES_POSITION, attributes)
    _INT64.pack_into(data, MAX_TIMESTAMP_POSITION, max_timestamp)
    crc = checksum(data)
    _UINT32.pack_into(data, CRC_POSITION, crc)
    return header._replace(attributes=attributes, max_timestamp=max_timestamp, crc=crc)
