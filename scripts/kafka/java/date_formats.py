"""Java's formats of times, such as yyyy-MM-dd HH:mm:ss:SSS, in the local zone.

Counterpart: java.text.SimpleDateFormat, with the names and weeks of the United States. Zones have short names only.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

from ottla.scripts.kafka.face import illegal_argument

_PIECE: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+|'")
_NOON: Final = 12
_SHORT_NAME: Final = 3
_NAMES: Final = {
    "M": ("%b", "%B"),
    "L": ("%b", "%B"),
    "E": ("%a", "%A"),
    "a": ("%p", "%p"),
    "G": ("AD", "AD"),
    "z": ("%Z", "%Z"),
    "Z": ("%z", "%z"),
}
"""The short and the long form of each letter."""
_WEEK: Final = 7


def _week_year(moment: datetime) -> int:
    """Return the year of a week, which is the year of its Saturday."""
    return (moment + timedelta(days=_WEEK - 1 - moment.isoweekday() % _WEEK)).year


def _week(moment: datetime, day: int) -> int:
    """Return the number of a week, which begins on Sunday, for the day of a year or a month."""
    first = (moment.isoweekday() - day + 1) % _WEEK
    return (day - 1 + first) // _WEEK + 1


_NUMBERS: Final[Mapping[str, Callable[[datetime], int]]] = {
    "d": lambda moment: moment.day,
    "D": lambda moment: moment.timetuple().tm_yday,
    "H": lambda moment: moment.hour,
    "k": lambda moment: moment.hour or 24,
    "K": lambda moment: moment.hour % _NOON,
    "h": lambda moment: moment.hour % _NOON or _NOON,
    "m": lambda moment: moment.minute,
    "s": lambda moment: moment.second,
    "S": lambda moment: moment.microsecond // 1000,
    "u": lambda moment: moment.isoweekday(),
    "w": lambda moment: 1 if _week_year(moment) > moment.year else _week(moment, moment.timetuple().tm_yday),
    "W": lambda moment: _week(moment, moment.day),
    "F": lambda moment: (moment.day - 1) // _WEEK + 1,
}


class DateFormat:
    """A format. JavaError for an invalid one."""

    def __init__(self, pattern: str) -> None:
        self._pieces = list(_PIECE.finditer(pattern))
        for piece in self._pieces:
            if piece[0] == "'":
                raise illegal_argument("Unterminated quote")
            if piece[2] is not None and piece[2] not in {*_NUMBERS, *_NAMES, *"yYX"}:
                raise illegal_argument(f"Illegal pattern character '{piece[2]}'")
            if piece[2] == "X" and len(piece[0]) > _SHORT_NAME:
                raise illegal_argument(f"invalid ISO 8601 format: length={len(piece[0])}")

    def format(self, time_ms: int) -> str:
        """Return the text of a time in milliseconds since 1970."""
        moment = datetime.fromtimestamp(time_ms / 1000).astimezone().replace(microsecond=time_ms % 1000 * 1000)
        return "".join(_formatted(piece, moment) for piece in self._pieces)


def _formatted(piece: re.Match[str], moment: datetime) -> str:
    if piece[1] is not None:
        return piece[1].replace("''", "'") or "'"
    letter, count = piece[2], len(piece[0])
    if letter is None:
        return piece[0]
    if letter in _NUMBERS:
        return f"{_NUMBERS[letter](moment):0{count}}"
    match letter:
        case "y" | "Y":
            year = moment.year if letter == "y" else _week_year(moment)
            return f"{year % 100:02}" if count == 2 else f"{year:0{count}}"
        case "M" | "L" if count < _SHORT_NAME:
            return f"{moment.month:0{count}}"
        case "X":
            return _offset(f"{moment:%z}", count)
    short, long = _NAMES[letter]
    return moment.strftime(long if count > _SHORT_NAME else short)


def _offset(zone: str, count: int) -> str:
    if zone == "+0000":
        return "Z"
    return {1: zone[:3], 2: zone}.get(count, f"{zone[:3]}:{zone[3:]}")
