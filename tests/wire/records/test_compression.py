"""Codecs: data comes back in bounded pieces, and malformed data is refused."""

import gzip
import random
import tracemalloc

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.records.compression import Compression, DecompressionError, compress, decompress_pieces

CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
codecs = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)


def decompressed(codec: Compression, data: bytes, piece: int = 1 << 20) -> bytes:
    return b"".join(decompress_pieces(codec, data, piece))


@given(st.sampled_from(Compression), st.binary(max_size=300), st.integers(0, 2000), st.integers(1, 100_000))
def test_data_comes_back_as_it_was(codec: Compression, seed: bytes, times: int, piece: int) -> None:
    data = seed * times
    assert decompressed(codec, compress(codec, data), piece) == data


@codecs
def test_no_piece_is_empty_or_larger_than_asked_for(codec: Compression) -> None:
    data = random.Random(1).randbytes(300_000) + bytes(3_000_000)
    pieces = list(decompress_pieces(codec, memoryview(compress(codec, data)), 100_000))
    assert b"".join(pieces) == data
    assert all(0 < len(piece) <= 100_000 for piece in pieces)


@codecs
def test_a_bomb_takes_little_memory(codec: Compression) -> None:
    bomb = compress(codec, bytes(100_000_000))
    tracemalloc.start()
    try:
        size = sum(len(piece) for piece in decompress_pieces(codec, bomb))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size == 100_000_000
    assert peak < 8_000_000


@codecs
def test_a_stream_cut_anywhere_never_gives_all_its_data(codec: Compression) -> None:
    data = b"some words, some more words, and again some words"
    whole = compress(codec, data)
    for length in range(len(whole)):
        try:
            got = decompressed(codec, whole[:length])
        except DecompressionError:
            continue
        assert len(got) < len(data), f"{length} of {len(whole)} bytes"


@codecs
def test_a_whole_stream_is_distinguished_from_one_without_its_end(codec: Compression) -> None:
    whole = compress(codec, b"v" * 200_000)
    with pytest.raises(DecompressionError):
        decompressed(codec, whole[:-1])


@codecs
@pytest.mark.trials(few=10, soak=50)
def test_random_bytes_are_refused(codec: Compression, trials: int, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(trials):
        junk = b"\xff" + chance.randbytes(chance.randrange(1, 200))
        with pytest.raises(DecompressionError):
            decompressed(codec, junk)


@codecs
@pytest.mark.trials(few=200, soak=1000)
def test_a_flipped_bit_raises_nothing_else(codec: Compression, trials: int, seed: int) -> None:
    chance = random.Random(seed)
    whole = compress(codec, chance.randbytes(100) * 50)
    for _ in range(trials):
        mutated = bytearray(whole)
        mutated[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        try:
            size = sum(len(piece) for piece in decompress_pieces(codec, mutated))
        except DecompressionError:
            continue
        assert size < 1_000_000


def test_empty_data_is_valid_only_for_codecs_that_allow_it() -> None:
    assert decompressed(Compression.NONE, b"") == b""
    assert decompressed(Compression.SNAPPY, b"") == b""
    for codec in (Compression.GZIP, Compression.LZ4, Compression.ZSTD):
        with pytest.raises(DecompressionError):
            decompressed(codec, b"")


def test_gzip_reads_several_members_and_ignores_other_bytes_behind_them() -> None:
    members = gzip.compress(b"one ") + gzip.compress(b"") + gzip.compress(b"two")
    assert decompressed(Compression.GZIP, members + b"trailing junk") == b"one two"


def test_fifty_thousand_gzip_members_are_read() -> None:
    assert decompressed(Compression.GZIP, gzip.compress(b"x") * 50_000) == b"x" * 50_000


def test_snappy_is_written_as_snappy_java_frames_it() -> None:
    framed = compress(Compression.SNAPPY, bytes(40_000))
    assert framed[:16] == b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
    size = int.from_bytes(framed[16:20], "big")
    assert snappy.uncompress(framed[20 : 20 + size]) == bytes(32_768)
    assert snappy.uncompress(framed[24 + size :]) == bytes(40_000 - 32_768)


def test_snappy_without_frame_and_concatenated_frames_are_read() -> None:
    assert decompressed(Compression.SNAPPY, snappy.compress(b"raw block")) == b"raw block"
    twice = compress(Compression.SNAPPY, b"one ") + compress(Compression.SNAPPY, b"two")
    assert decompressed(Compression.SNAPPY, twice) == b"one two"


def test_many_tiny_snappy_blocks_are_put_together() -> None:
    block = snappy.compress(b"x")
    framed = compress(Compression.SNAPPY, b"") + (len(block).to_bytes(4, "big") + block) * 10_000
    assert len(list(decompress_pieces(Compression.SNAPPY, framed))) == 1


@pytest.mark.parametrize("size", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\x05"])
def test_a_snappy_block_cannot_announce_more_bytes_than_follow(size: bytes) -> None:
    with pytest.raises(DecompressionError):
        decompressed(Compression.SNAPPY, compress(Compression.SNAPPY, b"") + size + b"\0\0\0\0")


@pytest.mark.parametrize(
    "preamble", [b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x10", b"\xff\xff\xff\xff\xff\xff", b"\x64"]
)
def test_a_snappy_block_cannot_announce_more_than_it_can_hold(preamble: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionError):
            decompressed(Compression.SNAPPY, preamble + b"\0a")
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_lz4_is_written_as_kafka_frames_it() -> None:
    framed = compress(Compression.LZ4, b"abc")
    assert framed[:6] == b"\x04\x22\x4d\x18\x60\x40"  # version 1, independent blocks of 64 KB, no checksums
    assert framed[-4:] == bytes(4)


def test_lz4_blocks_that_depend_on_each_other_are_refused_as_kafka_cannot_read_them() -> None:
    linked = lz4.frame.compress(bytes(200_000), block_linked=True)
    with pytest.raises(DecompressionError):
        decompressed(Compression.LZ4, linked)


def test_lz4_with_checksums_and_sizes_is_read() -> None:
    framed = lz4.frame.compress(b"abc" * 9, block_linked=False, content_checksum=True, block_checksum=True)
    assert decompressed(Compression.LZ4, framed) == b"abc" * 9


def test_zstd_reads_frames_of_all_shapes_one_after_the_other() -> None:
    frames = [
        zstandard.ZstdCompressor(write_checksum=True).compress(b"one "),
        zstandard.ZstdCompressor(write_content_size=False).compress(bytes(300_000)),
        b"\x51\x2a\x4d\x18\x03\0\0\0abc",  # skippable
        zstandard.ZstdCompressor(level=19).compress(b"two"),
    ]
    assert decompressed(Compression.ZSTD, b"".join(frames)) == b"one " + bytes(300_000) + b"two"
    with pytest.raises(DecompressionError):
        decompressed(Compression.ZSTD, b"".join(frames) + b"junk")
