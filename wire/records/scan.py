"""The walk over the records of a batch, which checks each record and collects a broker's findings.

Owns the layout of a checked record. Must not know batches, codecs, nor a broker's use of the findings.
Counterpart in Kafka: `DefaultRecord.readFrom` and `readPartiallyFrom`, as LogValidator calls them.

This is the hot loop of the wire. mypyc compiles it (`ottla.native`), so it uses only native integers and indexing of
`bytes`. Plain Python runs the same code, 60 times slower.
"""

from collections.abc import Iterator
from typing import Final

from mypy_extensions import i64, mypyc_attr

# A record up to this size that reaches beyond its piece is carried over to the next one; a larger one is skimmed.
CARRIED: Final = 1 << 20
MAX_VARINT32: Final = 5
MAX_VARINT64: Final = 10
# Attributes, timestamp delta, offset delta and size of the key take at most this.
MAX_PREFIX: Final = 21


def read_varint(data: bytes, position: i64, end: i64) -> tuple[i64, i64]:
    """Return a zigzag varint of 32 bits and the position behind it. ValueError: it does not end before `end`."""
    if position < end:
        byte: i64 = data[position]
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), position + 1
    raw: i64 = 0
    shift: i64 = 0
    while position < end and shift < 7 * MAX_VARINT32:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw &= 0xFFFFFFFF
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7
    raise ValueError("A varint does not end")


def read_varlong(data: bytes, position: i64, end: i64) -> tuple[i64, i64]:
    """Return a zigzag varint of 64 bits and the position behind it. ValueError: it does not end before `end`."""
    low: i64 = 0
    high: i64 = 0
    shift: i64 = 0
    while position < end and shift < 7 * MAX_VARINT64:
        byte: i64 = data[position]
        position += 1
        # Bit 63 is separate, because `low` is signed.
        if shift == 63:
            high = byte & 1
        else:
            low |= (byte & 0x7F) << shift
        if byte < 0x80:
            return ((low >> 1) | (high << 62)) ^ -(low & 1), position
        shift += 7
    raise ValueError("A varint does not end")


@mypyc_attr(allow_interpreted_subclasses=False)
class RecordScan:
    """The findings of a walk over the records of a batch."""

    def __init__(self, count: i64, compacted: bool, untimed_delta: i64, lowest_delta: i64, highest_delta: i64) -> None:
        """`untimed_delta`: the timestamp delta of a record without timestamp; a timely delta is within the others."""
        self.count = count
        self.compacted = compacted
        self.untimed_delta = untimed_delta
        self.lowest_delta = lowest_delta
        self.highest_delta = highest_delta
        self.seen: i64 = 0
        self.in_order = True
        self.is_timed = False
        self.max_delta: i64 = 0
        self.keyless: list[int] = []
        self.untimely: list[tuple[int, int]] = []

    def walk(self, data: bytes, position: i64, end: i64) -> i64:
        """Check the records that end before `end`; return the position behind the last of them.

        ValueError: a record is malformed.
        """
        while self.seen < self.count:
            if end - position < MAX_VARINT32 and not has_whole_varint(data, position, end):
                return position
            length, start = read_varint(data, position, end)
            record_end = start + length
            if length < 0:
                raise ValueError(f"A record of {length} bytes")
            if record_end > end:
                return position
            at = self.note(data, start, record_end)
            value_size, at = read_varint(data, at, record_end)
            if value_size > 0:
                at += value_size
            if at < record_end and data[at] == 0:
                at += 1
            else:
                at = skip_headers(data, at, record_end)
            if at != record_end:
                raise ValueError(f"A record of {length} bytes whose fields take {at - start}")
            position = record_end
        return position

    def note(self, data: bytes, position: i64, end: i64) -> i64:
        """Check a record's attributes, deltas and key; return the position behind the key, maybe beyond `end`."""
        timestamp_delta, position = read_varlong(data, position + 1, end)
        offset_delta, position = read_varint(data, position, end)
        key_size, position = read_varint(data, position, end)
        if offset_delta != self.seen:
            self.in_order = False
        if key_size < 0 and self.compacted:
            self.keyless.append(self.seen)
        elif timestamp_delta != self.untimed_delta:
            if timestamp_delta < self.lowest_delta or timestamp_delta > self.highest_delta:
                self.untimely.append((self.seen, timestamp_delta))
            if not self.is_timed or timestamp_delta > self.max_delta:
                self.max_delta = timestamp_delta
                self.is_timed = True
        self.seen += 1
        return position + key_size if key_size > 0 else position


def has_whole_varint(data: bytes, position: i64, end: i64) -> bool:
    """Return whether the varint at `position` ends before `end`."""
    while position < end:
        if data[position] < 0x80:
            return True
        position += 1
    return False


def skip_headers(data: bytes, position: i64, end: i64) -> i64:
    """Return the position behind a record's headers."""
    count, position = read_varint(data, position, end)
    if count < 0:
        raise ValueError(f"{count} headers")
    while count > 0:
        key_size, position = read_varint(data, position, end)
        if key_size < 0:
            raise ValueError(f"A header key of {key_size} bytes")
        value_size, position = read_varint(data, position + key_size, end)
        if value_size > 0:
            position += value_size
        count -= 1
    return position


def record_spans(data: bytes, position: i64, end: i64, count: i64) -> list[tuple[int, int, int, int, int, int, bool]]:
    """Return the positions of the records of a decompressed batch, without reading their values.

    For each: start, end, timestamp delta, offset delta, start and end of the key (end -1: no key), and whether it has a
    value. ValueError: a record is malformed, or the last one does not end at `end`.
    """
    spans: list[tuple[int, int, int, int, int, int, bool]] = []
    while count > 0:
        start = position
        length, position = read_varint(data, position, end)
        record_end = position + length
        if length < 0 or record_end > end:
            raise ValueError(f"A record of {length} bytes")
        timestamp_delta, position = read_varlong(data, position + 1, record_end)
        offset_delta, position = read_varint(data, position, record_end)
        key_size, key_start = read_varint(data, position, record_end)
        key_end = key_start + key_size if key_size > 0 else key_start
        value_size, position = read_varint(data, key_end, record_end)
        if value_size > 0:
            position += value_size
        if skip_headers(data, position, record_end) != record_end:
            raise ValueError(f"A record of {length} bytes whose fields end elsewhere")
        has_value = value_size >= 0
        if key_size < 0:
            key_end = -1
        spans.append((start, record_end, timestamp_delta, offset_delta, key_start, key_end, has_value))
        position = record_end
        count -= 1
    if position != end:
        raise ValueError("Bytes are left behind the last record")
    return spans


def renumber(data: bytes, position: i64, count: i64) -> bytearray:
    """Return valid uncompressed records, numbered from 0 on."""
    out = bytearray()
    number: i64 = 0
    while number < count:
        length, start = read_varint(data, position, len(data))
        _, delta_start = read_varlong(data, start + 1, len(data))
        _, delta_end = read_varint(data, delta_start, len(data))
        position = start + length
        before = data[start:delta_start]
        behind = data[delta_end:position]
        delta = unsigned_varint(number << 1)
        out += unsigned_varint((len(before) + len(delta) + len(behind)) << 1)
        out += before
        out += delta
        out += behind
        number += 1
    return out


def unsigned_varint(value: i64) -> bytes:
    """Return an unsigned varint: seven bits a byte, the lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def scan_pieces(scan: RecordScan, pieces: Iterator[bytes]) -> None:
    """Walk the records of a decompressed batch, with bounded memory whatever their size.

    ValueError: a record is malformed, or their number is not `scan.count`.
    """
    source = PieceReader(pieces)
    while scan.seen < scan.count:
        source.position = scan.walk(source.data, source.position, len(source.data))
        if scan.seen == scan.count:
            break
        if source.at_large_record():
            skim_record(scan, source)
        else:
            source.pull()
    if source.position < len(source.data) or len(next(pieces, b"")) > 0:
        raise ValueError("Bytes are left behind the last record")


class PieceReader:
    """Reads consecutive pieces of data; `data` holds the bytes that are not read yet."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.pieces = pieces
        self.data = b""
        self.position: i64 = 0
        self.dropped: i64 = 0
        """The number of bytes before `data`."""

    def pull(self) -> None:
        """Add the next piece to the unread bytes. ValueError: there is none."""
        piece = next(self.pieces, b"")
        if len(piece) == 0:
            raise ValueError("The records end too early")
        self.data = self.data[self.position :] + piece
        self.dropped += self.position
        self.position = 0

    def at_large_record(self) -> bool:
        """Return whether the record at `position` is larger than CARRIED."""
        end: i64 = len(self.data)
        if not has_whole_varint(self.data, self.position, end):
            return False
        length, _ = read_varint(self.data, self.position, end)
        return length > CARRIED

    def skip(self, count: i64) -> None:
        """Skip `count` bytes without keeping them."""
        while count > len(self.data) - self.position:
            count -= len(self.data) - self.position
            self.position = len(self.data)
            self.pull()
        if count > 0:
            self.position += count

    def take(self, count: i64) -> bytes:
        """Return the next `count` bytes."""
        parts: list[bytes] = []
        while count > len(self.data) - self.position:
            parts.append(self.data[self.position :])
            count -= len(self.data) - self.position
            self.position = len(self.data)
            self.pull()
        parts.append(self.data[self.position : self.position + count])
        self.position += count
        return b"".join(parts)

    def varint(self) -> i64:
        """Return the next varint of 32 bits."""
        while not has_whole_varint(self.data, self.position, len(self.data)):
            self.pull()
        value, self.position = read_varint(self.data, self.position, len(self.data))
        return value


def skim_record(scan: RecordScan, source: PieceReader) -> None:
    """Check a large record without keeping its key, value and headers."""
    length = source.varint()
    record_end = source.dropped + source.position + length
    while len(source.data) - source.position < MAX_PREFIX:
        source.pull()
    source.skip(scan.note(source.data, source.position, len(source.data)) - source.position)
    source.skip(source.varint())
    count = source.varint()
    if count < 0:
        raise ValueError(f"{count} headers")
    while count > 0:
        key_size = source.varint()
        if key_size < 0:
            raise ValueError(f"A header key of {key_size} bytes")
        source.skip(key_size)
        source.skip(source.varint())
        count -= 1
    if source.dropped + source.position != record_end:
        raise ValueError(f"A record of {length} bytes whose fields end elsewhere")
