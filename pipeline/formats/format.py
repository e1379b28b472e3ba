"""What every format is: bytes of a key or value become a typed column, and the other way round.

Owns what becomes of rows that cannot be read or written. Must import without pyspark. Counterpart in Kafka: Converter.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from ottla.pipeline.record_frame import settled
from ottla.pipeline.settings import Settings

DataFrame = Any
Column = Any
STAGES = {"key": "KEY_CONVERTER", "value": "VALUE_CONVERTER"}
_PARSED = "parsed"


class Outcome(NamedTuple):
    """A new column, and a text that is not null where a row has a problem; None where none has."""

    value: Column
    problem: Column | None


class Format:
    """One format, read and checked as far as that is possible without Spark."""

    converter: ClassVar[str]
    """The class of Connect that does the same; dead letters name it."""
    needs: ClassVar[Sequence[str]] = ()
    """What has to be among Spark's jars."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def check_reading(self) -> None:
        """Refuse, before Spark starts, to read with these settings."""

    def check_writing(self) -> None:
        """Refuse, before Spark starts, to write with these settings."""

    def decode(self, frame: DataFrame, column: str, place: Column | None = None) -> DataFrame:
        """Return the frame with bytes made typed values; a row that cannot be read gets an error, null stays null.

        `place` is a text that the error begins with: where a row is that came from no topic.
        """
        from pyspark.sql import functions

        self.check_reading()
        raw = functions.when(functions.col("error").isNull(), functions.col(column))
        # A column of its own, so that Spark parses once what is looked at many times.
        parsed = frame.withColumn(_PARSED, self.parse(raw))
        value, problem = self.read(functions.col(column), functions.col(_PARSED))
        if place is not None and problem is not None:
            problem = functions.concat(place, problem)
        return settled(parsed, column, value, problem, STAGES[column], self.converter)

    def encode(self, frame: DataFrame, column: str) -> DataFrame:
        """Return the frame with values made bytes; a row that cannot be written gets an error, null stays null."""
        from pyspark.sql import functions
        from pyspark.sql.types import StructField

        self.check_writing()
        field = frame.schema[column]
        value = functions.when(functions.col("error").isNull(), functions.col(column))
        zoned = _zoned(field.dataType)
        if zoned != field.dataType:
            field, value = StructField(column, zoned, field.nullable, field.metadata), value.cast(zoned)
        if field.dataType.typeName() == "void":
            return settled(frame, column, value.cast("binary"), None, STAGES[column], self.converter)
        outcome = self.write(value, field)
        return settled(frame, column, *outcome, STAGES[column], self.converter)

    def parse(self, raw: Column) -> Column:
        """Return what `read` looks at besides the bytes."""
        return raw

    def read(self, raw: Column, parsed: Column) -> Outcome:
        """Return values and problems of bytes."""
        raise NotImplementedError

    def write(self, value: Column, field: Any) -> Outcome:
        """Return bytes and problems of values; JobError where the field's type cannot be written at all."""
        raise NotImplementedError


def _zoned(kind: Any) -> Any:
    """Return a type in which times without a zone are points in time, in the session's zone: bytes have no others."""
    from pyspark.sql import types

    if isinstance(kind, types.TimestampNTZType):
        return types.TimestampType()
    if isinstance(kind, types.StructType):
        fields = ((each.name, _zoned(each.dataType), each.nullable, each.metadata) for each in kind.fields)
        return types.StructType([types.StructField(*each) for each in fields])
    if isinstance(kind, types.ArrayType):
        return types.ArrayType(_zoned(kind.elementType), kind.containsNull)
    if isinstance(kind, types.MapType):
        return types.MapType(_zoned(kind.keyType), _zoned(kind.valueType), kind.valueContainsNull)
    return kind
