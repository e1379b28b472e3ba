"""A literal as the bytes of a header: parsed and written anew, as Connect does.

Pure. Counterparts: Values.parseString, Values.convertToString, SimpleHeaderConverter.fromConnectHeader.
"""

import datetime
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Final

_TOKEN: Final = re.compile(r'[:,{}\[\]"]|(?:\\[\s\S]|[^:,{}\[\]"\\])+|\\')
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
# By their lengths, which have to be these, whatever the digits: a date, a time and both.
_TEMPORAL: Final = {
    10: re.compile(r"(\d+)-(\d+)-(\d+)"),
    13: re.compile(r"()()()(\d+):(\d+):(\d+)\.(\d+)Z"),
    24: re.compile(r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)\.(\d+)Z"),
}
# A time is five tokens, for colons are tokens too.
_TOKENS_OF_A_TIME: Final = 5
_LONGS: Final = range(-(1 << 63), 1 << 63)
_DAY: Final = datetime.timedelta(days=1)
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_PLAIN_FROM: Final = 1e-3
_PLAIN_UNTIL: Final = 1e7


def header_bytes(literal: str) -> bytes | None:
    """Return what stands in the header, or None for `null`."""
    return None if literal == "null" else _written_anew(literal).encode()


def _written_anew(literal: str) -> str:
    if not literal or literal[0] in "[{":
        return literal
    tokens = [match[0] for match in _TOKEN.finditer(literal)]
    first = tokens[0].strip()
    candidates = ["".join([first, *tokens[1:_TOKENS_OF_A_TIME]])] if len(tokens) >= _TOKENS_OF_A_TIME else []
    for candidate in [*candidates, first]:
        time = _time(candidate.replace("\\:", ":")) if candidate[:1].isdigit() else None
        if time is not None:
            return time
    # Connect looks at no token but the first.
    return _number(first) if _NUMBER.fullmatch(first) and first[0] != "." else literal


def _time(text: str) -> str | None:
    """Read leniently, as SimpleDateFormat: what is too great goes over into the next field."""
    form = _TEMPORAL.get(len(text))
    match = form.match(text) if form else None
    if match is None:
        return None
    year, month, day, hour, minute, second, ms = (int(part or 0) for part in (*match.groups(), *"0000")[:7])
    if len(text) == 13:
        year, month, day = 1970, 1, 1
    try:
        first = datetime.datetime(year + (month - 1) // 12, (month - 1) % 12 + 1, 1)
        time = first + datetime.timedelta(day - 1, second, 0, ms, minute, hour)
    except (ValueError, OverflowError):
        return None
    stamp = time.strftime("T%H:%M:%S.") + f"{time.microsecond // 1000:03}Z"
    if time < _EPOCH + _DAY:
        return stamp[1:]
    date = f"{time.year:04}-{time.month:02}-{time.day:02}"
    return date if (time - _EPOCH) % _DAY == datetime.timedelta() else date + stamp


def _number(text: str) -> str:
    number = Decimal(text)
    whole = int(number)
    if number == whole and whole in _LONGS:
        return str(whole)
    if number.as_tuple().exponent == 0:
        return str(number)
    for narrow in (_as_float, float):
        value = narrow(number)
        if value not in (float("inf"), float("-inf")):
            return _java_text(value, narrow)
    return str(number)


def _as_float(number: Decimal | float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", float(number)))[0])
    except OverflowError:
        return float("inf")


def _java_text(value: float, narrow: Callable[[float], float]) -> str:
    """Write the fewest digits that mean the value, as Java does."""
    texts = (f"{value:.{digits}e}" for digits in range(17))
    shortest = next(text for text in texts if narrow(float(text)) == value)
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_UNTIL:
        plain = f"{Decimal(shortest):f}"
        return plain if "." in plain else f"{plain}.0"
    mantissa, _, exponent = shortest.partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"
