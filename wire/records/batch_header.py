"""The header of a record batch (magic 2): reading it, iterating over batches, writing the fields that a leader assigns.

Owns the 61 bytes in front of the records, and the checksum. Must not know the records, nor a broker's rules for them.
Counterpart in Kafka: `DefaultRecordBatch`, `ByteBufferLogInputStream`.
"""

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.records.compression import Compression

LOG_OVERHEAD = 12
"""Base offset and length, which `batch_length` does not count."""
HEADER_SIZE = 61
LENGTH_POSITION = 8
MAGIC = 2
MAGIC_POSITION = 16
CRC_POSITION = 17
ATTRIBUTES_POSITION = 21
"""The checksum covers everything from here to the end of the batch."""
MAX_TIMESTAMP_POSITION = 35

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1

CODEC_MASK = 0x07
TIMESTAMP_TYPE_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

HEADER = Struct(">qiibIhiqqqhii")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_UINT32 = Struct(">I")
_MAX_SEQUENCE = 2**31 - 1

Buffer = bytes | bytearray | memoryview


class TimestampType(IntEnum):
    """The source of a batch's timestamps: its producer, or the broker that appended it."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class CorruptBatch(KafkaError):  # noqa: N818
    """Bytes that are no record batch, or a corrupt one."""

    def __init__(self, detail: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, detail)


class BatchHeader(NamedTuple):
    """The fields of a batch's header in their order on the wire. A tuple, because each batch needs one."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """The size of the whole batch in bytes."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        """The last offset, inclusive; a compacted batch may have no record at it."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The first offset behind the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> Compression:
        """The codec of the records. KafkaError: no codec has this id."""
        codec = self.attributes & CODEC_MASK
        if codec > Compression.ZSTD:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"Unknown compression type id: {codec}")
        return Compression(codec)

    @property
    def timestamp_type(self) -> TimestampType:
        """The source of `max_timestamp`. With LOG_APPEND_TIME it is the timestamp of every record."""
        return TimestampType.LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_FLAG else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch is a broker's marker."""
        return self.attributes & CONTROL_FLAG != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` is the time from which compaction may drop tombstones and markers."""
        return self.attributes & DELETE_HORIZON_FLAG != 0

    @property
    def has_producer_id(self) -> bool:
        """Whether the batch is of an idempotent producer, or a transaction's marker."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; sequences wrap to 0 behind 2^31 - 1."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


def increment_sequence(sequence: int, increment: int) -> int:
    """Return `sequence + increment`, wrapping to 0 behind 2^31 - 1."""
    return (sequence + increment) & _MAX_SEQUENCE


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header at `position`, even without records behind it. CorruptBatch: no batch of magic 2."""
    if len(buffer) - position < HEADER_SIZE:
        raise CorruptBatch(f"{len(buffer) - position} bytes hold no batch header")
    header = BatchHeader(*HEADER.unpack_from(buffer, position))
    if header.magic != MAGIC:
        raise CorruptBatch(f"Invalid magic found in record: {header.magic}")
    if header.batch_length < HEADER_SIZE - LOG_OVERHEAD:
        raise CorruptBatch(f"A batch of {header.batch_length} bytes is smaller than its header")
    return header


def iter_batches(buffer: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Return the whole batches in `buffer` with their bytes, without an incomplete last one."""
    position = 0
    end = len(buffer)
    while end - position >= HEADER_SIZE:
        header = parse_header(buffer, position)
        following = position + LOG_OVERHEAD + header.batch_length
        if following > end:
            return
        yield header, buffer[position:following]
        position = following


def checksum(batch: Buffer) -> int:
    """Return the CRC-32C that the header of a whole batch should have."""
    return crc32c(memoryview(batch)[ATTRIBUTES_POSITION:])


def crc_is_valid(batch: Buffer) -> bool:
    """Return whether the checksum of a whole batch, with nothing behind it, is right."""
    view = memoryview(batch)
    return bool(_UINT32.unpack_from(view, CRC_POSITION)[0] == crc32c(view[ATTRIBUTES_POSITION:]))


def place(batch: memoryview | bytearray, base_offset: int, leader_epoch: int) -> None:
    """Write base offset and leader epoch into the header; the checksum does not cover them."""
    _INT64.pack_into(batch, 0, base_offset)
    _INT32.pack_into(batch, LOG_OVERHEAD, leader_epoch)
