"""MaskField: puts something harmless into the place of what fields hold."""

import re
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Final

from ottla.pipeline.declared import NON_EMPTY_LIST, NON_EMPTY_TEXT, REQUIRED
from ottla.pipeline.transforms.transform import Change, PartTransform
from ottla.pipeline.transforms.unused import REPLACE_NULL_WITH_DEFAULT
from ottla.wire.config_def import ConfigKey, ConfigType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?")
# More than decimals of Spark can have.
_DIGITS: Final = 100
_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


class MaskField(PartTransform):
    """Hide what fields hold: 0, false, an empty text or list, the first moment of 1970, or a replacement stand there.

    Fields that cannot be masked, and a replacement that does not fit, are refused before any record. Masked decimals
    keep their scale.
    """

    fields = ConfigKey[tuple[str, ...]]("fields", ConfigType.LIST, REQUIRED, NON_EMPTY_LIST, "Names of the fields.")
    replacement = ConfigKey[str | None](
        "replacement",
        ConfigType.STRING,
        None,
        NON_EMPTY_TEXT,
        "A number, for fields of numbers, or a text; other fields can have none.",
    )
    replace_null_with_default = REPLACE_NULL_WITH_DEFAULT

    def change(self, frame: "DataFrame") -> Change:
        """Mask fields of a struct, or entries of a map."""
        from ottla.pipeline.transforms import fields

        whole = fields.top(frame, self.part)
        failure = fields.failure_of_null(whole.column, "mask fields")
        if fields.is_map(whole.type):
            made = whole.column
            for name in self.fields:
                made = fields.with_entry(made, name, self._masked(name, whole.column[name], whole.type.valueType))
            return Change({self.part: made}, failure)
        if not fields.is_struct(whole.type):
            raise self.unfit("a struct or a map", whole.type)
        masked = [
            fields.Field(each.name, self._masked(each.name, each.column, each.type), metadata=each.metadata)
            if each.name in self.fields
            else each
            for each in fields.fields_of(whole)
        ]
        return Change({self.part: fields.struct_of(masked)}, failure)

    def _masked(self, name: str, column: "Column", kind: Any) -> "Column":
        from pyspark.sql import functions as fn
        from pyspark.sql.types import ArrayType, MapType

        if self.replacement is None and isinstance(kind, ArrayType):
            return fn.filter(column, lambda _: fn.lit(False))
        if self.replacement is None and isinstance(kind, MapType):
            return fn.map_filter(column, lambda _, __: fn.lit(False))
        mask = self._nothing(name, kind) if self.replacement is None else self._replaced(name, kind, self.replacement)
        return fn.when(column.isNotNull(), mask.cast(kind))

    def _nothing(self, name: str, kind: Any) -> "Column":
        from pyspark.sql import functions as fn
        from pyspark.sql.types import BooleanType, DateType, NumericType, StringType, TimestampType

        for of, value in ((StringType, ""), (BooleanType, False), (NumericType, 0)):
            if isinstance(kind, of):
                return fn.lit(value)
        if isinstance(kind, TimestampType):
            return fn.timestamp_seconds(fn.lit(0))
        if isinstance(kind, DateType):
            return fn.date_from_unix_date(fn.lit(0))
        raise self.settings.wrong("fields", f"names {name}, but what is {kind.simpleString()} cannot be masked")

    def _replaced(self, name: str, kind: Any, text: str) -> "Column":
        from pyspark.sql import functions as fn
        from pyspark.sql.types import DecimalType, NumericType, StringType

        if isinstance(kind, StringType):
            return fn.lit(text)
        if not isinstance(kind, NumericType):
            raise self.settings.wrong("replacement", f"cannot take the place of {name}, which is {kind.simpleString()}")
        if not _NUMBER.fullmatch(text):
            raise self.settings.wrong("replacement", f"is no number, but {name} is {kind.simpleString()}: {text!r}")
        number = Decimal(text)
        if kind.simpleString() in _BITS:
            return fn.lit(_wrapped(number, _BITS[kind.simpleString()]))
        if not isinstance(kind, DecimalType):
            return fn.lit(float(number))
        fits = number.is_zero() or number.adjusted() < kind.precision - kind.scale
        if not fits or number.quantize(Decimal(1).scaleb(-kind.scale), context=Context(_DIGITS)) != number:
            raise self.settings.wrong("replacement", f"does not fit {name}, which is {kind.simpleString()}: {text!r}")
        return fn.lit(number)


def _wrapped(number: Decimal, bits: int) -> int:
    """Keep the lowest bits of a number without its fraction, as Java does."""
    half = 1 << (bits - 1)
    # A power of ten has as many zero bits at its end; nobody needs the digits of a great one.
    whole = 0 if int(number.as_tuple().exponent) >= bits else int(number)
    return (whole + half) % (1 << bits) - half
