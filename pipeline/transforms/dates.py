"""Milliseconds since 1970 as dates, times and texts, and these as milliseconds: in UTC, whatever the session's zone.

Owns SimpleDateFormat's formatting as columns, in English. Must not know any transform. Counterparts in Java:
SimpleDateFormat; in Kafka: Values.dateFormatFor.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn
from pyspark.sql.types import DateType, TimestampType

from ottla.pipeline.transforms.fields import Field
from ottla.pipeline.transforms.java_dates import Token, tokens
from ottla.pipeline.transforms.transform import SCHEMA_NAME

# Connect's time of day: here milliseconds in an int, which its JSON and Avro are too.
TIME: Final = "org.apache.kafka.connect.data.Time"
DAY: Final = 86_400_000
HOUR: Final = 3_600_000
MINUTE: Final = 60_000
SECOND: Final = 1000
# Spark's timestamps are microseconds in 64 bits.
FARTHEST: Final = (1 << 63) // 1000 - 1

_YEAR = "January February March April May June July August September October November December"
_WEEK = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday"
MONTHS: Final = _YEAR.split()
DAYS: Final = _WEEK.split()
_SHORT: Final = 3
_DATE: Final = tokens("yyyy-MM-dd")
_TIME: Final = tokens("HH:mm:ss.SSS'Z'")
_TIMESTAMP: Final = tokens("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")


def millis(field: Field) -> Column | None:
    """Return the milliseconds of a date, a time or a timestamp; None for what is neither."""
    if isinstance(field.type, TimestampType):
        return fn.unix_millis(field.column)
    if isinstance(field.type, DateType):
        return fn.unix_date(field.column).cast("bigint") * DAY
    if field.metadata.get(SCHEMA_NAME) == TIME:
        return field.column.cast("bigint")
    return None


def quotient(number: Column, by: int) -> Column:
    """Divide whole numbers, towards zero as Java does."""
    return fn.call_function("div", number, fn.lit(by).cast("bigint"))


def floored(number: Column, by: int) -> Column:
    """Divide whole numbers, downwards."""
    return quotient(number - fn.pmod(number, fn.lit(by).cast("bigint")), by)


def date_of(ms: Column) -> Column:
    """Return the day."""
    return fn.date_from_unix_date(floored(ms, DAY).cast("int"))


def time_of(ms: Column) -> Column:
    """Return the milliseconds of the day."""
    return fn.pmod(ms, fn.lit(DAY).cast("bigint"))


def value_text(ms: Column) -> Column:
    """Return what Connect writes where it does not say how: a time, a date or both, by the looks of the value."""
    texts = [formatted(ms, form) for form in (_TIME, _DATE, _TIMESTAMP)]
    return fn.when(ms < DAY, texts[0]).when(time_of(ms) == 0, texts[1]).otherwise(texts[2])


def formatted(ms: Column, pattern: Sequence[Token]) -> Column:
    """Format milliseconds."""
    form, values = "", []
    for token in pattern:
        if not token.letter:
            form += token.text.replace("%", "%%")
            continue
        place, value = _formatted_field(token, ms)
        form += place
        values.append(value)
    return fn.when(ms.isNotNull(), fn.format_string(form, *values))


def _formatted_field(token: Token, ms: Column) -> tuple[str, Column]:
    """Return the place of a field in a format string, and what stands there."""
    date, time = date_of(ms), time_of(ms)
    year, hour, weekday = fn.year(date), quotient(time, HOUR), fn.dayofweek(date)
    era_year = fn.when(year > 0, year).otherwise(1 - year)
    is_long, is_text = token.length > _SHORT, token.length >= _SHORT
    match token.letter:
        case "y":
            return ("%02d", era_year % 100) if token.length == 2 else (f"%0{token.length}d", era_year)
        case "M" | "L" if is_text:
            return "%s", _name(MONTHS, fn.month(date), is_long)
        case "E":
            return "%s", _name(DAYS, weekday, is_long)
        case "G":
            return "%s", fn.when(year > 0, fn.lit("AD")).otherwise(fn.lit("BC"))
        case "a":
            return "%s", fn.when(hour < 12, fn.lit("AM")).otherwise(fn.lit("PM"))
        case "z":
            return "%s", fn.lit("Coordinated Universal Time" if is_long else "UTC")
        case "Z" | "X":
            return "%s", fn.lit("+0000" if token.letter == "Z" else "Z")
    numbers = {
        "M": fn.month(date),
        "L": fn.month(date),
        "d": fn.dayofmonth(date),
        "D": fn.dayofyear(date),
        "F": quotient((fn.dayofmonth(date) + 6).cast("bigint"), 7),
        "u": fn.pmod(weekday + 5, fn.lit(7)) + 1,
        "H": hour,
        "k": fn.when(hour == 0, 24).otherwise(hour),
        "K": hour % 12,
        "h": fn.when(hour % 12 == 0, 12).otherwise(hour % 12),
        "m": quotient(time, MINUTE) % 60,
        "s": quotient(time, SECOND) % 60,
        "S": time % SECOND,
    }
    return f"%0{token.length}d", numbers[token.letter]


def _name(names: Sequence[str], number: Column, is_long: bool) -> Column:
    """Return the name of a month or a day, which count from one."""
    return fn.element_at(fn.array(*(fn.lit(name if is_long else name[:_SHORT]) for name in names)), number)
