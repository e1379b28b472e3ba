"""Numbers as Java reads and prints them, with its error messages.

PURE. Counterparts: Integer.valueOf and its like, java.util.Formatter.
"""

import math
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final, NamedTuple


class JavaType(NamedTuple):
    """The Java class of an argument's value, and its parser. ValueError for invalid text."""

    name: str
    convert: Callable[[str], Any]


def _whole(bits: int, too_large: str | None = None) -> Callable[[str], int]:
    def convert(text: str) -> int:
        if not re.fullmatch(r"[+-]?\d+", text):
            raise ValueError(f'For input string: "{text}"')
        number = int(text)
        if not -(1 << bits - 1) <= number < 1 << bits - 1:
            raise ValueError((too_large or 'For input string: "{}"').format(text))
        return number

    return convert


def _double(text: str) -> float:
    if not text.strip():
        raise ValueError("empty String")
    try:
        return float(text.replace("_", "x"))
    except ValueError:
        raise ValueError(f'For input string: "{text}"') from None


STRING: Final = JavaType("String", str)
SHORT: Final = JavaType("Short", _whole(16, 'Value out of range. Value:"{}" Radix:10'))
INTEGER: Final = JavaType("Integer", _whole(32))
LONG: Final = JavaType("Long", _whole(64))
DOUBLE: Final = JavaType("Double", _double)


def fixed(value: float, digits: int) -> str:
    """Return a number in the format `%.Nf` of Java."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return str(Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))


def quotient(dividend: float, divisor: float) -> float:
    """Return the quotient of doubles as in Java, where a divisor of 0 is not an error."""
    if divisor:
        return dividend / divisor
    return math.copysign(math.inf, dividend) if dividend else math.nan
