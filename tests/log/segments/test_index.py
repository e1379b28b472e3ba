from bisect import bisect_right
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.log.segments.index import OFFSET_ENTRY, CorruptIndexError, OffsetIndex, TimeIndex, TimestampOffset
from ottla.log.segments.open_files import OpenFiles

BASE = 1000


def _offset_index(directory: Path, max_bytes: int = 80_000) -> OffsetIndex:
    return OffsetIndex(OpenFiles(4), f"{directory}/00000000000000001000.index", BASE, max_bytes)


def _last_offset(index: OffsetIndex) -> int:
    return BASE + int(OFFSET_ENTRY.unpack(index.entry_bytes(index.entries - 1))[0]) if index.entries else BASE


def _time_index(directory: Path, max_bytes: int = 120_000) -> TimeIndex:
    return TimeIndex(OpenFiles(4), f"{directory}/00000000000000001000.timeindex", BASE, max_bytes)


@given(
    steps=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5000)), max_size=1500),
    probes=st.lists(st.integers(-5, 60_000), max_size=60),
    reopen=st.booleans(),
)
def test_a_lookup_gives_the_last_entry_not_above(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]], probes: list[int], reopen: bool
) -> None:
    index = _offset_index(tmp_path_factory.mktemp("index"))
    index.create()
    offsets, positions = [], [0]
    offset, position = BASE, 0
    for offset_step, position_step in steps:
        offset += offset_step
        position += position_step
        index.append(offset, position)
        offsets.append(offset)
        positions.append(position)
    if reopen:
        path = Path(index.path)
        index.trim()
        index.release()
        index = _offset_index(path.parent)
        index.load()
    assert index.entries == len(steps)
    assert _last_offset(index) == offset
    for probe in probes:
        assert index.position_for(BASE + probe) == positions[bisect_right(offsets, BASE + probe)]


def test_an_active_index_has_its_full_length_and_is_trimmed_later(tmp_path: Path) -> None:
    index = _offset_index(tmp_path, 8003)
    index.create()
    assert Path(index.path).stat().st_size == 8000
    for number in range(1, 1001):
        index.append(BASE + number, number * 10)
    index.append(BASE + 5000, 99_999)
    assert index.entries == index.max_entries == 1000
    index.trim()
    data = Path(index.path).read_bytes()
    assert data == b"".join(number.to_bytes(4, "big") + (number * 10).to_bytes(4, "big") for number in range(1, 1001))


@pytest.mark.parametrize("keep", [0, 1, 10, 511, 512, 513, 700, 1000])
def test_truncating_keeps_entries_below_and_zeroes_the_rest(tmp_path: Path, keep: int) -> None:
    index = _offset_index(tmp_path)
    index.create()
    for number in range(1, 1001):
        index.append(BASE + number * 3, number * 10)
    index.truncate_to(BASE + keep * 3 + 1)
    assert index.entries == keep
    assert _last_offset(index) == BASE + keep * 3
    assert index.position_for(BASE + 100_000) == keep * 10
    assert Path(index.path).stat().st_size == 80_000
    assert not any(Path(index.path).read_bytes()[keep * 8 :])
    index.append(BASE + 9000, 77_777)
    assert index.position_for(BASE + 9000) == 77_777


def test_truncating_at_an_entry_drops_it(tmp_path: Path) -> None:
    index = _offset_index(tmp_path)
    index.create()
    index.append(BASE + 3, 10)
    index.append(BASE + 6, 20)
    index.truncate_to(BASE + 6)
    assert index.entries == 1


@pytest.mark.parametrize("data", [b"\0" * 7, b"\0" * 80, b"\0\0\0\5\0\0\0\7" + b"\0" * 8, b"\xff" * 8])
def test_a_corrupt_offset_index_is_refused(tmp_path: Path, data: bytes) -> None:
    index = _offset_index(tmp_path)
    Path(index.path).write_bytes(data)
    with pytest.raises(CorruptIndexError):
        index.load()


def _time_entry(timestamp: int, offset: int) -> bytes:
    return timestamp.to_bytes(8, "big", signed=True) + offset.to_bytes(4, "big", signed=True)


@pytest.mark.parametrize(
    "data",
    [
        b"\0" * 11,
        _time_entry(100, 1) + _time_entry(0, 0),
        _time_entry(100, 1) + _time_entry(99, 5),
        _time_entry(100, -1),
        _time_entry(-5, 1),
    ],
)
def test_a_corrupt_time_index_is_refused(tmp_path: Path, data: bytes) -> None:
    index = _time_index(tmp_path)
    Path(index.path).write_bytes(data)
    with pytest.raises(CorruptIndexError):
        index.load()


def test_the_time_index_takes_only_larger_timestamps_and_keeps_a_place_for_the_last(tmp_path: Path) -> None:
    index = _time_index(tmp_path, 12 * 3)
    index.create()
    index.maybe_append(100, BASE + 1)
    index.maybe_append(100, BASE + 2)
    index.maybe_append(50, BASE + 3)
    assert index.entries == 1
    assert not index.is_full
    index.maybe_append(101, BASE + 4)
    assert index.is_full
    index.maybe_append(102, BASE + 5)
    assert index.last_entry == TimestampOffset(101, BASE + 4)
    index.maybe_append(103, BASE + 6, final=True)
    index.maybe_append(104, BASE + 7, final=True)
    assert index.last_entry == TimestampOffset(103, BASE + 6)
    index.trim()
    assert Path(index.path).read_bytes() == _time_entry(100, 1) + _time_entry(101, 4) + _time_entry(103, 6)


@given(
    steps=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=900),
    probes=st.lists(st.integers(-3, 9000), max_size=60),
    cut=st.integers(0, 9000),
)
def test_a_time_lookup_gives_the_last_entry_not_above_even_after_truncating(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]], probes: list[int], cut: int
) -> None:
    index = _time_index(tmp_path_factory.mktemp("index"))
    index.create()
    entries = [TimestampOffset(-1, BASE)]
    timestamp, offset = 0, BASE
    for timestamp_step, offset_step in steps:
        timestamp += timestamp_step
        offset += offset_step
        index.maybe_append(timestamp, offset)
        entries.append(TimestampOffset(timestamp, offset))
    for _ in range(2):
        for probe in probes:
            expected = entries[bisect_right(entries, (probe, 2**60)) - 1] if probe >= 0 else entries[0]
            assert index.lookup(probe) == expected
        assert index.last_entry == entries[-1]
        index.truncate_to(BASE + cut)
        entries = entries[:1] + [entry for entry in entries[1:] if entry.offset < BASE + cut]
