"""Times as Java reads them: strict ISO dates with milliseconds, and durations such as P1DT2H.

PURE. Counterparts: org.apache.kafka.common.utils.Utils.getDateTime, java.time.Duration.parse.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from ottla.scripts.kafka.face import JavaError

_DATE: Final = re.compile(r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)\.(\d{1,3})(?:Z|([+-])(\d\d)(?::?(\d\d))?)", re.ASCII)
_DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def date_time_ms(text: str) -> int:
    """Return a time in milliseconds since 1970; in UTC if it has no zone."""
    parts = text.split("T")
    if len(parts) < 2 or not parts[1]:
        raise _parse_exception("Error parsing timestamp. It does not contain a 'T' according to ISO8601 format")
    zoned = text if any(each in parts[1] for each in "+-Z") else f"{text}Z"
    match = _DATE.match(zoned)
    if match is None:
        raise _parse_exception(f'Unparseable date: "{zoned}"')
    *numbers, sign, hours, minutes = match.groups()
    year, month, day, hour, minute, second, milliseconds = map(int, numbers)
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    try:
        local = datetime(year, month, day, hour, minute, second, milliseconds * 1000, UTC)
    except ValueError:
        raise _parse_exception(f'Unparseable date: "{zoned}"') from None
    return (local + (offset if sign == "-" else -offset) - _EPOCH) // _MILLISECOND


def _parse_exception(message: str) -> JavaError:
    return JavaError("java.text.ParseException", message)


def duration_ms(text: str) -> int:
    """Return a duration in milliseconds."""
    match = _DURATION.fullmatch(text)
    if match is None or (match[3] or "").upper() == "T" or not any(match.group(2, 4, 5, 6)):
        raise JavaError("java.time.format.DateTimeParseException", "Text cannot be parsed to a Duration")
    sign, days, _, hours, minutes, seconds, fraction = match.groups()
    whole = ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)
    part = int((fraction or "").ljust(3, "0")[:3]) * (-1 if (seconds or "").startswith("-") else 1)
    return (whole * 1000 + part) * (-1 if sign == "-" else 1)
