"""Texts as milliseconds since 1970, by a pattern, as lenient as SimpleDateFormat: in UTC, English names.

Owns the regular expression that a pattern becomes, and what a date is that only some fields are known of. Counterpart:
java.text.SimpleDateFormat.parse, java.util.CalendarBuilder.
"""

import datetime
import re
from collections.abc import Iterator, Sequence
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn

from ottla.pipeline.transforms.dates import DAY, DAYS, HOUR, MINUTE, MONTHS, SECOND, floored
from ottla.pipeline.transforms.java_dates import Token

_BETWEEN: Final = "\x01"
_PARTS: Final = "__parts"
_SHORT: Final = 3
# No number is longer, so that nothing overflows; years have fewer digits, for Spark's dates end.
_DIGITS: Final = 9
_YEAR_DIGITS: Final = 6
_CENTURY_BEGINS_BEFORE: Final = 80
_ZONES: Final = {
    "z": r"(?i:GMT|UTC)(?:[+-]\d{1,2}:\d{2})?|[+-]\d{4}",
    "X": r"Z|[+-]\d{2}",
    "XX": r"Z|[+-]\d{4}",
    "XXX": r"Z|[+-]\d{2}:\d{2}",
}
_READ: Final = "yMLdDHkKhamsSEzZX"


def stages(text: Column, pattern: Sequence[Token], name: str) -> list[dict[str, Column]]:
    """Return columns, each made of those before: the last is of this name and has the milliseconds.

    It is null where the text does not match. ValueError for fields that cannot be read.
    """
    fields = [token for token in pattern if token.letter]
    for token in fields:
        if token.letter not in _READ:
            raise ValueError(f"has {token.letter}, which can be written but not read")
    expression = r"\A" + "".join(_expressions(pattern))
    groups = _BETWEEN.join(f"${number}" for number in range(1, len(fields) + 1))
    parts = fn.split(fn.regexp_replace(text, rf"{expression}[\s\S]*\z", groups), _BETWEEN)
    # As Java: of a letter that stands there twice, the last counts.
    values = {token.letter: (token, fn.get(fn.col(_PARTS), fn.lit(at))) for at, token in enumerate(fields)}
    together = fn.when(fn.col(_PARTS).isNotNull(), _together(values))
    return [{_PARTS: fn.when(text.rlike(expression), parts)}, {name: together}]


def _expressions(pattern: Sequence[Token]) -> Iterator[str]:
    for token, following in zip(pattern, [*pattern[1:], Token("", "")], strict=True):
        if not token.letter:
            yield re.escape(token.text)
            continue
        blanks = r"[ \t]*"
        if _is_number(token):
            most = _YEAR_DIGITS if token.letter == "y" else _DIGITS
            # A number that another one follows has no more digits than it has letters.
            number = rf"\d{{1,{min(token.length, most)}}}+" if _is_number(following) else rf"\d{{1,{most}}}+(?!\d)"
            yield f"{blanks}({number})"
        elif token.letter in "zZX":
            yield f"{blanks}({_ZONES[token.text if token.letter == 'X' else 'z']})"
        else:
            names = {"a": ["AM", "PM"], "E": DAYS}.get(token.letter, MONTHS)
            both = "|".join([*names, *(name[:_SHORT] for name in names)])
            yield f"{blanks}((?i:{both}))"


def _is_number(token: Token) -> bool:
    return token.letter in set("ydDHkKhmsS") or (token.letter in set("ML") and token.length < _SHORT)


def _together(values: dict[str, tuple[Token, Column]]) -> Column:
    """Put fields together: what is missing is as 1970 began, what is too great goes over into the next."""

    def number(letter: str, default: int) -> Column:
        return values[letter][1].try_cast("bigint") if letter in values else fn.lit(default).try_cast("bigint")

    month = number("M", 1) - 1
    for letter in "ML":
        if letter in values:
            token, part = values[letter]
            month = part.try_cast("bigint") - 1 if _is_number(token) else _position(MONTHS, part)
    year = _year(*values["y"]) if "y" in values else fn.lit(1970).try_cast("bigint")
    first = fn.make_date(
        (year + floored(month, 12)).cast("int"), (fn.pmod(month, fn.lit(12)) + 1).cast("int"), fn.lit(1)
    )
    day = fn.unix_date(first).try_cast("bigint") + number("d", 1) - 1
    if "D" in values and not {"M", "L", "d"} & set(values):
        day = day + number("D", 1) - 1
    hour = number("H", 0)
    if "k" in values:
        hour = fn.when(number("k", 0) == 24, 0).otherwise(number("k", 0))
    elif "H" not in values:
        twelve = number("h", 0)
        hour = fn.when(twelve == 12, 0).otherwise(twelve) if "h" in values else number("K", 0)
        if "a" in values:
            hour = hour + fn.when(fn.upper(values["a"][1]) == "PM", 12).otherwise(0)
    ms = day * DAY + hour * HOUR + number("m", 0) * MINUTE + number("s", 0) * SECOND + number("S", 0)
    for letter in "zZX":
        if letter in values:
            ms = ms - _offset(values[letter][1])
    return ms


def _year(token: Token, part: Column) -> Column:
    """Return the year; two digits mean one between 80 years ago and 20 years on."""
    year = part.try_cast("bigint")
    if token.length > 2:
        return year
    begins = datetime.datetime.now(datetime.UTC).year - _CENTURY_BEGINS_BEFORE
    full = begins // 100 * 100 + year + fn.when(year < begins % 100, 100).otherwise(0)
    return fn.when(fn.length(part) == 2, full).otherwise(year)


def _position(names: Sequence[str], part: Column) -> Column:
    """Return where a name stands, from zero."""
    all_names = fn.lit("".join(name[:_SHORT] for name in names).lower())
    found = fn.instr(all_names, fn.lower(fn.substring(part, 1, _SHORT))) - 1
    return floored(found.try_cast("bigint"), _SHORT)


def _offset(part: Column) -> Column:
    """Return the milliseconds that a zone is before UTC."""
    digits = fn.regexp_replace(part, r"\D", "")
    minutes = fn.when(fn.length(digits) > 2, fn.right(digits, fn.lit(2))).otherwise("0")
    hours = fn.regexp_extract(digits, r"\A(\d{1,2}?)(?:\d\d)?\z", 1)
    ahead = fn.coalesce(hours.try_cast("bigint"), fn.lit(0)) * HOUR + minutes.try_cast("bigint") * MINUTE
    return fn.when(part.contains("-"), -ahead).otherwise(ahead)
