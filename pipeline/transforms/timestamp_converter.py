"""TimestampConverter: turns times of one form into another."""

from typing import TYPE_CHECKING, Any, Final

from ottla.pipeline.declared import REQUIRED
from ottla.pipeline.transforms.java_dates import JAVA_DATE_FORMAT, tokens
from ottla.pipeline.transforms.transform import SCHEMA_NAME, Change, PartTransform
from ottla.pipeline.transforms.unused import REPLACE_NULL_WITH_DEFAULT
from ottla.wire.config_def import ConfigKey, ConfigType, OneOf

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MS: Final = "__milliseconds"
_OUT_OF_RANGE: Final = "Timestamp out of range: "
# How many of a unit are a millisecond, or how many milliseconds are one.
_UNITS: Final = {"nanoseconds": (1_000_000, 1), "microseconds": (1000, 1), "milliseconds": (1, 1), "seconds": (1, 1000)}


class TimestampConverter(PartTransform):
    """Turn points in time from one form into another: texts, numbers since 1970, dates, times of day, timestamps.

    It does so with a field of a struct, or with the whole. A `Time` is an int of milliseconds whose metadata
    `connect.name` says so. Strings are UTC with English names. They are read as leniently as SimpleDateFormat reads
    them, but for zones other than UTC, GMT and offsets, and for years of more than six digits. Timestamps beyond the
    year 290000 are refused.
    """

    field = ConfigKey(
        "field",
        ConfigType.STRING,
        "",
        doc="Name of the field; empty: the whole.",
    )
    target_type = ConfigKey[str](
        "target.type",
        ConfigType.STRING,
        REQUIRED,
        OneOf("string", "unix", "Date", "Time", "Timestamp"),
        "What it is to become.",
    )
    format = ConfigKey(
        "format",
        ConfigType.STRING,
        "",
        JAVA_DATE_FORMAT,
        "How texts are written and read.",
    )
    unix_precision = ConfigKey(
        "unix.precision",
        ConfigType.STRING,
        "milliseconds",
        OneOf(*_UNITS),
        "What numbers since 1970 count. What is finer than milliseconds is lost.",
    )
    replace_null_with_default = REPLACE_NULL_WITH_DEFAULT

    def prepare(self) -> None:
        """Insist on a format for strings."""
        if self.target_type == "string" and not self.format:
            raise self.settings.wrong("format", "is missing for target.type=string")

    def change(self, frame: "DataFrame") -> Change:
        """Convert the whole, or one of its fields; a struct without that field stays as it is."""
        from pyspark.sql import functions as fn

        from ottla.pipeline.transforms import dates, fields

        whole = fields.top(frame, self.part)
        if self.field and not fields.is_struct(whole.type):
            raise self.unfit("a struct", whole.type)
        inner = fields.fields_of(whole) if self.field else []
        found = [each for each in inner if each.name == self.field] if self.field else [whole]
        if not found:
            return Change({})
        (old,) = found
        staged, reason = self._read(old)
        ms = fn.col(_MS)
        is_good = ms.between(-dates.FARTHEST, dates.FARTHEST)
        reason = fn.when(ms.isNull(), reason).otherwise(fn.concat(fn.lit(_OUT_OF_RANGE), old.column.cast("string")))
        failure = fn.when(old.column.isNotNull() & ~fn.coalesce(is_good, fn.lit(False)), reason)
        metadata = {SCHEMA_NAME: dates.TIME} if self.target_type == "Time" else {}
        new = self._written(fn.when(is_good, ms))
        if not self.field:
            return Change({self.part: new}, failure, {self.part: metadata}, staged)
        made = fields.struct_of(
            fields.Field(each.name, new, metadata=metadata) if each is old else each for each in inner
        )
        return Change({self.part: fields.unless_null(whole.column, made)}, failure, staged=staged)

    def _read(self, field: Any) -> "tuple[list[dict[str, Column]], Column]":
        """Return the columns that lead to the milliseconds, and what is said where they are null."""
        from pyspark.sql import functions as fn
        from pyspark.sql.types import LongType, StringType

        from ottla.pipeline.transforms import date_parsing, dates

        text = field.column.cast("string")
        ms = dates.millis(field)
        if ms is not None:
            return [{_MS: ms}], text
        if isinstance(field.type, LongType):
            finer, coarser = _UNITS[self.unix_precision]
            ms = dates.quotient(fn.try_multiply(field.column, fn.lit(coarser)), finer)
            return [{_MS: ms}], fn.concat(fn.lit(_OUT_OF_RANGE), text)
        if not isinstance(field.type, StringType):
            raise self.settings.wrong("field", f"is no timestamp, but {field.type.simpleString()}")
        if not self.format:
            raise self.settings.wrong("format", f"is missing for {field.name}, which is a string")
        try:
            staged = date_parsing.stages(field.column, tokens(self.format), _MS)
        except ValueError as error:
            raise self.settings.wrong("format", f"{error}: {self.format}") from None
        pieces = fn.lit("Could not parse timestamp: value ("), text, fn.lit(f") does not match pattern ({self.format})")
        return staged, fn.concat(*pieces)

    def _written(self, ms: "Column") -> "Column":
        """Return the milliseconds in their new form."""
        from pyspark.sql import functions as fn

        from ottla.pipeline.transforms import dates

        match self.target_type:
            case "string":
                return dates.formatted(ms, tokens(self.format))
            case "unix":
                return self._unix(ms)
            case "Date":
                return dates.date_of(ms)
            case "Time":
                return dates.time_of(ms).cast("int")
        return fn.timestamp_millis(ms)

    def _unix(self, ms: "Column") -> "Column":
        from pyspark.sql import functions as fn

        from ottla.pipeline.transforms import dates

        finer, coarser = _UNITS[self.unix_precision]
        # Only nanoseconds overflow, within the years that there are: Java ends at the greatest number then.
        greatest = (1 << 63) - 1
        ends = fn.when(ms > 0, fn.lit(greatest)).when(ms < 0, fn.lit(-greatest - 1))
        return dates.quotient(fn.coalesce(fn.try_multiply(ms, fn.lit(finer).cast("bigint")), ends), coarser)
