"""The codecs of record batches: gzip, snappy in the framing of snappy-java, lz4 frames, zstd.

Owns: compressing a batch's records as Kafka's clients do, and decompressing them in pieces of bounded size, whatever
sizes the data announces. Must not know: what the records are. Counterpart in Kafka: `org.apache.kafka.common.compress`.
"""

import zlib
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any, Final

import lz4.frame
import snappy
import zstandard

Buffer = bytes | bytearray | memoryview

PIECE: Final = 1 << 20

_GZIP_LEVEL = -1
_LZ4_LEVEL = 9
_ZSTD_LEVEL = 3

_GZIP_WBITS = 31
_GZIP_MEMBER = b"\x1f\x8b\x08"
_GZIP_INPUT = 1 << 16

_SNAPPY_MAGIC = b"\x82SNAPPY\0"
_SNAPPY_HEADER = _SNAPPY_MAGIC + b"\0\0\0\1\0\0\0\1"
_SNAPPY_BLOCK = 1 << 15
# Snappy's densest element is a copy of 64 bytes in 3: a block that announces more is a lie.
_SNAPPY_MAX_RATIO = 22

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
# Version 1 and independent blocks, without a dictionary: Kafka's clients read nothing else.
_LZ4_FLAGS_MASK = 0xE3
_LZ4_FLAGS = 0x60

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"
_ZSTD_MAX_WINDOW = 1 << 27
_ZSTD_RLE = 1


class Compression(IntEnum):
    """The codec ids in the low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class DecompressionError(Exception):
    """The data is not what its codec writes."""


def compress(codec: Compression, data: Buffer, level: int | None = None) -> bytes:
    """All of `data` as Kafka's Java client would frame it."""
    return b"".join(compress_pieces(codec, (data,), level, len(data)))


def compress_pieces(
    codec: Compression, pieces: Iterable[Buffer], level: int | None = None, size: int = -1
) -> Iterator[Buffer]:
    """The same of data in pieces. `size` is that of all of them, if it is known: zstd then takes less memory and time.

    Levels are those of Kafka's configuration; None is the default.
    """
    stream: Any
    if codec is Compression.GZIP:
        stream = zlib.compressobj(_GZIP_LEVEL if level is None else level, wbits=_GZIP_WBITS)
    elif codec is Compression.LZ4:
        # Kafka leaves the fast compressor for a more thorough one at every level but its default.
        lz4_level = 0 if level in (None, _LZ4_LEVEL) else max(level or 0, lz4.frame.COMPRESSIONLEVEL_MINHC)
        stream = lz4.frame.LZ4FrameCompressor(
            block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, compression_level=lz4_level
        )
        yield stream.begin()
    elif codec is Compression.ZSTD:
        # A new one each time: a compressor shared by threads crashes the process.
        zstd_level = _ZSTD_LEVEL if level is None else level
        stream = zstandard.ZstdCompressor(level=zstd_level).compressobj(size=size)
    else:
        yield from pieces if codec is Compression.NONE else _snappy_compressed(pieces)
        return
    for piece in pieces:
        yield stream.compress(piece)
    yield stream.flush()


def decompress_pieces(codec: Compression, data: Buffer, piece: int = PIECE) -> Iterator[bytes]:
    """The decompressed data in non-empty pieces of about `piece` bytes at most. DecompressionError where it is wrong.

    Memory stays bounded however far the data expands: by the piece, by the window of zstd (128 MiB at most, as in
    Kafka) and for snappy, whose blocks are indivisible, by 22 times the data.
    """
    if codec is Compression.GZIP:
        return _gzip_pieces(memoryview(data), piece)
    if codec is Compression.SNAPPY:
        return _snappy_pieces(memoryview(data), piece)
    if codec is Compression.LZ4:
        return _lz4_pieces(memoryview(data), piece)
    if codec is Compression.ZSTD:
        return _zstd_pieces(memoryview(data), piece)
    return iter((bytes(data),) if len(data) else ())


def _gzip_pieces(data: memoryview, piece: int) -> Iterator[bytes]:
    inflate = zlib.decompressobj(_GZIP_WBITS)
    position = 0
    pending: Buffer = b""
    while True:
        if not pending:
            # In slices, since a member's end hands back a copy of all input behind it.
            pending = data[position : position + _GZIP_INPUT]
            position += len(pending)
        fed = len(pending)
        try:
            out = inflate.decompress(pending, piece)
        except zlib.error as error:
            raise DecompressionError(str(error)) from None
        if out:
            yield out
        pending = inflate.unconsumed_tail
        if inflate.eof:
            following = inflate.unused_data
            if bytes((*following[:3], *data[position : position + 3]))[:3] != _GZIP_MEMBER:
                return  # what follows and is no member is left alone, as Java's GZIPInputStream does
            inflate = zlib.decompressobj(_GZIP_WBITS)
            pending = following
        elif not out and not fed:
            raise DecompressionError("The gzip stream ends too early")


def _snappy_compressed(pieces: Iterable[Buffer]) -> Iterator[bytes]:
    yield _SNAPPY_HEADER
    for piece in pieces:
        for start in range(0, len(piece), _SNAPPY_BLOCK):
            block = snappy.compress(bytes(piece[start : start + _SNAPPY_BLOCK]))
            yield len(block).to_bytes(4, "big")
            yield block


def _snappy_pieces(data: memoryview, piece: int) -> Iterator[bytes]:
    """Blocks are put together to pieces: a million blocks of a byte each must not make a million pieces."""
    gathered: list[bytes] = []
    size = 0
    for block in _snappy_blocks(data):
        plain = _snappy_uncompress(block)
        if gathered and size + len(plain) > piece:
            yield b"".join(gathered)
            gathered.clear()
            size = 0
        if plain:
            gathered.append(plain)
            size += len(plain)
    if gathered:
        yield b"".join(gathered)


def _snappy_blocks(data: memoryview) -> Iterator[memoryview]:
    """The blocks of snappy-java's framing; data without its header is one block."""
    if len(data) < len(_SNAPPY_HEADER) or data[: len(_SNAPPY_MAGIC)] != _SNAPPY_MAGIC:
        if len(data):
            yield data
        return
    position = len(_SNAPPY_HEADER)
    while len(data) - position >= 4:
        if data[position : position + len(_SNAPPY_MAGIC)] == _SNAPPY_MAGIC:
            position += len(_SNAPPY_HEADER)  # streams may be concatenated
            continue
        size = int.from_bytes(data[position : position + 4], "big")
        position += 4
        if size > len(data) - position:
            raise DecompressionError(f"A snappy block announces {size} bytes of the {len(data) - position} left")
        yield data[position : position + size]
        position += size


def _snappy_uncompress(block: memoryview) -> bytes:
    announced = 0
    for index, byte in enumerate(block[:5]):
        announced |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            break
    if announced > _SNAPPY_MAX_RATIO * len(block):
        raise DecompressionError(f"{len(block)} bytes of snappy cannot hold {announced}")
    try:
        plain: bytes = snappy.uncompress(bytes(block))
    except snappy.UncompressError as error:
        raise DecompressionError("Malformed snappy block") from error
    return plain


def _lz4_pieces(data: memoryview, piece: int) -> Iterator[bytes]:
    if len(data) < 7 or data[:4] != _LZ4_MAGIC or data[4] & _LZ4_FLAGS_MASK != _LZ4_FLAGS:
        raise DecompressionError("Not an lz4 frame of independent blocks")
    decompressor = lz4.frame.LZ4FrameDecompressor()
    fed: Buffer = data
    while not decompressor.eof:
        try:
            out = decompressor.decompress(fed, max_length=piece)
        except RuntimeError as error:
            raise DecompressionError(str(error)) from None
        fed = b""
        if out:
            yield out
        elif not decompressor.eof:
            raise DecompressionError("The lz4 frame ends too early")


def _zstd_pieces(data: memoryview, piece: int) -> Iterator[bytes]:
    if not _zstd_is_whole(data):
        raise DecompressionError("Not a sequence of whole zstd frames")
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW)
    with decompressor.stream_reader(data, read_across_frames=True) as reader:
        while True:
            try:
                out = reader.read(piece)
            except zstandard.ZstdError as error:
                raise DecompressionError(str(error)) from None
            if not out:
                return
            yield out


def _zstd_is_whole(data: memoryview) -> bool:
    """Whether frames follow each other to the last byte. The library takes any end of its input for a frame's end."""
    position = 0
    while position < len(data):
        if data[position : position + 4] == _ZSTD_MAGIC:
            position = _zstd_frame_end(data, position)
        elif data[position + 1 : position + 4] == _ZSTD_SKIPPABLE and data[position] >> 4 == 5:
            position += 8 + int.from_bytes(data[position + 4 : position + 8], "little")
        else:
            return False
    return position == len(data) > 0


def _zstd_frame_end(data: memoryview, position: int) -> int:
    """The position behind the frame at `position`, beyond the data if the frame is not whole."""
    beyond = len(data) + 1
    try:
        header = data[position : position + 18]
        position += zstandard.frame_header_size(header)
        has_checksum = zstandard.get_frame_parameters(header).has_checksum
    except zstandard.ZstdError:
        return beyond
    while position + 3 <= len(data):
        block = data[position] | data[position + 1] << 8 | data[position + 2] << 16
        position += 3 + (1 if block >> 1 & 3 == _ZSTD_RLE else block >> 3)
        if block & 1:
            return position + 4 if has_checksum else position
    return beyond
