"""The walk over records, in its plain and its compiled form."""

import random
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compat_tests.support.jars import require
from ottla.native import SUFFIX, source
from ottla.wire.records import scan as record_scan
from ottla.wire.records.batch_header import HEADER_SIZE
from ottla.wire.records.builder import NewRecord, build_batch, varint

MIN, MAX = -(2**63), 2**63 - 1

# A form is a module, plain or compiled.
Form = Any


def loaded(name: str, path: Path) -> Form:
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # because classes look their names up there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def plain() -> Form:
    return loaded("plain_record_scan", source("wire.records.scan"))


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Form:
    require("cc")
    copy = tmp_path_factory.mktemp("native") / "native_record_scan.py"
    copy.write_bytes(source("wire.records.scan").read_bytes())
    subprocess.run([sys.executable, "-m", "mypyc", copy.name], cwd=copy.parent, check=True, capture_output=True)
    return loaded(copy.stem, copy.with_name(f"{copy.stem}{SUFFIX}"))


@pytest.fixture(params=["plain", "compiled"])
def form(request: pytest.FixtureRequest) -> Form:
    return request.getfixturevalue(request.param)


def sized(value: bytes | None) -> bytes:
    return varint(-1) if value is None else varint(len(value)) + value


def record(
    delta: int = 0, *, time: int = 0, key: bytes | None = b"k", value: bytes | None = b"v", tail: bytes = b"\0"
) -> bytes:
    body = b"\0" + varint(time) + varint(delta) + sized(key) + sized(value) + tail
    return varint(len(body)) + body


def fresh(form: Form, count: int, **limits: int) -> Any:
    limits = {"untimed": MIN, "lowest": MIN, "highest": MAX, "compacted": 0, **limits}
    return form.RecordScan(count, bool(limits["compacted"]), limits["untimed"], limits["lowest"], limits["highest"])


def walk(form: Form, data: bytes, count: int, **limits: int) -> Any:
    scan = fresh(form, count, **limits)
    assert scan.walk(data, 0, len(data)) == len(data)
    assert scan.seen == count
    return scan


def findings(scan: Any) -> tuple[Any, ...]:
    return scan.seen, scan.in_order, scan.is_timed, scan.max_delta, scan.keyless, scan.untimely


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


@pytest.mark.parametrize("value", [0, 1, -1, 63, 64, -64, -65, 8191, 8192, 2**31 - 1, -(2**31)])
def test_varints_of_32_bits_are_read(form: Form, value: int) -> None:
    data = varint(value)
    assert form.read_varint(data + b"\xff", 0, len(data)) == (value, len(data))


@pytest.mark.parametrize("value", [0, 1, -1, 63, 64, 2**31, -(2**35), 2**62, MAX, MIN])
def test_varints_of_64_bits_are_read(form: Form, value: int) -> None:
    data = varint(value)
    assert form.read_varlong(b"\xff" + data, 1, len(data) + 1) == (value, len(data) + 1)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x80" * 4, b"\x80" * 5 + b"\0", b"\xff" * 12])
def test_a_varint_that_does_not_end_is_malformed(form: Form, data: bytes) -> None:
    with pytest.raises(ValueError, match="varint"):
        form.read_varint(data, 0, len(data))
    with pytest.raises(ValueError, match="varint"):
        form.read_varlong(data[:4] or b"\x80" * 11, 0, len(data[:4]))


def test_bits_beyond_the_width_are_dropped_as_java_drops_them(form: Form) -> None:
    assert form.read_varint(b"\xfe\xff\xff\xff\x7f", 0, 5) == (2**31 - 1, 5)
    assert form.read_varlong(b"\xfe" + b"\xff" * 8 + b"\x7f", 0, 10) == (MAX, 10)


def test_the_walk_collects_its_findings(form: Form) -> None:
    data = record(0, time=5, key=None) + record(1, time=-7) + record(2, time=9, value=None) + record(3, time=8)
    scan = walk(form, data, 4)
    assert findings(scan) == (4, True, True, 9, [], [])


def test_a_record_without_timestamp_is_timely_and_no_maximum(form: Form) -> None:
    scan = walk(form, record(0, time=-100) + record(1, time=-200), 2, untimed=-100, lowest=-300)
    assert (scan.max_delta, scan.untimely) == (-200, [])
    scan = walk(form, record(0, time=-100), 1, untimed=-100, lowest=0)
    assert (scan.is_timed, scan.untimely) == (False, [])


def test_timestamps_out_of_bounds_are_found_with_their_records(form: Form) -> None:
    data = record(0, time=-6) + record(1, time=-5) + record(2, time=5) + record(3, time=6) + record(4, time=MAX)
    scan = walk(form, data, 5, lowest=-5, highest=5)
    assert scan.untimely == [(0, -6), (3, 6), (4, MAX)]


def test_records_without_key_are_found_in_compacted_topics(form: Form) -> None:
    data = record(0) + record(1, key=None, time=9) + record(2, key=b"")
    assert walk(form, data, 3, compacted=1, highest=5).keyless == [1]
    assert walk(form, data, 3, compacted=0, highest=5).untimely == [(1, 9)]
    assert walk(form, data, 3, compacted=1, highest=5).untimely == []


@pytest.mark.parametrize("deltas", [[1], [0, 2], [0, 0], [-1], [1, 0]])
def test_offsets_out_of_order_are_found(form: Form, deltas: list[int]) -> None:
    assert not walk(form, b"".join(map(record, deltas)), len(deltas)).in_order


@pytest.mark.parametrize("delta", [0, 1, -1, 63, 64, 2**31 - 1, -(2**31)])
def test_records_are_renumbered(form: Form, delta: int) -> None:
    def numbered(*deltas: int) -> bytes:
        return b"".join(record(each, time=n * 50, value=bytes(n), tail=HEADERS) for n, each in enumerate(deltas))

    assert form.renumber(b"xx" + numbered(*[delta] * 200), 2, 200) == numbered(*range(200))


HEADERS = varint(2) + sized(b"h1") + sized(None) + sized(b"") + sized(b"v" * 200)

MALFORMED = {
    "a negative length": varint(-1) + b"\0" * 8,
    "no bytes at all": varint(0),
    "only attributes": varint(1) + b"\0",
    "a key beyond the record": record(tail=b"")[:4] + varint(50) + b"xxxx",
    "a value that ends early": varint(8) + b"\0\0\0" + sized(b"k") + sized(b"v")[:1] + b"v\0" + b"\0",
    "bytes behind the headers": record(tail=b"\0\0"),
    "no count of headers": record(tail=b""),
    "fewer headers than counted": record(tail=varint(1)),
    "a negative count of headers": record(tail=varint(-1)),
    "a header with null for a key": record(tail=varint(1) + varint(-1) + sized(b"")),
    "a header beyond the record": record(tail=varint(1) + varint(9) + b"abc"),
    "a length varint that never ends": b"\xff" * 6,
    "a delta that never ends": varint(14) + b"\0" + b"\xff" * 13,
    "headers without end": record(tail=varint(2**31 - 1) + b"\0" * 20),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_records_are_refused(form: Form, name: str) -> None:
    data = record(0) + MALFORMED[name] + record(2)
    scan = fresh(form, 3)
    with pytest.raises(ValueError):  # noqa: PT011 -- the wording is no promise
        scan.walk(data, 0, len(data))
    for size in (1, 3, 1000):
        with pytest.raises(ValueError):  # noqa: PT011
            form.scan_pieces(fresh(form, 3), pieces(data, size))


def test_a_record_reaching_beyond_the_data_is_left(form: Form) -> None:
    data = record(0) + record(1, value=bytes(300), tail=HEADERS)
    for end in range(len(record(0)), len(data)):
        scan = fresh(form, 2)
        assert scan.walk(data, 0, end) == len(record(0))
        assert scan.seen == 1


def test_no_more_records_are_taken_than_counted(form: Form) -> None:
    data = record(0) + record(1)
    scan = fresh(form, 1)
    assert scan.walk(data, 0, len(data)) == len(record(0))


@pytest.mark.parametrize("size", [1, 2, 7, 50, 10_000])
def test_pieces_of_any_size_give_the_same_findings(form: Form, size: int) -> None:
    data = b"".join(record(i, time=i * 3, key=None if i % 3 else b"k", tail=HEADERS) for i in range(20))
    scan = fresh(form, 20, compacted=1, highest=30)
    form.scan_pieces(scan, pieces(data, size))
    assert findings(scan) == findings(walk(form, data, 20, compacted=1, highest=30))


@pytest.mark.parametrize("count", [1, 3])
def test_pieces_must_hold_as_many_records_as_counted(form: Form, count: int) -> None:
    data = record(0) + record(1)
    for size in (1, len(record(0)), 1000):
        with pytest.raises(ValueError):  # noqa: PT011
            form.scan_pieces(fresh(form, count), pieces(data, size))


def zeros(before: bytes, count: int, after: bytes) -> Iterator[bytes]:
    yield before
    for _ in range(count):
        yield bytes(1 << 20)
    yield after


def large_record(megabytes: int, tail: bytes) -> tuple[bytes, bytes]:
    """Return the bytes before and behind the value of a record with a very large value."""
    size = megabytes << 20
    start = b"\0" + varint(7) + varint(0) + sized(b"key") + varint(size)
    return varint(len(start) + size + len(tail)) + start, tail


def test_a_record_much_larger_than_a_piece_is_passed_over_in_little_memory(form: Form) -> None:
    before, after = large_record(200, HEADERS)
    scan = fresh(form, 2)
    tracemalloc.start()
    try:
        form.scan_pieces(scan, zeros(before, 200, after + record(1, time=3)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert findings(scan) == (2, True, True, 7, [], [])
    assert peak < 8 << 20


@pytest.mark.parametrize(
    "tail", [b"", b"\0\0", varint(-1), varint(1) + varint(-1), varint(3) + b"\0\0", varint(1) + sized(b"k") + varint(9)]
)
def test_a_malformed_large_record_is_refused(form: Form, tail: bytes) -> None:
    before, after = large_record(3, tail)
    with pytest.raises(ValueError):  # noqa: PT011
        form.scan_pieces(fresh(form, 1), zeros(before, 3, after))


def test_a_large_record_must_end_where_its_length_says(form: Form) -> None:
    before, after = large_record(3, b"\0")
    form.scan_pieces(fresh(form, 1), zeros(before, 3, after))
    length, start = record_scan.read_varint(before, 0, len(before))
    for wrong in (length - 1, length + 1):
        with pytest.raises(ValueError):  # noqa: PT011
            form.scan_pieces(fresh(form, 1), zeros(varint(wrong) + before[start:], 3, after))


def outcome(form: Form, data: bytes, count: int, size: int) -> tuple[Any, ...] | str:
    scan = fresh(form, count, untimed=-1, lowest=-1000, highest=10**6)
    try:
        if size:
            form.scan_pieces(scan, pieces(data, size))
        else:
            scan.walk(data, 0, len(data))
    except ValueError as error:
        return str(error)
    return findings(scan)


@pytest.mark.trials(few=500, soak=2500)
def test_both_forms_have_the_same_findings_on_mutated_records(
    plain: Form, compiled: Form, trials: int, seed: int
) -> None:
    chance = random.Random(seed)
    good = b"".join(record(i, time=i * 50, value=bytes(i), tail=HEADERS) for i in range(10))
    for _ in range(trials):
        data = bytearray(good)
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        size = chance.choice((0, 0, 1, 5, 64))
        assert outcome(compiled, bytes(data), 10, size) == outcome(plain, bytes(data), 10, size)


@given(st.binary(max_size=60), st.integers(1, 5), st.integers(0, 7))
def test_random_bytes_raise_nothing_unexpected(data: bytes, count: int, size: int) -> None:
    outcome(record_scan, data, count, size)


def test_the_walk_begins_behind_a_batch_header(form: Form) -> None:
    batch = bytes(build_batch([NewRecord(value=b"v", headers=[("h", None)])] * 300))
    scan = fresh(form, 300)
    assert scan.walk(batch, HEADER_SIZE, len(batch)) == len(batch)
    assert scan.in_order


def test_a_reader_takes_and_skips_over_the_bounds_of_pieces(form: Form) -> None:
    reader = form.PieceReader(pieces(bytes(range(100)), 7))
    assert reader.take(10) == bytes(range(10))
    reader.skip(30)
    assert reader.take(0) == b""
    assert reader.take(5) == bytes(range(40, 45))
    with pytest.raises(ValueError, match="too early"):
        reader.skip(56)


def test_spans_hold_positions_of_records_and_keys_and_whether_there_is_a_value(form: Form) -> None:
    data = record(0) + record(1, key=None) + record(2, value=None) + record(3, key=b"", value=b"")
    spans = form.record_spans(data, 0, len(data), 4)
    assert [(each[3], data[each[4] : each[5]] if each[5] >= 0 else None, each[6]) for each in spans] == [
        (0, b"k", True),
        (1, None, True),
        (2, b"k", False),
        (3, b"", True),
    ]
    assert b"".join(data[start:end] for start, end, *_ in spans) == data
    with_headers = (
        b"xx" + record(7, time=-12345678901, key=b"key" * 99, tail=varint(1) + sized(b"h") + sized(None)) + b"yy"
    )
    assert form.record_spans(with_headers, 2, len(with_headers) - 2, 1) == [
        (2, len(with_headers) - 2, -12345678901, 7, 13, 310, True)
    ]
    assert form.record_spans(b"", 0, 0, 0) == []


def test_spans_of_malformed_records_are_refused(form: Form) -> None:
    sound = record(0, key=b"key", value=b"value", tail=varint(1) + sized(b"h") + sized(b"v"))
    for length in range(len(sound)):
        with pytest.raises(ValueError, match=r".+"):
            form.record_spans(sound[:length], 0, length, 1)
    for data, count in ((sound, 2), (sound + b"\0", 1), (b"\x01" + sound, 1), (sound, 0)):
        with pytest.raises(ValueError, match=r".+"):
            form.record_spans(data, 0, len(data), count)
    for at in range(len(sound)):
        for wrong in (0x7F, 0x80, 0xFF):
            broken = sound[:at] + bytes([wrong]) + sound[at + 1 :]
            try:
                ((start, end, _, _, key_start, key_end, _),) = form.record_spans(broken, 0, len(broken), 1)
            except ValueError:
                continue
            assert 0 <= start <= key_start <= max(key_start, key_end) <= end == len(broken)
