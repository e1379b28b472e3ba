"""Printing records by a format string: `--format '%t %o %k %v\\n'`.

PURE. `format_words` has the language. Counterparts elsewhere: rpk topic consume --format, kcat -f.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from re import compile as pattern
from typing import Final, NamedTuple

from ottla.scripts.terminal.records.format_words import TEXTS, Verb, argument, coding, number_form, words
from ottla.wire.records.batch import BatchHeader, Record
from ottla.wire.types import TopicPartition

_ZERO: Final = datetime(1970, 1, 1, tzinfo=UTC)
_GO: Final = {
    "2006": "%Y", "06": "%y", "January": "%B", "Jan": "%b", "01": "%m", "Monday": "%A", "Mon": "%a", "02": "%d",
    "15": "%H", "03": "%I", "PM": "%p", "04": "%M", "05": "%S", ".000000": ".%f", "MST": "UTC", "Z07:00": "Z",
    "-07:00": "+00:00", "-0700": "+0000",
}  # fmt: skip
_GO_WORD: Final = pattern("|".join(sorted((each.replace(".", r"\.") for each in _GO), key=len, reverse=True)))
_GO_MILLISECONDS: Final = ".000"
_MILLISECONDS: Final = "\ue000"


class Shown(NamedTuple):
    """A record with its place and its batch."""

    partition: TopicPartition
    header: BatchHeader
    record: Record
    end: int = -1
    number: int = 0


Part = Callable[[Shown], bytes]
Escape = Callable[[bytes], bytes]


def _as_is(data: bytes) -> bytes:
    return data


def printable(data: bytes) -> bytes:
    """Return text without control characters. Bytes that are not UTF-8 or not printable become \\xNN."""
    text = data.decode("utf-8", "backslashreplace")
    return "".join(_escaped(each) for each in text).encode()


def _escaped(character: str) -> str:
    if character.isprintable() or character in "\n\t":
        return character
    return "".join(f"\\x{each:02x}" for each in character.encode("utf-8"))


class RecordFormat:
    """A format, ready to write records."""

    def __init__(self, text: str, *, is_terminal: bool = False) -> None:
        """UsageError for an invalid format. With `is_terminal` control characters of records are escaped."""
        escape = printable if is_terminal else _as_is
        self._parts = [_part(word, escape) for word in words(text)]

    def write(self, shown: Shown) -> bytes:
        """Return a record in the format."""
        return b"".join([part(shown) for part in self._parts])


def _part(word: bytes | Verb, escape: Escape) -> Part:
    if isinstance(word, bytes):
        literal = word
        return lambda shown: literal
    if word.letter in TEXTS:
        return _text_part(word, escape)
    if word.letter == "h":
        return _headers_part(word, escape)
    if word.letter == "d" and word.modifier.startswith(("strftime", "go")):
        return _time_part(word.modifier)
    if word.letter == "R":
        # kcat's: the length of the value, or -1, as four bytes.
        word = Verb("V", "big32")
    read, form = _NUMBERS[word.letter], number_form(word.modifier)
    return lambda shown: escape(form.encode(read(shown)))


def _text_part(verb: Verb, escape: Escape) -> Part:
    found = coding(verb.modifier)
    encode = escape if found is None else found.encode
    if verb.letter == "v":
        return lambda shown: encode(shown.record.value or b"")
    if verb.letter == "k":
        return lambda shown: encode(shown.record.key or b"")
    return lambda shown: encode(shown.partition.topic.encode())


def _headers_part(verb: Verb, escape: Escape) -> Part:
    """Write each header by the format in braces; without one as NAME=VALUE with commas, like kcat."""
    if not verb.modifier:
        return lambda shown: b",".join(
            escape(name.encode()) + b"=" + (b"NULL" if value is None else escape(value))
            for name, value in shown.record.headers
        )
    parts = [_part(word, escape) for word in words(verb.modifier)]

    def write(shown: Shown) -> bytes:
        found = []
        for name, value in shown.record.headers:
            one = shown._replace(record=Record(0, 0, name.encode(), value))
            found += [part(one) for part in parts]
        return b"".join(found)

    return write


def _time_part(modifier: str) -> Part:
    layout = argument(modifier)
    if modifier.startswith("go"):
        layout = _GO_WORD.sub(lambda found: _GO[found[0]], layout.replace("%", "%%"))
        layout = layout.replace(_GO_MILLISECONDS, f".{_MILLISECONDS}")

    def write(shown: Shown) -> bytes:
        milliseconds = shown.record.timestamp
        try:
            moment = _ZERO + timedelta(milliseconds=milliseconds)
        except OverflowError:
            return b"%d" % milliseconds
        return moment.strftime(layout).replace(_MILLISECONDS, f"{milliseconds % 1000:03}").encode()

    return write


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _headers(shown: Shown) -> Sequence[tuple[str, bytes | None]]:
    return shown.record.headers


_NUMBERS: Final[dict[str, Callable[[Shown], int]]] = {
    "K": lambda shown: _length(shown.record.key),
    "V": lambda shown: _length(shown.record.value),
    "H": lambda shown: len(_headers(shown)),
    "p": lambda shown: shown.partition.partition,
    "o": lambda shown: shown.record.offset,
    "e": lambda shown: shown.header.partition_leader_epoch,
    "d": lambda shown: shown.record.timestamp,
    "a": lambda shown: shown.header.attributes,
    "x": lambda shown: shown.header.producer_id,
    "y": lambda shown: shown.header.producer_epoch,
    "i": lambda shown: shown.number,
    "]": lambda shown: shown.end,
}
