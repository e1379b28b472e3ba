"""The words of a format string: literal bytes, and verbs such as `%v` with a modifier in braces, `%v{hex}`.

PURE. One language for printing records and for reading them. It is rpk's, with kcat's verbs, too: `%s` and `%S` are
`%v` and `%V`, and `%T` is kcat's timestamp, not the length of the topic's name as in rpk.
"""

import base64
import binascii
import re
import string
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Final, NamedTuple

import click

_ESCAPES: Final[Mapping[str, str]] = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\", "0": "\0"}
_WORD: Final = re.compile(r"\\x(?P<hex>[0-9a-fA-F]{2})|\\(?P<escape>[tnr\\0])|%(?P<verb>.)", re.DOTALL)
_LITERALS: Final = "%{}"
_CLOSING: Final[Mapping[str, str]] = {"[": "]", "{": "}", "(": ")"}
_ALIASES: Final[Mapping[str, str]] = {"s": "v", "S": "V", "T": "d"}
TEXTS: Final = "tkv"
NUMBERS: Final = "KVHRpoedaxyi]"
_BITS: Final[Mapping[int, str]] = {8: "b", 16: "h", 32: "i", 64: "q"}


class Verb(NamedTuple):
    """A verb; the modifier is empty if there is none."""

    letter: str
    modifier: str = ""


Word = bytes | Verb


def words(text: str) -> list[Word]:
    """Return the words of a format. UsageError for a verb that does not exist."""
    found: list[Word] = []
    literal = bytearray()
    position = 0
    while position < len(text):
        match = _WORD.match(text, position)
        if match is None:
            literal += text[position].encode()
            position += 1
            continue
        position = match.end()
        if match["hex"]:
            literal.append(int(match["hex"], 16))
        elif match["escape"]:
            literal += _ESCAPES[match["escape"]].encode()
        elif match["verb"] in _LITERALS:
            literal += match["verb"].encode()
        else:
            if literal:
                found.append(bytes(literal))
                literal.clear()
            modifier, position = _modifier(text, position)
            found.append(_checked(Verb(_ALIASES.get(match["verb"], match["verb"]), modifier)))
    if literal:
        found.append(bytes(literal))
    return found


def _modifier(text: str, start: int) -> tuple[str, int]:
    """Return the text in braces, and the position after them; braces inside must be in pairs."""
    if start >= len(text) or text[start] != "{":
        return "", start
    depth = 0
    for position in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return text[start + 1 : position], position + 1
    raise click.UsageError(f"--format: a brace is not closed: {text[start:]}")


def _checked(verb: Verb) -> Verb:
    if verb.letter not in TEXTS + NUMBERS + "h":
        raise click.UsageError(f"--format: there is no %{verb.letter}")
    if verb.letter in TEXTS and verb.modifier and verb.modifier not in _CODINGS:
        raise click.UsageError(f"--format: %{verb.letter} takes {', '.join(_CODINGS)}, not {verb.modifier}")
    is_time = verb.letter == "d" and verb.modifier.startswith(("strftime", "go"))
    if verb.letter in NUMBERS and verb.modifier and not is_time and verb.modifier not in _NUMBER_FORMS:
        raise click.UsageError(f"--format: %{verb.letter} takes {', '.join(_NUMBER_FORMS)}, not {verb.modifier}")
    return verb


def argument(modifier: str) -> str:
    """Return the text between the delimiters of `strftime[...]`: brackets, or the same sign several times."""
    rest = modifier.lstrip(string.ascii_letters)
    opening = rest[:1]
    width = len(rest) - len(rest.lstrip(opening)) if opening else 0
    closing = _CLOSING.get(opening, opening) * width
    if not opening or not rest.endswith(closing) or len(rest) < 2 * width:
        raise click.UsageError(f"--format: {modifier} needs its argument in brackets, such as strftime[%F]")
    return rest[width : len(rest) - width]


class Coding(NamedTuple):
    """An encoding of text, for writing and reading."""

    encode: Callable[[bytes], bytes]
    decode: Callable[[bytes], bytes]


def _raw_base64(data: bytes) -> bytes:
    return base64.b64encode(data).rstrip(b"=")


def _from_base64(text: bytes) -> bytes:
    return base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)


_CODINGS: Final[Mapping[str, Coding]] = {
    "hex": Coding(binascii.hexlify, binascii.unhexlify),
    "base64": Coding(base64.b64encode, _from_base64),
    "base64raw": Coding(_raw_base64, _from_base64),
}


def coding(modifier: str) -> Coding | None:
    """Return the encoding of a modifier; None: plain."""
    return _CODINGS.get(modifier)


class NumberForm(NamedTuple):
    """An encoding of numbers, for writing and reading; `size` is None for digits."""

    encode: Callable[[int], bytes]
    decode: Callable[[bytes], int]
    size: int | None = None


def _ascii(number: int) -> bytes:
    return b"%d" % number


def _fixed(layout: str, bits: int) -> NumberForm:
    packed = Struct(layout)
    half = 1 << (bits - 1)

    def encode(number: int) -> bytes:
        return packed.pack((number + half) % (2 * half) - half)

    return NumberForm(encode, lambda data: int(packed.unpack(data)[0]), packed.size)


def _hex(bits: int) -> NumberForm:
    digits = bits // 4
    return NumberForm(lambda number: b"%0*x" % (digits, number % (1 << bits)), lambda data: int(data, 16), digits)


_NUMBER_FORMS: Final[Mapping[str, NumberForm]] = {
    "ascii": NumberForm(_ascii, int),
    **{f"hex{bits}": _hex(bits) for bits in (64, 32, 16, 8, 4)},
    **{f"big{bits}": _fixed(f">{code}", bits) for bits, code in _BITS.items()},
    **{f"little{bits}": _fixed(f"<{code}", bits) for bits, code in _BITS.items()},
    "byte": _fixed(">b", 8),
}


def number_form(modifier: str) -> NumberForm:
    """Return the encoding of numbers of a modifier."""
    return _NUMBER_FORMS[modifier or "ascii"]
