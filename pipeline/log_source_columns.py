"""From the records of batches to columns: where each key, value and header lies, and what numbers a record has.

Owns the walk over records, and the form of what it leaves: the bytes that were walked over, and arrays of positions in
them. Must not know files, nor what is made of the columns. Counterpart in Kafka: none.

A hot loop, compiled where a compiler is (`ottla.native`): nothing is made of a record but numbers in these arrays.
"""

from typing import Final

from librt.strings import BytesWriter, write_i32_le, write_i64_le
from mypy_extensions import i32, i64, mypyc_attr, u8

from ottla.wire.records.batch_header import BatchHeader, TimestampType
from ottla.wire.records.scan import has_whole_varint, read_varint, read_varlong

NO_KEY: Final = 1
NO_VALUE: Final = 2
NO_HEADERS: Final = 4
LOG_APPEND_TIME: Final = 8
# Positions are 32 bits wide.
MOST_BYTES: Final = (1 << 31) - 1


@mypyc_attr(allow_interpreted_subclasses=False)
class Columns:
    """Records of consecutive batches, those with offsets from `start` on and before `end`.

    All positions are in `data()`. Of each record there are four: start and end of the key, then of the value; of each
    header as well. What is null begins where it ends, and has its bit in `flags` or `header_flags`.
    """

    def __init__(self, start: i64, end: i64) -> None:
        self.start = start
        self.end = end
        self.rows: i64 = 0
        self.size: i64 = 0
        """Bytes that were walked over."""
        self._pieces: list[bytes] = []
        self.offsets = BytesWriter()
        self.timestamps = BytesWriter()
        """In milliseconds."""
        self.spans = BytesWriter()
        self.flags = BytesWriter()
        self.headers: i64 = 0
        self.header_ends = BytesWriter()
        """Of each record, how many headers there are up to its last one."""
        self.header_spans = BytesWriter()
        self.header_flags = BytesWriter()

    def data(self) -> bytes:
        """All that positions point into."""
        return b"".join(self._pieces)

    def fits(self, size: i64) -> bool:
        """Whether so many bytes more can be pointed into."""
        return self.size + size <= MOST_BYTES

    def take(self, data: bytes, batch: "BatchWalk") -> i64:
        """Walk over the records of a batch that lie wholly in `data`; the position behind the last of them.

        ValueError if one is malformed.
        """
        position: i64 = 0
        size: i64 = len(data)
        base = self.size
        rows = self.rows
        batch.wanted = 0
        while batch.left > 0:
            # The length takes five bytes at most.
            if size - position < 5 and not has_whole_varint(data, position, size):
                break
            length, start = read_varint(data, position, size)
            if length < 0:
                raise ValueError(f"A record of {length} bytes")
            if start + length > size:
                batch.wanted = start + length - position
                break
            position = start + length
            self._take_record(data, start, position, base, batch)
            batch.left -= 1
        if self.rows > rows:
            self._pieces.append(data)
            self.size = base + size
        return position

    def _take_record(self, data: bytes, at: i64, end: i64, base: i64, batch: "BatchWalk") -> None:
        timestamp_delta, at = read_varlong(data, at + 1, end)
        offset_delta, at = read_varint(data, at, end)
        flags: u8 = batch.flags
        key_size, key_start = read_varint(data, at, end)
        if key_size < 0:
            key_size = 0
            flags |= NO_KEY
        value_size, value_start = read_varint(data, key_start + key_size, end)
        if value_size < 0:
            value_size = 0
            flags |= NO_VALUE
        count, at = read_varint(data, value_start + value_size, end)
        offset = batch.base_offset + offset_delta
        if offset_delta < batch.lowest_delta or offset_delta > batch.last_delta:
            raise ValueError(f"No record can have offset {offset} there")
        batch.lowest_delta = offset_delta + 1
        is_wanted = self.start <= offset < self.end
        if count > 0:
            at = self._take_headers(data, at, end, count, base if is_wanted else -1)
        else:
            flags |= NO_HEADERS
        if at != end or count < 0:
            raise ValueError(f"A record at offset {offset} whose fields end elsewhere")
        if not is_wanted:
            return
        write_i64_le(self.offsets, offset)
        write_i64_le(
            self.timestamps, batch.base_timestamp + timestamp_delta if batch.is_create_time else batch.max_timestamp
        )
        spans = self.spans
        write_i32_le(spans, i32(base + key_start))
        write_i32_le(spans, i32(base + key_start + key_size))
        write_i32_le(spans, i32(base + value_start))
        write_i32_le(spans, i32(base + value_start + value_size))
        self.flags.append(flags)
        write_i32_le(self.header_ends, i32(self.headers))
        self.rows += 1

    def _take_headers(self, data: bytes, at: i64, end: i64, count: i64, base: i64) -> i64:
        """The position behind `count` headers, which are noted unless `base` is -1."""
        while count > 0:
            key_size, key_start = read_varint(data, at, end)
            if key_size < 0:
                raise ValueError("A header without key")
            value_size, value_start = read_varint(data, key_start + key_size, end)
            flags: u8 = 0
            if value_size < 0:
                value_size = 0
                flags = NO_VALUE
            at = value_start + value_size
            if at > end:
                raise ValueError("A header that goes beyond its record")
            if base >= 0:
                spans = self.header_spans
                write_i32_le(spans, i32(base + key_start))
                write_i32_le(spans, i32(base + key_start + key_size))
                write_i32_le(spans, i32(base + value_start))
                write_i32_le(spans, i32(base + value_start + value_size))
                self.header_flags.append(flags)
                self.headers += 1
            count -= 1
        return at


@mypyc_attr(allow_interpreted_subclasses=False)
class BatchWalk:
    """What the header of a batch says, and how far the walk over its records has come."""

    def __init__(self, header: BatchHeader) -> None:
        self.base_offset: i64 = header.base_offset
        self.lowest_delta: i64 = 0
        """Of offsets, which rise."""
        self.last_delta: i64 = header.last_offset_delta
        self.base_timestamp: i64 = header.base_timestamp
        self.max_timestamp: i64 = header.max_timestamp
        self.is_create_time = header.timestamp_type is TimestampType.CREATE_TIME
        self.flags: u8 = 0 if self.is_create_time else LOG_APPEND_TIME
        self.left: i64 = header.record_count
        self.wanted: i64 = 0
        """How many bytes the next record takes, of which the last ones were missing; 0 if that is not known."""
