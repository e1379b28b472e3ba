"""Expected bytes are written out by hand, from Kafka's description of its protocol."""

from collections.abc import Sequence
from typing import Annotated

import pytest

from ottla.wire.compiled.compiler import decoder, encoder
from ottla.wire.errors import DecodeError
from ottla.wire.schema import DEFAULT, Message, Struct, V
from ottla.wire.types import Bytes, EncodeError, Int8, Int16, Int32, Int64, Records, String, Uuid


class Inner(Struct):
    number: Int16 = -1


class Plain(Message, versions="0-2", flexible="1+"):
    number: Int32
    name: Annotated[String | None, V(nullable="0+")] = None
    numbers: Annotated[Sequence[Int32] | None, V(nullable="0+")] = ()
    late: Annotated[Int8, V("2+")] = 5


class Tagged(Message, versions="0-1", flexible="0+"):
    second: Annotated[String | None, V(nullable="0+", tag=2)] = None
    first: Annotated[Int32, V(tag=1)] = -1
    inner: Annotated[Inner, V(tag=3)] = DEFAULT
    maybe: Annotated[Inner | None, V(nullable="0+", tag=200)] = None


class MaybeInner(Message, versions="0-1", flexible="1+"):
    inner: Annotated[Inner | None, V(nullable="0+")] = None
    after: Int8


class Identified(Message, versions="0-1"):
    id: Uuid


class Data(Message, versions="0-1", flexible="1+"):
    data: Bytes
    records: Annotated[Records, V(nullable="0+")] = None
    uuids: Sequence[Uuid] = ()
    names: Sequence[String] = ()
    inners: Sequence[Inner] = ()
    longs: Sequence[Int64] = ()


@pytest.mark.parametrize(
    ("value", "version", "expected"),
    [
        (Plain(number=1, name="ab"), 0, "00000001 0002 6162 00000000"),
        (Plain(number=1, numbers=[2, -1]), 0, "00000001 ffff 00000002 00000002 ffffffff"),
        (Plain(number=1, numbers=None), 0, "00000001 ffff ffffffff"),
        (Plain(number=1, name="ab"), 1, "00000001 03 6162 01 00"),
        (Plain(number=1, numbers=None), 1, "00000001 00 00 00"),
        (Plain(number=1, name="", late=6), 2, "00000001 01 01 06 00"),
        (Tagged(), 0, "00"),
        (Tagged(second="x", first=7), 0, "02 01 04 00000007 02 02 02 78"),
        (Tagged(inner=Inner(number=3)), 0, "01 03 03 0003 00"),
        (Tagged(maybe=Inner(number=3)), 0, "01 c801 04 01 0003 00"),
        (MaybeInner(after=9), 0, "ff 09"),
        (MaybeInner(inner=Inner(number=2), after=9), 0, "01 0002 09"),
        (MaybeInner(after=9), 1, "ff 09 00"),
        (MaybeInner(inner=Inner(number=2), after=9), 1, "01 0002 00 09 00"),
        (
            Data(data=b"d", records=b"r", uuids=[b"u" * 16], names=["n"], inners=[Inner()], longs=[1]),
            0,
            f"00000001 64 00000001 72 00000001 {'75' * 16} 00000001 0001 6e 00000001 ffff 00000001 0000000000000001",
        ),
        (
            Data(data=b"d", names=["n", ""], inners=[Inner(), Inner()]),
            1,
            "02 64 00 01 03 02 6e 01 03 ffff 00 ffff 00 01 00",
        ),
    ],
)
def test_a_message_has_kafkas_wire_form(value: Message, version: int, expected: str) -> None:
    assert value.encode(version).hex() == expected.replace(" ", "")
    assert type(value).decode(bytes.fromhex(expected), version) == value


def test_a_length_of_more_than_126_takes_a_second_byte() -> None:
    for size in (126, 127, 128, 16382, 16383):
        value = Data(data=b"d" * size, names=["n" * size], longs=range(size))
        assert Data.decode(value.encode(1), 1) == Data(data=b"d" * size, names=["n" * size], longs=list(range(size)))
    assert Data(data=b"d" * 126).encode(1)[:2] == b"\x7fd"
    assert Data(data=b"d" * 127).encode(1)[:3] == b"\x80\x01d"


def test_a_field_that_the_version_lacks_is_left_out_and_read_as_its_default() -> None:
    assert Plain.decode(Plain(number=1, late=6).encode(1), 1).late == 5


def test_unknown_tagged_fields_are_skipped() -> None:
    assert Tagged.decode(bytes.fromhex("03 00 02 ffff 01 04 00000007 8001 00"), 0) == Tagged(first=7)
    assert Plain.decode(bytes.fromhex("00000001 00 01 01 ff01 03 aabbcc"), 1) == Plain(number=1)


def test_a_null_tagged_struct_that_is_spelled_out_is_null() -> None:
    assert Tagged.decode(bytes.fromhex("01 c801 01 00"), 0).maybe is None


def test_a_struct_is_null_where_its_flag_is_negative_as_in_kafka() -> None:
    assert MaybeInner.decode(bytes.fromhex("00 0002 09"), 0) == MaybeInner(inner=Inner(number=2), after=9)
    assert MaybeInner.decode(bytes.fromhex("80 09"), 0) == MaybeInner(after=9)


def test_bytes_behind_a_message_are_left_behind_the_returned_position() -> None:
    frame = memoryview(bytes.fromhex("aaaa 00000001 00 01 00 bb"))
    assert decoder(Plain, 1)(frame, 2) == (Plain(number=1), len(frame) - 1)


def test_records_are_a_view_and_bytes_a_copy() -> None:
    frame = bytearray(Data(data=b"d", records=b"r").encode(1))
    data = Data.decode(frame, 1)
    frame[:] = bytes(len(frame))
    assert isinstance(data.records, memoryview)
    assert not data.records.readonly
    assert (data.data, bytes(data.records)) == (b"d", b"\0")


def test_records_that_are_not_in_memory_are_left_among_the_pieces() -> None:
    class FileRegion:
        def __len__(self) -> int:
            return 300

    region = FileRegion()
    pieces: list[object] = []
    encoder(Data, 1)(Data(data=b"d", records=region), pieces)
    assert pieces.count(region) == 1
    before = pieces[: pieces.index(region)]
    assert b"".join(before).endswith(b"\xad\x02")  # type: ignore[arg-type]


def test_text_that_is_not_utf8_is_replaced() -> None:
    assert Plain.decode(bytes.fromhex("00000001 0002 ff61 00000000"), 0).name == "\ufffda"


@pytest.mark.parametrize(
    ("message", "version", "frame", "reason"),
    [
        (Plain, 0, "000000", "Plain v0: unpack_from requires"),
        (Plain, 0, "00000001 0003 6162", "reaches beyond the end"),
        (Plain, 0, "00000001 ffff 00000002 00000001", "announces more than there is"),
        (Plain, 0, "00000001 ffff 7fffffff", "announces more than there is"),
        (Plain, 0, "00000001 ffff fffffffe", "negative length"),
        (Plain, 1, "00000001 00 ffffffff0f", "announces more than there is"),
        (Plain, 1, "00000001 00 ffffffffffff00", "varint of more than 5 bytes"),
        (Plain, 1, "00000001 00 01 01 05 7f", "beyond the end"),
        (Plain, 1, "00000001 00 01 01 05 01", "beyond the end"),
        (Plain, 1, "00000001 00 01 ffffff7f", "268435455 tagged fields"),
        (Plain, 1, "00000001 818002" + 0x8000 * "61" + "0100", "a string of 32768 bytes"),
        (Data, 0, "ffffffff", "data is null"),
        (Data, 1, "00", "data is null"),
        (Data, 1, "01 00 00", "uuids is null"),
        (Data, 1, "01 00 01 02 00", "names is null"),
    ],
)
def test_bytes_that_do_not_fit_are_refused(message: type[Message], version: int, frame: str, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        message.decode(bytes.fromhex(frame), version)


def test_a_negative_length_of_a_string_is_null_as_in_kafka() -> None:
    assert Plain.decode(bytes.fromhex("00000001 fffe 00000000"), 0).name is None


@pytest.mark.parametrize(
    "value",
    [
        Plain(number=2**31),
        Plain(number=None),  # type: ignore[arg-type]
        Plain(number=0, numbers=[2**31]),
        Plain(number=0, name="a" * 0x8000),
        Plain(number=0, name="\ud800"),
        Data(data=None),  # type: ignore[arg-type]
        Data(data=b"", uuids=[b"short"]),
        Identified(id=b"short"),
        Identified(id=b"x" * 17),
        Data(data=b"", names=[None]),  # type: ignore[list-item]
    ],
)
@pytest.mark.parametrize("version", [0, 1])
def test_values_that_do_not_fit_are_refused(value: Message, version: int) -> None:
    with pytest.raises(EncodeError, match=type(value).__name__):
        value.encode(version)


def test_a_version_that_the_message_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="not 3"):
        encoder(Plain, 3)
    with pytest.raises(ValueError, match="not -1"):
        decoder(Plain, -1)


def test_a_function_is_compiled_once() -> None:
    assert encoder(Plain, 1) is encoder(Plain, 1)
    assert decoder(Plain, 1) is decoder(Plain, 1)
    assert decoder(Plain, 1) is not decoder(Plain, 2)
