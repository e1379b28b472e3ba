"""Values as other types, as Java makes them: numbers lose their upper bits, texts have to be what they are taken for.

Owns Cast's rules as columns. Must not know the transform. Counterpart: Cast.castValueToType.
"""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn
from pyspark.sql.types import BinaryType, BooleanType, DecimalType, FractionalType, IntegralType, StringType

from ottla.pipeline.transforms.dates import millis, value_text
from ottla.pipeline.transforms.fields import Field, base64

SPARK_TYPES: Final = {
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float32": "float",
    "float64": "double",
    "boolean": "boolean",
    "string": "string",
}
_BITS: Final = {"int8": 8, "int16": 16, "int32": 32}
_SPECIAL: Final = r"\A\s*[+-]?(?:NaN|Infinity)\s*\z"
_ANY_SPECIAL: Final = r"(?i)\A\s*[+-]?(?:nan|inf|infinity)\s*\z"


def casted(field: Field, target: str) -> Column:
    """Return the field as one of Connect's types, null where that cannot be; ValueError for types that cannot ever."""
    column, kind = field.column, field.type
    ms = millis(field)
    if ms is not None and target == "string":
        return value_text(ms)
    if ms is not None:
        is_date = kind.simpleString() == "date"
        return _from_whole(fn.unix_date(column).cast("bigint") if is_date else ms, target)
    if isinstance(kind, BinaryType) and target == "string":
        return base64(column)
    if isinstance(kind, StringType):
        return _from_text(column, target)
    if isinstance(kind, BooleanType):
        return column if target == "boolean" else column.cast(SPARK_TYPES[target])
    if not isinstance(kind, IntegralType | FractionalType):
        raise ValueError(f"{kind.simpleString()} cannot become {target}")
    if target in ("float32", "float64", "string"):
        return column.cast(SPARK_TYPES[target])
    if isinstance(kind, IntegralType):
        return _from_whole(column.cast("bigint"), target)
    if isinstance(kind, DecimalType):
        return _from_whole(column.try_cast("bigint"), target)
    return _from_fraction(column.cast("double"), target)


def _from_text(column: Column, target: str) -> Column:
    if target == "string":
        return column
    if target == "boolean":
        return fn.lower(column) == "true"
    read = column.try_cast(SPARK_TYPES[target])
    if target.startswith("int"):
        return fn.when(column.rlike(r"\A[+-]?\d+\z"), read)
    return fn.when(~column.rlike(_ANY_SPECIAL) | column.rlike(_SPECIAL), read)


def _from_whole(number: Column, target: str) -> Column:
    if target == "boolean":
        return number != 0
    if target not in _BITS:
        return number.cast(SPARK_TYPES[target])
    sign = 1 << (_BITS[target] - 1)
    lowest = number.bitwiseAND(fn.lit(2 * sign - 1).cast("bigint"))
    return (lowest.bitwiseXOR(fn.lit(sign).cast("bigint")) - sign).cast(SPARK_TYPES[target])


def _from_fraction(number: Column, target: str) -> Column:
    """Cut off the fraction; what is too great becomes the greatest int, or long, before its upper bits go."""
    bits, kind = (64, "bigint") if target in ("int64", "boolean") else (32, "int")
    least, greatest = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    whole = (
        fn.when(fn.isnan(number), fn.lit(0).cast(kind))
        .when(number >= float(greatest), fn.lit(greatest).cast(kind))
        .when(number <= float(least), fn.lit(least).cast(kind))
        .otherwise(number.try_cast(kind))
    )
    return _from_whole(whole.cast("bigint"), target)
