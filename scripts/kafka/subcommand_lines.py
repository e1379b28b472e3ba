"""The output of Kafka's parser argparse4j: wrapped lines, and suggestions for mistyped names.

PURE. Counterparts: argparse4j's TextHelper, java.text.BreakIterator.
"""

import re
from collections.abc import Sequence
from typing import Final

WIDTH: Final = 75
_INDENT: Final = 25
_FAR: Final = 7


def help_of(title: str, text: str) -> list[str]:
    """Return the lines of help for one argument."""
    lines = f"  {title}".ljust(_INDENT) if len(title) <= _INDENT - 4 else f"  {title}\n" + " " * _INDENT
    for word in text.split():
        is_full = len(lines) - lines.rfind("\n") + len(word) > WIDTH
        lines = lines.rstrip(" ") + "\n" + " " * _INDENT + f"{word} " if is_full else f"{lines}{word} "
    return [line.rstrip() for line in lines.splitlines()]


_BEFORE: Final = r"(\[{\"$"
_AFTER: Final = r"!%.,:;?\"')\]}"
_PIECE: Final = re.compile(
    rf"[{_BEFORE}]*(?:[-{_BEFORE}]*\d+(?:[.,]\d+)*)?[^\s\-!%.,:;?\"()\[\]{{}}]*(?:-+|[{_AFTER}]*)\s?[ ]*"
)
"""A word of java.text.BreakIterator: opening characters, the word, closing characters, and spaces."""


def wrapped(text: str) -> str:
    """Return text wrapped to `WIDTH` and justified, like argparse4j."""
    done, line, taken = "", "", 0
    for piece in filter(None, _PIECE.findall(text)):
        if taken + len(piece) > WIDTH:
            done += _spread(line, taken) + "\n"
            line, taken = "", 0
        taken += len(piece)
        line += piece
        if piece.endswith("\n"):
            done, line, taken = done + line, "", 0
    return done + line


def _spread(line: str, taken: int) -> str:
    bare = line.strip(" ")
    gaps = len(re.findall(" +", bare))
    if not gaps:
        return bare
    needed = WIDTH - (taken - (len(line) - len(bare)))
    each, rest = divmod(needed, gaps)
    first = (gaps - rest + 1) // 2
    numbers = iter(range(gaps))
    return re.sub(" +", lambda found: found[0] + " " * (each + (first <= next(numbers) < first + rest)), bare)


def nearest(mistyped: str, names: Sequence[str]) -> list[str]:
    """Return the names nearest to a word; none if all are far."""
    bodies = {name: name.lstrip("-") for name in names}
    far = {name: 0 if body.startswith(mistyped) else _distance(mistyped, body) for name, body in bodies.items()}
    least = min(far.values(), default=_FAR)
    return sorted(name for name, distance in far.items() if distance == least) if least < _FAR else []


def _distance(word: str, name: str) -> int:
    """Return the cost of changing a word to a name: an added letter 1, a changed one 2, a removed one 4, a swap 0."""
    before: list[int] = []
    last = list(range(len(name) + 1))
    for i, letter in enumerate(word, 1):
        row = [i]
        for j, wanted in enumerate(name, 1):
            cost = last[j - 1] + (0 if letter == wanted else 2)
            if i >= 2 and j >= 2 and letter != wanted and word[i - 2] == wanted and letter == name[j - 2]:
                cost = min(cost, before[j - 2])
            row.append(min(cost, last[j] + 4, row[j - 1] + 1))
        before, last = last, row
    return last[-1]
