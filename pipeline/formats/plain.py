"""Texts, bytes and numbers, as the serializers of Kafka's own have them.

Owns how many bytes a number has. Counterparts in Kafka: StringConverter, ByteArrayConverter, NumberConverter,
BooleanConverter.
"""

import struct
from typing import Any, ClassVar, Final

from ottla.pipeline.formats.format import Column, Format, Outcome
from ottla.pipeline.settings import Settings

CONVERTERS: Final = "org.apache.kafka.connect.converters."


class StringFormat(Format):
    """Texts in UTF-8; bytes that are none become U+FFFD, as in Kafka. Numbers and dates are written as texts."""

    converter = "org.apache.kafka.connect.storage.StringConverter"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        encoding = settings.part("converter")
        encoding.choice("encoding", ["UTF-8", "UTF8"], "UTF-8")
        encoding.finish()

    def read(self, raw: Column, parsed: Column) -> Outcome:
        """Return texts."""
        from pyspark.sql import functions as fn

        return Outcome(fn.make_valid_utf8(raw.cast("string")), None)

    def write(self, value: Column, field: Any) -> Outcome:
        """Return the bytes of texts."""
        if field.dataType.typeName() in ("struct", "array", "map", "variant"):
            raise self.settings.wrong("type", f"cannot write {field.dataType.simpleString()} as a text")
        return Outcome(value.cast("string").cast("binary"), None)


class BytesFormat(Format):
    """Bytes as they are."""

    converter = CONVERTERS + "ByteArrayConverter"

    def read(self, raw: Column, parsed: Column) -> Outcome:
        """Return the same bytes."""
        return Outcome(raw, None)

    def write(self, value: Column, field: Any) -> Outcome:
        """Return the same bytes, or those of texts."""
        if field.dataType.typeName() not in ("binary", "string"):
            raise self.settings.wrong("type", f"cannot write {field.dataType.simpleString()} as bytes")
        return Outcome(value.cast("binary"), None)


class NumberFormat(Format):
    """Numbers of one size, most significant byte first."""

    name: ClassVar[str]
    kind: ClassVar[str]
    size: ClassVar[int]

    def read(self, raw: Column, parsed: Column) -> Outcome:
        """Return numbers; bytes of another size are none."""
        from pyspark.sql import functions as fn

        wrong = fn.lit(f"Failed to deserialize {self.name}: Size of data received is not {self.size}")
        return Outcome(self.number(raw), fn.when(fn.length(raw) != self.size, wrong))

    def write(self, value: Column, field: Any) -> Outcome:
        """Return the bytes of numbers, where nothing is lost."""
        from pyspark.sql import functions as fn

        if field.dataType.typeName() not in ("byte", "short", "integer", "long", "float", "double", "decimal"):
            raise self.settings.wrong("type", f"cannot write {field.dataType.simpleString()} as {self.name}")
        number = value.try_cast(self.kind)
        wrong = fn.concat(fn.lit(f"Failed to serialize to {self.name}: "), value.cast("string"))
        lost = ~number.try_cast(field.dataType).eqNullSafe(value)
        return Outcome(self.bytes(number), fn.when(lost, wrong))

    def number(self, raw: Column) -> Column:
        """Return the number that bytes of the right size are."""
        from pyspark.sql import functions as fn

        digits = fn.hex(raw)
        padded = fn.lpad(digits, 16, fn.when(digits.rlike("^[89A-F]"), "F").otherwise("0"))
        return fn.when(fn.length(raw) == self.size, fn.conv(padded, 16, -10).cast(self.kind))

    def bytes(self, number: Column) -> Column:
        """Return the bytes of a number."""
        from pyspark.sql import functions as fn

        return fn.unhex(fn.right(fn.lpad(fn.hex(number.cast("bigint")), 16, fn.lit("0")), fn.lit(2 * self.size)))


class LongFormat(NumberFormat):
    """64 bits."""

    converter = CONVERTERS + "LongConverter"
    name, kind, size = "long", "bigint", 8


class IntegerFormat(NumberFormat):
    """32 bits."""

    converter = CONVERTERS + "IntegerConverter"
    name, kind, size = "integer", "int", 4


class ShortFormat(NumberFormat):
    """16 bits."""

    converter = CONVERTERS + "ShortConverter"
    name, kind, size = "short", "smallint", 2


class FloatingFormat(NumberFormat):
    """Numbers with a point. Spark has no function for their bits, so that these pass through Python."""

    code: ClassVar[str]

    def number(self, raw: Column) -> Column:
        """Return the number that bytes of the right size are."""
        from pyspark.sql import functions as fn

        layout = self.code
        size = self.size

        def number(data: bytes | None) -> Any:
            return None if data is None or len(data) != size else struct.unpack(layout, data)[0]

        return fn.udf(number, self.kind, useArrow=False)(raw)

    def bytes(self, number: Column) -> Column:
        """Return the bytes of a number."""
        from pyspark.sql import functions as fn

        layout = self.code

        def data(each: float | None) -> Any:
            return None if each is None else struct.pack(layout, each)

        return fn.udf(data, "binary", useArrow=False)(number)


class DoubleFormat(FloatingFormat):
    """64 bits, as IEEE 754 has them."""

    converter = CONVERTERS + "DoubleConverter"
    name, kind, size, code = "double", "double", 8, ">d"


class FloatFormat(FloatingFormat):
    """32 bits, as IEEE 754 has them."""

    converter = CONVERTERS + "FloatConverter"
    name, kind, size, code = "float", "float", 4, ">f"


class BooleanFormat(Format):
    """One byte, 0 or 1."""

    converter = CONVERTERS + "BooleanConverter"

    def read(self, raw: Column, parsed: Column) -> Outcome:
        """Return true or false; any other bytes are neither."""
        from pyspark.sql import functions as fn

        digits = fn.hex(raw)
        wrong = fn.concat(fn.lit("Failed to deserialize boolean: 0x"), digits)
        return Outcome(digits == "01", fn.when(~digits.isin("00", "01"), wrong))

    def write(self, value: Column, field: Any) -> Outcome:
        """Return the bytes of true and false."""
        from pyspark.sql import functions as fn

        if field.dataType.typeName() != "boolean":
            raise self.settings.wrong("type", f"cannot write {field.dataType.simpleString()} as a boolean")
        return Outcome(fn.when(value, fn.unhex(fn.lit("01"))).when(~value, fn.unhex(fn.lit("00"))), None)
