"""Records from input: one for each line, by a format string, or as the NDJSON of `ottla consume`.

PURE: bytes come in, in pieces of any size, and records go out. Counterparts elsewhere: rpk topic produce --format,
kcat -P.
"""

import binascii
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

import click

from ottla.scripts.terminal.records.format_words import TEXTS, Coding, NumberForm, Verb, coding, number_form, words

_DIGITS: Final = b"-0123456789"
Headers = Sequence[tuple[str, bytes | None]]


class InputError(Exception):
    """Input that is not a record. The text names the line or the record."""


class ReadRecord(NamedTuple):
    """A record as it was read; None for fields that the input does not name."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp: int | None = None


class Reader(Protocol):
    """Reads records from input."""

    def feed(self, data: bytes) -> Iterator[ReadRecord]:
        """Yield the records that are complete now. InputError for invalid input."""

    def end(self) -> Iterator[ReadRecord]:
        """Yield the last record, which may lack the end of its line."""


class LineReader:
    """Reads one record for each line. The part before the separator is the key; a line without it is an error."""

    def __init__(self, separator: bytes | None = None, parse: Callable[[bytes], ReadRecord] = ReadRecord) -> None:
        self._separator = separator
        self._parse = parse
        self._rest = b""
        self._line = 0

    def feed(self, data: bytes) -> Iterator[ReadRecord]:
        """Yield a record for each whole line."""
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        return map(self._record, lines)

    def end(self) -> Iterator[ReadRecord]:
        """Yield the last line, if it has no end."""
        rest, self._rest = self._rest, b""
        return map(self._record, [rest] if rest else [])

    def _record(self, line: bytes) -> ReadRecord:
        self._line += 1
        try:
            if self._separator is None:
                return self._parse(line)
            key, found, value = line.partition(self._separator)
            if not found:
                raise ValueError(f"the line lacks {self._separator!r} after the key")
            return ReadRecord(value, key)
        except ValueError as error:
            raise InputError(f"line {self._line}: {error}") from None


class _More(Exception):  # noqa: N818
    """The record does not end here."""


class _Found:
    """The fields of a record read so far."""

    __slots__ = ("headers", "key", "numbers", "partition", "timestamp", "value")

    def __init__(self) -> None:
        self.key: bytes | None = None
        self.value: bytes | None = None
        self.headers: list[tuple[str, bytes | None]] = []
        self.partition: int | None = None
        self.timestamp: int | None = None
        self.numbers: dict[str, int] = {}


Step = Callable[[bytes, int, bool, _Found], int]
"""Reads at a position of the input, which may be at its end; returns the next position."""


class FormatReader:
    """Reads records by a format string. A text has the size before it, or ends before the literal after it."""

    def __init__(self, text: str) -> None:
        """UsageError for an invalid format."""
        self._steps = _steps(words(text))
        self._rest = b""
        self._count = 0

    def feed(self, data: bytes) -> Iterator[ReadRecord]:
        """Yield the records that are whole."""
        self._rest += data
        return self._records(is_end=False)

    def end(self) -> Iterator[ReadRecord]:
        """Yield the last record, which may end with the input."""
        return self._records(is_end=True)

    def _records(self, is_end: bool) -> Iterator[ReadRecord]:
        position, data = 0, self._rest
        while position < len(data):
            found = _Found()
            at = position
            try:
                for step in self._steps:
                    at = step(data, at, is_end, found)
            except _More:
                if is_end:
                    raise InputError(f"record {self._count + 1}: the input ends too early") from None
                break
            except (ValueError, binascii.Error) as error:
                raise InputError(f"record {self._count + 1}: {error}") from None
            if at == position:
                raise InputError("the format has no verb that reads input")
            position = at
            self._count += 1
            yield ReadRecord(found.value, found.key, found.headers, found.partition, found.timestamp)
        self._rest = data[position:]


def _steps(found: Sequence[bytes | Verb]) -> list[Step]:
    steps: list[Step] = []
    sized: set[str] = set()
    for number, word in enumerate(found):
        following = found[number + 1] if number + 1 < len(found) else None
        if isinstance(word, bytes):
            steps.append(_literal(word))
        elif word.letter in TEXTS:
            size = word.letter.upper() if word.letter.upper() in sized else None
            if size is None and isinstance(following, Verb):
                raise click.UsageError(f"--format: a literal must separate %{word.letter} and %{following.letter}")
            steps.append(_text(word.letter, coding(word.modifier), size, following))
        elif word.letter == "h":
            if "H" not in sized or not word.modifier:
                raise click.UsageError("--format: headers are read as %H...%h{...}, with their count before them")
            steps.append(_headers(_steps(words(word.modifier))))
        elif word.letter == "d" and word.modifier.startswith(("strftime", "go")):
            raise click.UsageError("--format: a timestamp is read as milliseconds")
        else:
            sized.add(word.letter)
            form = number_form("big32" if word.letter == "R" else word.modifier)
            steps.append(_number("V" if word.letter == "R" else word.letter, form))
            sized.add("V" if word.letter == "R" else word.letter)
    return steps


def _literal(expected: bytes) -> Step:
    def read(data: bytes, at: int, is_end: bool, found: _Found) -> int:
        if data.startswith(expected, at):
            return at + len(expected)
        there = data[at : at + len(expected)]
        if expected.startswith(there):
            if is_end and expected == b"\n":
                return at
            raise _More
        raise ValueError(f"{expected!r} is expected, not {there!r}")

    return read


def _number(letter: str, form: NumberForm) -> Step:
    def read(data: bytes, at: int, is_end: bool, found: _Found) -> int:
        end = at + (form.size or 0)
        if form.size is None:
            while end < len(data) and data[end] in _DIGITS:
                end += 1
            if end == len(data) and not is_end:
                raise _More
        elif end > len(data):
            raise _More
        number = form.decode(data[at:end])
        found.numbers[letter] = number
        if letter == "p":
            found.partition = number
        elif letter == "d":
            found.timestamp = number
        return end

    return read


def _text(letter: str, code: Coding | None, size: str | None, following: bytes | Verb | None) -> Step:
    def read(data: bytes, at: int, is_end: bool, found: _Found) -> int:
        if size is not None:
            length = found.numbers[size]
            end = at + max(0, length)
            if end > len(data):
                raise _More
            text = None if length < 0 else data[at:end]
        else:
            assert not isinstance(following, Verb)
            end = len(data) if following is None else data.find(following, at)
            if end < 0 or following is None:
                if not is_end or following not in (None, b"\n"):
                    raise _More
                end = len(data)
            text = data[at:end]
        if text is not None and code is not None:
            text = code.decode(text)
        if letter == "v":
            found.value = text
        elif letter == "k":
            found.key = text
        return end

    return read


def _headers(steps: Sequence[Step]) -> Step:
    def read(data: bytes, at: int, is_end: bool, found: _Found) -> int:
        for _ in range(found.numbers["H"]):
            one = _Found()
            for step in steps:
                at = step(data, at, is_end, one)
            found.headers.append(((one.key or b"").decode(), one.value))
        return at

    return read
