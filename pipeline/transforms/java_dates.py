"""The patterns of java.text.SimpleDateFormat, taken to pieces.

Pure: what is made of the pieces is in `dates`. Counterpart: java.text.SimpleDateFormat.
"""

import re
from typing import Final, NamedTuple

from ottla.wire.config_def import Check

# What a worker's country decides: on which day a week begins, and which week is the first.
_LOCAL: Final = "YwW"
_KNOWN: Final = "GyMLdDFEuaHkKhmsSzZX"
_PIECE: Final = re.compile(r"''|'((?:[^']|'')*)'|([A-Za-z])\2*|[^'A-Za-z]")
_LONGEST_ZONE: Final = 3


class Token(NamedTuple):
    """A field of a date: its letter and how often it stands there; or, without a letter, text as it is."""

    letter: str
    text: str

    @property
    def length(self) -> int:
        """How often the letter stands there."""
        return len(self.text)


def tokens(pattern: str) -> list[Token]:
    """Return the pieces of a pattern; ValueError for one that cannot be honoured."""
    found = []
    position = 0
    while position < len(pattern):
        match = _PIECE.match(pattern, position)
        if match is None:
            raise ValueError(f"has a quote without another: {pattern}")
        position = match.end()
        found.append(_token(match, pattern))
    return found


def _token(match: re.Match[str], pattern: str) -> Token:
    letter = match[2]
    if match[1] is not None:
        return Token("", match[1].replace("''", "'"))
    if letter is None:
        return Token("", "'" if match[0] == "''" else match[0])
    if letter in _LOCAL:
        raise ValueError(f"has {letter}, which depends on where a worker runs: {pattern}")
    if letter not in _KNOWN or (letter == "X" and len(match[0]) > _LONGEST_ZONE):
        raise ValueError(f"has {match[0]}, which SimpleDateFormat does not know: {pattern}")
    return Token(letter, match[0])


def _fault(pattern: str) -> str | None:
    try:
        tokens(pattern)
    except ValueError as error:
        return str(error)
    return None


JAVA_DATE_FORMAT: Final = Check("pattern of SimpleDateFormat", _fault)
