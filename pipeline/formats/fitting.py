"""Values made those of a given schema: fields by their names, other types where nothing is lost, defaults for nulls.

Owns which problems a value can have on the way into a schema. Must not know how it is written there. Counterparts in
Kafka: SchemaProjector, ConnectSchema.validateValue.
"""

import json
from typing import Any, Final

from ottla.pipeline.formats.format import Outcome
from ottla.pipeline.formats.json_reading import (
    MS_OF_A_DAY,
    TIME_OUT_OF_RANGE,
    JsonReader,
    first_problem,
    parsed_json,
)
from ottla.pipeline.formats.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema

Column = Any
_NUMBERS: Final = {"int8", "int16", "int32", "int64", "float", "double", DECIMAL}
_POINTS_IN_TIME: Final = {DATE, TIMESTAMP}
_MISSING: Final = "Conversion error: null value for field that is required and has no default value"


class MisfitError(ValueError):
    """No value of one type can be one of the other."""


class Fitter:
    """Makes values those of a schema."""

    def __init__(self, *, replaces_null: bool = True) -> None:
        self._replaces_null = replaces_null

    def outcome(self, schema: Schema, found: Schema | None, value: Column, path: str = "") -> Outcome:
        """Return values of a schema's type, out of those of another one; None: there is nothing but null."""
        from pyspark.sql import functions as fn

        if found is None:
            fitted, problem = fn.lit(None).cast(schema.spark_type), None
        else:
            fitted, problem = self._present(schema, found, value, path)
        if not path:  # A record that is null stays null.
            return Outcome(fitted, problem)
        if schema.default is not None and self._replaces_null:
            text = fn.lit(json.dumps({"v": schema.default}))
            reader = JsonReader(is_connect=True)
            parsed = parsed_json(text, f"v {reader.parsed_type(schema)}").getField("v")
            fitted = fn.coalesce(fitted, reader.outcome(schema, parsed).value)
        elif not schema.optional:
            missing = fn.when(
                value.isNull() if found else fn.lit(True), fn.lit(f"{_MISSING}: {path.removeprefix('.')}")
            )
            problem = missing if problem is None else fn.coalesce(missing, problem)
        return Outcome(fitted, problem)

    def _present(self, schema: Schema, found: Schema, value: Column, path: str) -> Outcome:
        if schema.type == found.type == "struct":
            return self._struct(schema, found, value, path)
        if schema.values and found.values and (schema.keys is None) == (found.keys is None):
            return self._elements(schema, found, value, path)
        if schema.type in ("struct", "array", "map") or found.type in ("struct", "array", "map"):
            raise MisfitError(f"has no place for {found.spark_type}{_at(path)}, only for {schema.spark_type}")
        return self._atom(schema, found, value, path)

    def _atom(self, schema: Schema, found: Schema, value: Column, path: str) -> Outcome:
        from pyspark.sql import functions as fn

        wrong = fn.concat(fn.lit(f"is no {schema.spark_type}{_at(path)}: "), value.cast("string"))
        if schema.spark_type == found.spark_type:
            bad = None
            if schema.name == TIME:
                wrong, bad = fn.lit(TIME_OUT_OF_RANGE), ~value.between(0, MS_OF_A_DAY)
            elif schema.symbols:
                bad = ~value.isin(*schema.symbols)
            elif schema.size is not None:
                wrong, bad = fn.lit(f"has not {schema.size} bytes{_at(path)}"), fn.length(value) != schema.size
            return Outcome(value, None if bad is None else fn.when(bad, wrong))
        kinds = {each.name if each.name in (DECIMAL, DATE, TIMESTAMP) else each.type for each in (schema, found)}
        if kinds <= _NUMBERS or kinds <= _POINTS_IN_TIME:
            fitted = value.try_cast(schema.spark_type)
            # There and back again: what has lost something is another one.
            lost = ~fitted.try_cast(found.spark_type).eqNullSafe(value)
            return Outcome(fitted, fn.when(lost, wrong))
        if "string" not in kinds or (found.type == "bytes" and found.name != DECIMAL) or schema.symbols:
            raise MisfitError(f"has no place for {found.spark_type}{_at(path)}, only for {schema.spark_type}")
        fitted = value.try_cast(schema.spark_type)
        return Outcome(fitted, fn.when(value.isNotNull() & fitted.isNull(), wrong))

    def _struct(self, schema: Schema, found: Schema, value: Column, path: str) -> Outcome:
        from pyspark.sql import functions as fn

        there = dict(found.fields)
        inner = {}
        for name, each in schema.fields:
            if name not in there and not each.optional and (each.default is None or not self._replaces_null):
                raise MisfitError(f"needs a field {f'{path}.{name}'.removeprefix('.')}, which is not there")
            inner[name] = self.outcome(each, there.get(name), value.getField(name), f"{path}.{name}")
        problems = [each.problem for each in inner.values() if each.problem is not None]
        struct = fn.struct(*(each.value.alias(name) for name, each in inner.items()))
        problem = fn.when(value.isNotNull(), fn.coalesce(*problems)) if problems else None
        return Outcome(fn.when(value.isNotNull(), struct), problem)

    def _elements(self, schema: Schema, found: Schema, value: Column, path: str) -> Outcome:
        """The elements of an array, or the keys and values of a map."""
        from pyspark.sql import functions as fn

        def each(to: Schema | None, of: Schema | None) -> tuple[Any, Any]:
            assert to is not None

            def fitted(item: Column) -> Column:
                return self.outcome(to, of, item, f"{path}[]").value

            def problem(item: Column) -> Column:
                found = self.outcome(to, of, item, f"{path}[]").problem
                return fn.lit(None).cast("string") if found is None else found

            return fitted, problem

        fitted, problem = each(schema.values, found.values)
        if schema.keys is None:
            return Outcome(fn.transform(value, fitted), first_problem(fn.transform(value, problem)))
        if schema.keys.spark_type != (found.keys and found.keys.spark_type):
            raise MisfitError(f"has no place for {found.spark_type}{_at(path)}, only for {schema.spark_type}")
        problems = fn.transform(fn.map_values(value), problem)
        return Outcome(fn.transform_values(value, lambda _, item: fitted(item)), first_problem(problems))


def _at(path: str) -> str:
    return f" at {path.removeprefix('.')}" if path else ""
