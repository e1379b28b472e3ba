"""The fields of structs and maps as columns: taking them out, and making new structs and maps of them.

Owns what Spark's types mean here: which are the same, and how one fits another. Must not know any transform.
Counterparts in Kafka: Struct, SchemaBuilder, Requirements.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import DataType, MapType, StringType, StructField, StructType

NULL_MAP: Final = "Only Map objects supported in absence of schema for [{}], found: null"


@dataclass(frozen=True)
class Field:
    """A column or a field of one, its type unless it is to be made, and its metadata."""

    name: str
    column: Column
    type: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


def top(frame: DataFrame, name: str) -> Field:
    """Return a column of a frame."""
    found = frame.schema[name]
    return Field(name, fn.col(name), found.dataType, found.metadata)


def fields_of(struct: Field) -> list[Field]:
    """Return the fields of a struct."""
    return [Field(each.name, struct.column[each.name], each.dataType, each.metadata) for each in struct.type.fields]


def struct_of(fields: Iterable[Field]) -> Column:
    """Make a struct; ValueError if two fields have one name."""
    fields = list(fields)
    names = [each.name for each in fields]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"makes two fields of the name {name}")
    return fn.struct(*(each.column.alias(each.name, metadata=dict(each.metadata)) for each in fields))


def unless_null(whole: Column, column: Column) -> Column:
    """Return a column, or null where there is nothing that it could be made of."""
    return fn.when(whole.isNotNull(), column)


def failure_of_null(whole: Column, purpose: str) -> Column:
    """Return what Connect says where a transform meets a record without the key or value that it needs."""
    return fn.when(whole.isNull(), fn.lit(NULL_MAP.format(purpose)))


def base64(column: Column) -> Column:
    """Return bytes as base64 in one line, which Spark breaks."""
    return fn.translate(fn.base64(column), "\r\n", "")


def is_struct(kind: DataType) -> bool:
    """Tell whether a type is that of structs."""
    return isinstance(kind, StructType)


def is_map(kind: DataType) -> bool:
    """Tell whether a type is that of maps from names."""
    return isinstance(kind, MapType) and isinstance(kind.keyType, StringType)


def with_entry(entries: Column, name: str, value: Column) -> Column:
    """Return a map with an entry, in the place of one that it may have had."""
    return fn.map_concat(without_entries(entries, [name]), fn.create_map(fn.lit(name), value))


def without_entries(entries: Column, names: Iterable[str]) -> Column:
    """Return a map without some entries."""
    return fn.map_filter(entries, lambda name, _: ~name.isin(list(names)))


def same(one: DataType, other: DataType) -> bool:
    """Tell whether types are the same but for what may be null and for metadata."""
    return str(one.simpleString()) == str(other.simpleString())


def unified(one: DataType, other: DataType) -> DataType:
    """Return the type that has the fields of both; ValueError where there is none."""
    if same(one, other):
        return one
    if not (isinstance(one, StructType) and isinstance(other, StructType)):
        raise ValueError(f"{one.simpleString()} is not {other.simpleString()}")
    fields = {each.name: each for each in one.fields}
    for each in other.fields:
        kind = unified(fields[each.name].dataType, each.dataType) if each.name in fields else each.dataType
        fields[each.name] = StructField(each.name, kind, True, each.metadata)
    return StructType(list(fields.values()))


def fitted(column: Column, old: DataType, new: DataType) -> Column:
    """Return a column as one of a type that has all of its fields; those that it lacks are null."""
    if same(old, new):
        return column
    fields = [
        Field(
            each.name,
            fitted(column[each.name], old[each.name].dataType, each.dataType)
            if each.name in old.names
            else fn.lit(None).cast(each.dataType),
            metadata=each.metadata,
        )
        for each in new.fields
    ]
    return unless_null(column, struct_of(fields))
