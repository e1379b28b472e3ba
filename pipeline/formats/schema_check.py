"""Whether the schema that a record of Connect carries is the one that is expected, as columns.

Owns which differences matter: those of types, of logical types and of fields that are needed. Must not know payloads.
Counterpart in Kafka: SchemaProjector.
"""

from collections.abc import Iterable
from typing import Any, Final

from ottla.pipeline.formats.schema import DECIMAL, LOGICAL, Schema

Column = Any
_WIDENING: Final = ["int8", "int16", "int32", "int64", "float", "double"]


def parsed_schema(schema: Schema) -> str:
    """What Spark's parser is told of the schema in a record, in DDL, so that it can be held against another one."""
    return f"STRUCT<{_shape([schema])}>"


def schema_difference(schema: Schema, parsed: Column) -> Column:
    """Return what is different in a schema that a record has, null where nothing is, or where it has none."""
    from pyspark.sql import functions as fn

    return fn.when(parsed.isNotNull(), _difference(schema, parsed, ""))


def _shape(schemas: list[Schema]) -> str:
    """What is looked at of schemas: one type for all, as the fields of a struct are elements of one array."""
    parts = ["type STRING, name STRING, parameters MAP<STRING, STRING>"]
    inner = {
        "items": [each.values for each in schemas if each.values and not each.keys],
        "keys": [each.keys for each in schemas if each.keys],
        "values": [each.values for each in schemas if each.values and each.keys],
    }
    parts += [f"{name} STRUCT<{_shape(found)}>" for name, found in inner.items() if found]
    fields = [each for schema in schemas for _, each in schema.fields]
    if fields:
        parts.append(f"fields ARRAY<STRUCT<field STRING, {_shape(fields)}>>")
    return ", ".join(parts)


def _difference(schema: Schema, node: Column, path: str) -> Column:
    from pyspark.sql import functions as fn

    where = path.removeprefix(".") or "it"
    kind = node.getField("type")
    wider = _WIDENING[: _WIDENING.index(schema.type)] if schema.type in _WIDENING and not schema.name else []
    shown = fn.coalesce(kind, fn.lit("of no type"))
    found = [fn.when(~fn.coalesce(kind.isin(schema.type, *wider), fn.lit(False)), _text(where, shown, schema.type))]
    name = node.getField("name")
    logical = schema.name if schema.name and schema.name.startswith(LOGICAL) else ""
    its_logical = fn.when(name.startswith(LOGICAL), name).otherwise("")
    found.append(fn.when(its_logical != logical, _text(where, fn.coalesce(name, kind), logical or schema.type)))
    if schema.name == DECIMAL:
        scale = fn.coalesce(node.getField("parameters").getItem("scale"), fn.lit("none"))
        found.append(fn.when(scale != str(schema.scale), _text(f"the scale of {where}", scale, str(schema.scale))))
    for inner, key in ((schema.keys, "keys"), (schema.values, "values" if schema.keys else "items")):
        if inner:
            found.append(_difference(inner, node.getField(key), f"{path}[]"))
    found += _of_fields(schema.fields, node, path)
    return fn.coalesce(*found)


def _of_fields(fields: Iterable[tuple[str, Schema]], node: Column, path: str) -> Iterable[Column]:
    from pyspark.sql import functions as fn

    for name, schema in fields:
        its_field = fn.get(fn.filter(node.getField("fields"), _is_named(name)), fn.lit(0))
        at = f"{path}.{name}"
        missing = None if schema.optional or schema.default is not None else f"{at.removeprefix('.')} is missing"
        yield fn.when(its_field.isNull(), fn.lit(missing)).otherwise(_difference(schema, its_field, at))


def _is_named(name: str) -> Any:
    def is_named(each: Column) -> Column:
        return each.getField("field") == name

    return is_named


def _text(where: str, found: Column, expected: str) -> Column:
    from pyspark.sql import functions as fn

    return fn.concat(fn.lit(f"{where} is "), found, fn.lit(f", not {expected}"))
