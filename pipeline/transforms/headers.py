"""Values as the bytes of headers, as Connect's SimpleHeaderConverter writes them, and headers behind others.

Must not know any transform. Counterparts: SimpleHeaderConverter, Values.convertToString.
"""

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as fn
from pyspark.sql.types import ArrayType, AtomicType, BinaryType, MapType, StringType, StructType

from ottla.pipeline.transforms.dates import millis, value_text
from ottla.pipeline.transforms.fields import Field, base64, fields_of


def with_headers(headers: Sequence[tuple[str, Column]]) -> Column:
    """Return a record's headers, and these."""
    nothing = fn.array().cast("array<struct<key: string, value: binary>>")
    new = [fn.struct(fn.lit(name).alias("key"), value.cast("binary").alias("value")) for name, value in headers]
    return fn.concat(fn.coalesce(fn.col("headers"), nothing), fn.array(*new))


def header_value(field: Field) -> Column:
    """Return the bytes of a value; ValueError for a type that Connect does not have."""
    return _text(field, is_inner=False).cast("binary")


def _text(field: Field, *, is_inner: bool) -> Column:
    column, kind = field.column, field.type
    if not isinstance(kind, StructType | ArrayType | MapType):
        text = _plain(field)
        if is_inner and isinstance(kind, StringType):
            text = fn.regexp_replace(text, r'([\\"])', r"\\$1")
        return (
            fn.concat(fn.lit('"'), text, fn.lit('"'))
            if is_inner and isinstance(kind, StringType | BinaryType)
            else text
        )
    if isinstance(kind, ArrayType):
        parts = fn.transform(column, lambda each: _inner(Field("", each, kind.elementType)))
        return fn.concat(fn.lit("["), fn.array_join(parts, ","), fn.lit("]"))
    if isinstance(kind, MapType):
        parts = fn.transform(
            fn.map_entries(column),
            lambda each: fn.concat(
                _inner(Field("", each["key"], kind.keyType)),
                fn.lit(":"),
                _inner(Field("", each["value"], kind.valueType)),
            ),
        )
        return fn.concat(fn.lit("{"), fn.array_join(parts, ","), fn.lit("}"))
    named = [fn.concat(fn.lit(f'"{_escaped(each.name)}":'), _inner(each)) for each in fields_of(field)]
    return fn.when(column.isNotNull(), fn.concat(fn.lit("{"), fn.concat_ws(",", *named), fn.lit("}")))


def _inner(field: Field) -> Column:
    return fn.coalesce(_text(field, is_inner=True), fn.lit("null"))


def _plain(field: Field) -> Column:
    ms = millis(field)
    if ms is not None:
        return value_text(ms)
    if isinstance(field.type, BinaryType):
        return base64(field.column)
    if not isinstance(field.type, AtomicType):
        raise ValueError(f"names {field.name}, which is {field.type.simpleString()} and cannot be a header")
    return field.column.cast("string")


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"')
