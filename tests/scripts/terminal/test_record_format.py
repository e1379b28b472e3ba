"""One language for printing records and for reading them."""

import random

import click
import pytest

from ottla.scripts.terminal.records.formats import RecordFormat, Shown, printable
from ottla.scripts.terminal.records.reading import FormatReader, InputError, LineReader, Reader, ReadRecord
from ottla.wire.records.batch import Record, build_batch, parse_header
from ottla.wire.types import TopicPartition

HEADERS = (("h", b"\xff"), ("h", None), ("i", b"v"))
RECORD = Record(1234, 1_700_000_000_123, b"key", b"a\x00b", HEADERS)
HEADER = parse_header(build_batch([RECORD], leader_epoch=7, producer_id=5, producer_epoch=6, base_sequence=0))
SHOWN = Shown(TopicPartition("topic", 3), HEADER, RECORD, 2000, 9)
EMPTY = Shown(TopicPartition("topic", 3), HEADER, Record(0, -1, None, None))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%t[%p]@%o %e", b"topic[3]@1234 7"),
        ("%k=%v", b"key=a\0b"),
        ("%K %V %H", b"3 3 3"),
        ("%s|%S|%T", b"a\0b|3|1700000000123"),  # kcat's
        ("%h", b"h=\xff,h=NULL,i=v"),
        ("%h{%k:%v{hex};}", b"h:ff;h:;i:76;"),
        ("%v{hex} %v{base64} %k{base64raw}", b"610062 YQBi a2V5"),
        ("%o{big16}%o{little32}%p{byte}%o{hex16}", b"\x04\xd2\xd2\x04\0\0\x0304d2"),
        ("%R%v", b"\0\0\0\x03a\0b"),
        ("%d{strftime[%F %T]}", b"2023-11-14 22:13:20"),
        ("%d{go[2006-01-02T15:04:05.000Z07:00]}", b"2023-11-14T22:13:20.123Z"),
        ("%d{go##Jan 02##}", b"Nov 14"),
        ("%a %x %y %] %i", b"0 5 6 2000 9"),
        (r"\t\n\\\x41%%%{%}", b"\t\n\\A%{}"),
        ("plain é", "plain é".encode()),
    ],
)
def test_a_verb_writes_a_part_of_a_record(text: str, expected: bytes) -> None:
    assert RecordFormat(text).write(SHOWN) == expected


def test_null_is_written_as_empty_text_and_has_the_length_minus_one() -> None:
    assert RecordFormat("%k|%v|%K|%V|%R|%h|%d").write(EMPTY) == b"||-1|-1|\xff\xff\xff\xff||-1"


@pytest.mark.parametrize("text", ["%q", "%v{hex", "%v{big32}", "%o{base64}", "%d{strftime}", "%d{go[x}"])
def test_an_invalid_format_is_wrong_usage(text: str) -> None:
    with pytest.raises(click.UsageError):
        RecordFormat(text)


def test_records_on_a_terminal_have_no_control_characters() -> None:
    # An escape sequence, its 8-bit form, an override of the direction of text, and a byte that is not UTF-8.
    wicked = b"\x1b[2J\xc2\x9b2J\xe2\x80\xae\xff\r\x07 fine \xc3\xa9"
    shown = SHOWN._replace(
        record=RECORD._replace(value=wicked, key=wicked, headers=((wicked.decode("utf-8", "replace"), wicked),))
    )
    written = RecordFormat("%k %v %h %h{%k=%v} %o{big32}\\n", is_terminal=True).write(shown)
    assert all(each.isprintable() for each in written.decode().replace("\n", ""))
    assert RecordFormat("%v").write(shown) == wicked
    assert printable(wicked).decode() == r"\x1b[2J\xc2\x9b2J\xe2\x80\xae\xff\x0d\x07 fine é"


def read_all(reader: Reader, data: bytes, step: int) -> list[ReadRecord]:
    """Return the records of input in pieces of `step` bytes."""
    found = [record for at in range(0, len(data), step) for record in reader.feed(data[at : at + step])]
    return [*found, *reader.end()]


@pytest.mark.parametrize("step", [1, 3, 1000])
@pytest.mark.parametrize(
    ("text", "data", "expected"),
    [
        (r"%k\t%v\n", b"a\tb\n\t\nc\td", [ReadRecord(b"b", b"a"), ReadRecord(b"", b""), ReadRecord(b"d", b"c")]),
        ("%V{big16}%v", b"\0\x02hi\0\0\xff\xff", [ReadRecord(b"hi"), ReadRecord(b""), ReadRecord(None)]),
        ("%R%s", b"\0\0\0\x02hi", [ReadRecord(b"hi")]),
        (r"%K %k%V %v\n", b"2 ab3 x\ny\n", [ReadRecord(b"x\ny", b"ab")]),
        (r"%p %d %o %t %v{hex}\n", b"4 77 99 any 6869\n", [ReadRecord(b"hi", None, (), 4, 77)]),
        (
            r"%H %h{%k=%v,}%v\n",
            b"2 a=1,a=2,val\n0 v\n",
            [ReadRecord(b"val", None, [("a", b"1"), ("a", b"2")]), ReadRecord(b"v")],
        ),
        ("%v;", b"x\ny;z;", [ReadRecord(b"x\ny"), ReadRecord(b"z")]),
        ("%v", b"all of it\n", [ReadRecord(b"all of it\n")]),
    ],
)
def test_a_format_reads_records_in_pieces_of_any_size(
    text: str, data: bytes, expected: list[ReadRecord], step: int
) -> None:
    found = read_all(FormatReader(text), data, step)
    assert [each._replace(headers=list(each.headers)) for each in found] == [
        each._replace(headers=list(each.headers)) for each in expected
    ]


@pytest.mark.trials(few=50, soak=5000)
def test_records_printed_with_lengths_are_read_again(trials: int) -> None:
    text = "%K{little32}%k%V{big64}%v%H{hex8}%h{%K{big32}%k%V{big32}%v}%p %d{big64}"
    for _ in range(trials):
        key, value = (random.choice([None, random.randbytes(random.randrange(40))]) for _ in range(2))
        headers = [(random.choice(["", "é", "n"]), random.choice([None, random.randbytes(5)])) for _ in range(2)]
        record = Record(0, random.randrange(1 << 40), key, value, headers)
        written = RecordFormat(text).write(SHOWN._replace(record=record))
        (found,) = read_all(FormatReader(text), written, random.randrange(1, 50))
        assert (found.key, found.value, list(found.headers), found.partition, found.timestamp) == (
            key, value, headers, 3, record.timestamp
        )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (r"%k:%v\n", b"no separator\n"),
        ("%V{big32}%v", b"\0\0"),
        (r"%p %v\n", b"x y\n"),
        (r"%v{hex}\n", b"xyz\n"),
        (r"a%v\n", b"b\n"),
    ],
)
def test_input_that_does_not_match_the_format_is_refused(text: str, data: bytes) -> None:
    with pytest.raises(InputError, match="record 1"):
        read_all(FormatReader(text), data, 100)


@pytest.mark.parametrize("text", ["%k%v", r"%h{%k}\n", r"%h\n", "%d{strftime[%F]} %v"])
def test_a_format_without_an_end_of_a_text_is_wrong_usage(text: str) -> None:
    with pytest.raises(click.UsageError):
        FormatReader(text)


@pytest.mark.parametrize("step", [1, 4, 100])
def test_lines_are_records(step: int) -> None:
    assert read_all(LineReader(), b"a\n\nb\r\nlast", step) == [
        ReadRecord(each) for each in (b"a", b"", b"b\r", b"last")
    ]
    assert read_all(LineReader(b"::"), b"k::v::w\n", step) == [ReadRecord(b"v::w", b"k")]
    with pytest.raises(InputError, match="line 2"):
        read_all(LineReader(b":"), b"k:v\nnone\n", step)
