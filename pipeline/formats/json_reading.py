"""Reading the JSON of a schema: what Spark's parser is told, what that means, and which problems a value can have.

Owns how Connect writes logical types, bytes and maps, and what becomes of nulls. Must not know envelopes, keys and
rows. Counterpart in Kafka: JsonConverter's convertToConnect, which is more lenient: it takes a text for the number 0.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from ottla.pipeline.formats import decimals
from ottla.pipeline.formats.format import Outcome
from ottla.pipeline.formats.schema import DATE, DECIMAL, MOST_DIGITS, PRECISION, TIME, TIMESTAMP, Schema
from ottla.pipeline.names import quoted

Column = Any
CORRUPT: Final = "__corrupt"
MS_OF_A_DAY: Final = 24 * 60 * 60 * 1000
TIME_OUT_OF_RANGE: Final = "Time values must use number of milliseconds greater than 0 and less than 86400000"
# What microseconds can count.
_MOST_MS: Final = (2**63 - 1) // 1000
_OPTIONS: Final = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": CORRUPT,
    "timeZone": "UTC",
    "allowSingleQuotes": "false",
}


def parsed_json(text: Column, fields: str, options: Mapping[str, str] = MappingProxyType({})) -> Column:
    """Parse an object of JSON; its field CORRUPT is not null where that fails. `options` are Spark's."""
    from pyspark.sql import functions as fn

    return fn.from_json(text, f"{fields}, {CORRUPT} STRING", {**_OPTIONS, **options})


def first_problem(problems: Column) -> Column:
    """Return the first text of an array, null where all are null."""
    from pyspark.sql import functions as fn

    return fn.get(fn.filter(problems, lambda each: each.isNotNull()), fn.lit(0))


def is_pairs(schema: Schema) -> bool:
    """Whether Connect writes such a map as an array of pairs."""
    return schema.keys is not None and schema.keys.type != "string"


class JsonReader:
    """Reads JSON of one style: Connect's, in which logical types are what they are written as, or Spark's own."""

    def __init__(self, *, is_connect: bool, replaces_null: bool = True) -> None:
        self._is_connect = is_connect
        self._replaces_null = replaces_null

    def parsed_type(self, schema: Schema) -> str:
        """What Spark's parser is told of a type, in DDL."""
        if schema.type == "struct":
            return f"STRUCT<{', '.join(f'{quoted(n)}: {self.parsed_type(each)}' for n, each in schema.fields)}>"
        if self._is_connect and is_pairs(schema):
            return "ARRAY<ARRAY<VARIANT>>"
        inner = [self.parsed_type(each) for each in (schema.keys, schema.values) if each]
        if inner:
            return f"{schema.type.upper()}<{', '.join(inner)}>"
        if schema.type == "int8":
            return "SMALLINT"  # Spark's parser takes 200 for a byte.
        if schema.name == DECIMAL and self._is_connect:
            return "VARIANT"  # The only type that tells a number from a text.
        return replace(schema, name=None).spark_type if self._is_connect else schema.spark_type

    def outcome(self, schema: Schema, parsed: Column, path: str = "") -> Outcome:
        """Return the value of what was parsed, defaults in the place of nulls, and what is wrong with it."""
        from pyspark.sql import functions as fn

        if self._is_as_parsed(schema):
            return Outcome(parsed, None)
        if schema.name == DECIMAL and self._is_connect:
            parsed = fn.when(~fn.is_variant_null(parsed), parsed)
        value, problem = self._present(schema, parsed, path)
        problem = None if problem is None else fn.when(parsed.isNotNull(), problem)
        if schema.default is not None and self._replaces_null:
            value = fn.when(parsed.isNull(), self._constant(schema, schema.default)).otherwise(value)
        elif not schema.optional:
            missing = fn.lit(f"Invalid null value for required {schema.shown_type} field{_named(path)}")
            problem = fn.when(parsed.isNull(), missing).otherwise(problem)
        return Outcome(value, problem)

    def _is_as_parsed(self, schema: Schema) -> bool:
        """Whether Spark's parser gives just what is wanted, whatever it reads."""
        if not schema.optional or schema.default is not None or schema.type == "int8":
            return False
        if self._is_connect and (schema.name in (DECIMAL, DATE, TIME, TIMESTAMP) or is_pairs(schema)):
            return False
        inner = [each for _, each in schema.fields] + [each for each in (schema.values,) if each]
        return all(map(self._is_as_parsed, inner))

    def _present(self, schema: Schema, parsed: Column, path: str) -> Outcome:
        """The same for what is not null."""
        from pyspark.sql import functions as fn

        if schema.type == "struct":
            return self._struct(schema, parsed, path)
        if schema.keys and schema.values:
            if self._is_connect and is_pairs(schema):
                return self._pairs(schema.keys, schema.values, parsed, path)
            return self._map(schema.values, parsed, path)
        if schema.values:
            return self._array(schema.values, parsed, path)
        if schema.type == "int8":
            text = fn.concat(parsed.cast("string"), fn.lit(f" is out of the range of INT8{_named(path)}"))
            return Outcome(parsed.try_cast("tinyint"), fn.when(~parsed.between(-128, 127), text))
        return self._logical(schema, parsed, path) if self._is_connect else Outcome(parsed, None)

    def _logical(self, schema: Schema, parsed: Column, path: str) -> Outcome:
        from pyspark.sql import functions as fn

        if schema.name == DATE:
            return Outcome(fn.date_from_unix_date(parsed), None)
        if schema.name == TIME:
            problem = fn.when(~parsed.between(0, MS_OF_A_DAY), fn.lit(TIME_OUT_OF_RANGE + _named(path)))
            return Outcome(parsed, problem)
        if schema.name == TIMESTAMP:
            text = fn.lit(f"Timestamp is out of the range of Spark's{_named(path)}")
            fits = parsed.between(-_MOST_MS, _MOST_MS)
            return Outcome(fn.when(fits, fn.timestamp_millis(parsed)), fn.when(~fits, text))
        if schema.name != DECIMAL:
            return Outcome(parsed, None)
        # An object or array is neither: as a text it is null.
        text = fn.try_variant_get(parsed, "$", "string")
        precision = int(schema.parameters.get(PRECISION, MOST_DIGITS))
        data = fn.try_to_binary(text, fn.lit("base64"))
        from_text = decimals.from_bytes(data, precision, schema.scale)
        from_number = text.try_cast(schema.spark_type)
        is_text = fn.schema_of_variant(parsed) == "STRING"
        value = fn.when(is_text, from_text).otherwise(from_number)
        wrong = fn.lit(f"Invalid bytes or number for {schema.spark_type} field{_named(path)}")
        return Outcome(value, fn.when(value.isNull(), wrong))

    def _struct(self, schema: Schema, parsed: Column, path: str) -> Outcome:
        from pyspark.sql import functions as fn

        inner = {name: self.outcome(each, parsed.getField(name), f"{path}.{name}") for name, each in schema.fields}
        value = fn.when(parsed.isNotNull(), fn.struct(*(each.value.alias(name) for name, each in inner.items())))
        problems = [each.problem for each in inner.values() if each.problem is not None]
        return Outcome(value, fn.coalesce(*problems) if problems else None)

    def _array(self, items: Schema, parsed: Column, path: str) -> Outcome:
        from pyspark.sql import functions as fn

        def value(item: Column) -> Column:
            return self.outcome(items, item, f"{path}[]").value

        def problem(item: Column) -> Column:
            found = self.outcome(items, item, f"{path}[]").problem
            return fn.lit(None).cast("string") if found is None else found

        return Outcome(fn.transform(parsed, value), first_problem(fn.transform(parsed, problem)))

    def _map(self, values: Schema, parsed: Column, path: str) -> Outcome:
        from pyspark.sql import functions as fn

        def value(_: Column, item: Column) -> Column:
            return self.outcome(values, item, f"{path}[]").value

        return Outcome(fn.transform_values(parsed, value), self._array(values, fn.map_values(parsed), path).problem)

    def _pairs(self, keys: Schema, values: Schema, parsed: Column, path: str) -> Outcome:
        from pyspark.sql import functions as fn

        entry = Schema("struct", fields=(("key", replace(keys, optional=False)), ("value", values)))
        fields = f"entry {self.parsed_type(entry)}"

        def read(pair: Column) -> Column:
            # What keys and values are is known only now, so that they are parsed again.
            key, item = (fn.coalesce(fn.to_json(fn.get(pair, fn.lit(i))), fn.lit("null")) for i in (0, 1))
            text = fn.concat(fn.lit('{"entry":{"key":'), key, fn.lit(',"value":'), item, fn.lit("}}"))
            size = fn.coalesce(fn.size(pair), fn.lit(0))
            return fn.struct(parsed_json(text, fields).alias("read"), size.alias("size"))

        def outcome(pair: Column) -> Column:
            value, problem = self.outcome(entry, pair.getField("read").getField("entry"), f"{path}[]")
            size = pair.getField("size")
            wrong = fn.lit("Found invalid map entry, expected length 2 but found :")
            unreadable = fn.lit(f"Invalid key or value of a map{_named(path)}")
            found = fn.when(size != 2, fn.concat(wrong, size.cast("string")))
            found = found.when(pair.getField("read").getField(CORRUPT).isNotNull(), unreadable).otherwise(problem)
            return fn.struct(value.alias("value"), found.alias("problem"))

        outcomes = fn.transform(fn.transform(parsed, read), outcome)
        entries, problem = outcomes.getField("value"), first_problem(outcomes.getField("problem"))
        distinct = fn.size(fn.array_distinct(entries.getField("key")))
        twice = fn.when(distinct < fn.size(entries), fn.lit(f"Found one key of a map twice{_named(path)}"))
        problem = fn.coalesce(problem, twice)
        # A map with a null among its keys, or one of them twice, would end the whole query.
        return Outcome(fn.when(problem.isNull(), fn.map_from_entries(entries)), problem)

    def _constant(self, schema: Schema, value: object) -> Column:
        from pyspark.sql import functions as fn

        text = fn.lit(json.dumps({"v": value}))
        plain = replace(schema, default=None)
        return self.outcome(plain, parsed_json(text, f"v {self.parsed_type(schema)}").getField("v")).value


def _named(path: str) -> str:
    return f" {path.removeprefix('.')}" if path else ""
