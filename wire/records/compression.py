"""The codecs of record batches: gzip, snappy in the framing of snappy-java, lz4 frames, zstd.

Owns compressing a batch's records as Kafka's clients do, and decompressing them in pieces of bounded size, whatever
sizes the data announces. Must not know the records. Counterpart in Kafka: `org.apache.kafka.common.compress`.
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
# Snappy's densest element is a copy of 64 bytes in 3, so no valid block announces more.
_SNAPPY_MAX_RATIO = 22

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
# Version 1 and independent blocks, without a dictionary, because Kafka's clients read nothing else.
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
    """The data is malformed for its codec."""


def compress(codec: Compression, data: Buffer) -> bytes:
    """Return `data` compressed and framed as Kafka's Java client does."""
    return b"".join(compress_pieces(codec, (data,), size=len(data)))


def compress_pieces(
    codec: Compression, pieces: Iterable[Buffer], level: int | None = None, size: int = -1
) -> Iterator[Buffer]:
    """Return `pieces` compressed as one. `size` is their total, if known, because zstd is faster with it.

    `level` is Kafka's for this codec; None is the default level.
    """
    stream: Any
    if codec is Compression.GZIP:
        stream = zlib.compressobj(_GZIP_LEVEL if level is None else level, wbits=_GZIP_WBITS)
    elif codec is Compression.LZ4:
        # Kafka uses LZ4's fast compressor at its default level, and the HC compressor at every other level.
        lz4_level = 0 if level in (None, _LZ4_LEVEL) else max(level or 0, lz4.frame.COMPRESSIONLEVEL_MINHC)
        stream = lz4.frame.LZ4FrameCompressor(
            block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, compression_level=lz4_level
        )
        yield stream.begin()
    elif codec is Compression.ZSTD:
        # A new compressor each time, because one that threads share crashes the process.
        zstd_level = _ZSTD_LEVEL if level is None else level
        stream = zstandard.ZstdCompressor(level=zstd_level).compressobj(size=size)
    else:
        yield from pieces if codec is Compression.NONE else _snappy_compressed(pieces)
        return
    for piece in pieces:
        yield stream.compress(piece)
    yield stream.flush()


def decompress_pieces(codec: Compression, data: Buffer, piece: int = PIECE) -> Iterator[bytes]:
    """Return the decompressed data in non-empty pieces of about `piece` bytes at most.

    Memory stays bounded however far the data expands: by `piece`, by zstd's window (_ZSTD_MAX_WINDOW, as in Kafka), and
    for snappy by _SNAPPY_MAX_RATIO times the data, because its blocks are indivisible.
    DecompressionError: the next piece is malformed.
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
            # In slices, because zlib copies all input behind the end of a member.
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
                return  # bytes behind the last member are ignored, as by Java's GZIPInputStream
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
    """Return the data with small blocks joined, because a million blocks of one byte must not be a million pieces."""
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
    """Return the blocks of snappy-java's framing; data without its header is one block."""
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
    """Return whether whole frames fill the data, because the library does not notice an incomplete last frame."""
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
    """Return the position behind the frame at `position`, beyond the data if the frame is incomplete."""
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
