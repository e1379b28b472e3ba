import struct
import tracemalloc
from random import Random

import pytest

from ottla.wire.errors import DecodeError
from ottla.wire.framing import FrameBuffer

MAX_FRAME = 100 * 2**20


def receive(buffer: FrameBuffer, data: bytes) -> None:
    """Put `data` into the buffer as a socket would, in as many pieces as it takes."""
    rest = memoryview(data)
    while rest:
        room = buffer.writable()
        size = min(len(room), len(rest))
        assert size > 0
        room[:size] = rest[:size]
        buffer.wrote(size)
        rest = rest[size:]


def framed(*frames: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


def taken(buffer: FrameBuffer) -> list[bytes]:
    frames = []
    while buffer.has_frame():
        frame = buffer.next_frame()
        assert frame is not None
        frames.append(bytes(frame))
    assert buffer.next_frame() is None
    return frames


def test_frames_come_out_whole_and_without_their_size() -> None:
    buffer = FrameBuffer(MAX_FRAME)
    assert taken(buffer) == []
    receive(buffer, framed(b"one", b"two!") + b"\0\0")
    assert taken(buffer) == [b"one", b"two!"]
    receive(buffer, b"\0\x01x")
    assert taken(buffer) == [b"x"]


def test_a_frame_that_comes_byte_by_byte_is_whole_with_the_last() -> None:
    buffer = FrameBuffer(MAX_FRAME)
    data = framed(b"frame")
    for byte in data[:-1]:
        receive(buffer, bytes([byte]))
        assert not buffer.has_frame()
        assert buffer.next_frame() is None
    receive(buffer, data[-1:])
    assert taken(buffer) == [b"frame"]


def test_the_size_of_an_incomplete_frame_is_known_until_it_is_whole() -> None:
    buffer = FrameBuffer(5)
    seen = []
    for byte in framed(b"12345"):
        receive(buffer, bytes([byte]))
        seen.append(buffer.begun())
    assert seen == [0, 0, 0, 5, 5, 5, 5, 5, 0]
    buffer.next_frame()
    receive(buffer, struct.pack(">i", 6))
    assert buffer.begun() == 0


@pytest.mark.trials(few=10, soak=50)
def test_frames_are_whole_however_bytes_are_cut_and_views_are_kept(seed: int, trials: int) -> None:
    random = Random(seed)
    for _ in range(trials):
        buffer = FrameBuffer(MAX_FRAME)
        sizes = random.choices((1, 100, 4000, 70_000, 300_000), weights=(5, 5, 5, 2, 1), k=30)
        frames = [random.randbytes(size) for size in sizes]
        data = framed(*frames)
        kept: list[memoryview] = []
        got = []
        while data:
            cut = random.choice((1, 3, 1000, 50_000, 1_000_000))
            receive(buffer, data[:cut])
            data = data[cut:]
            while buffer.has_frame() and random.random() < 0.9:
                frame = buffer.next_frame()
                assert frame is not None
                got.append(bytes(frame))
                if random.random() < 0.5:
                    kept.append(frame)
            if random.random() < 0.3:
                kept.clear()
        assert got + taken(buffer) == frames


def test_a_view_that_is_kept_keeps_its_bytes() -> None:
    buffer = FrameBuffer(MAX_FRAME)
    kept = []
    for number in range(300):
        receive(buffer, framed(bytes([number % 256]) * 1000))
        kept.append(buffer.next_frame())
    assert [bytes(frame or b"") for frame in kept] == [bytes([number % 256]) * 1000 for number in range(300)]


def test_frames_are_views_that_can_be_written_to() -> None:
    buffer = FrameBuffer(MAX_FRAME)
    receive(buffer, framed(b"frame"))
    frame = buffer.next_frame()
    assert frame is not None
    frame[0:1] = b"F"
    assert bytes(frame) == b"Frame"


def test_a_buffer_without_views_is_used_again() -> None:
    buffer = FrameBuffer(MAX_FRAME)
    first = buffer.writable()
    owner = first.obj
    buffer.wrote(0)
    for _ in range(1000):
        receive(buffer, framed(b"x" * 1000))
        assert len(taken(buffer)) == 1
    assert buffer.writable().obj is owner


@pytest.mark.parametrize("size", [0, -1, -(2**31), 1001, 2**31 - 1])
def test_a_size_that_no_frame_may_have_is_refused(size: int) -> None:
    buffer = FrameBuffer(1000)
    receive(buffer, framed(b"good") + struct.pack(">i", size))
    assert buffer.next_frame() is not None
    assert buffer.has_frame()
    with pytest.raises(DecodeError, match=str(size)):
        buffer.next_frame()


def test_a_frame_of_the_largest_size_is_accepted() -> None:
    buffer = FrameBuffer(1000)
    receive(buffer, framed(b"x" * 1000))
    assert taken(buffer) == [b"x" * 1000]


def test_an_announced_frame_costs_no_memory_before_it_arrives() -> None:
    beginning = bytes(500_000)
    tracemalloc.start()
    try:
        buffer = FrameBuffer(MAX_FRAME)
        receive(buffer, struct.pack(">i", MAX_FRAME) + bytes(10))
        buffer.writable()
        buffer.wrote(0)
        assert tracemalloc.get_traced_memory()[1] < 200_000
        receive(buffer, beginning)
        assert tracemalloc.get_traced_memory()[1] < 4 * len(beginning)
    finally:
        tracemalloc.stop()


def test_a_large_buffer_goes_with_the_frame_that_needed_it() -> None:
    data = framed(bytes(5 * 2**20))
    tracemalloc.start()
    try:
        buffer = FrameBuffer(MAX_FRAME)
        receive(buffer, data)
        assert len(buffer.next_frame() or b"") == 5 * 2**20
        assert tracemalloc.get_traced_memory()[0] < 100_000
        receive(buffer, framed(b"next"))
        assert taken(buffer) == [b"next"]
    finally:
        tracemalloc.stop()


def test_frames_that_are_not_taken_do_not_stop_receiving() -> None:
    buffer = FrameBuffer(MAX_FRAME)
    frames = [bytes([number]) * 10_000 for number in range(50)]
    receive(buffer, framed(*frames))
    assert taken(buffer) == frames


def test_a_frame_that_begins_in_one_buffer_goes_on_in_another() -> None:
    first, second = FrameBuffer(MAX_FRAME), FrameBuffer(MAX_FRAME)
    frame = bytes(range(200)) * 100
    data = framed(b"whole", frame)
    receive(first, data[:100])
    view = first.next_frame()
    second.put(first.take_rest())
    assert not first.has_frame()
    receive(first, framed(b"of somebody else"))
    assert taken(first) == [b"of somebody else"]
    receive(second, data[100:])
    assert taken(second) == [frame]
    assert view is not None
    assert bytes(view) == b"whole"
