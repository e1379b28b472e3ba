"""Writing values as the JSON that Connect has for their schema.

Owns how logical types, bytes and maps are written. Must not know envelopes and rows. Counterpart in Kafka:
JsonConverter's convertToJson.
"""

from typing import Any, Final

from ottla.pipeline.formats import decimals
from ottla.pipeline.formats.json_reading import is_pairs
from ottla.pipeline.formats.schema import DATE, DECIMAL, TIMESTAMP, Schema

Column = Any
_OPTIONS: Final = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    # All that Spark's timestamps have; its own format leaves out microseconds.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
}
_BEFORE: Final = '{"v":'


def json_text(value: Column) -> Column:
    """Return the JSON of any value, in Spark's own style."""
    from pyspark.sql import functions as fn

    text = fn.to_json(fn.struct(value.alias("v")), _OPTIONS)
    return fn.substring(text, fn.lit(len(_BEFORE) + 1), fn.length(text) - fn.lit(len(_BEFORE) + 1))


class JsonWriter:
    """Writes values in Connect's style."""

    def __init__(self, *, has_numeric_decimals: bool) -> None:
        self._has_numeric_decimals = has_numeric_decimals

    def text(self, schema: Schema, value: Column) -> Column:
        """Return the JSON of values."""
        return json_text(self._written(schema, value))

    def _written(self, schema: Schema, value: Column) -> Column:
        """Return what Spark's generator makes Connect's JSON of."""
        from pyspark.sql import functions as fn

        if self._is_as_it_is(schema):
            return value
        if schema.name == DECIMAL:
            return fn.base64(decimals.to_bytes(value, schema.scale))
        if schema.name == DATE:
            return fn.unix_date(value)
        if schema.name == TIMESTAMP:
            return fn.unix_millis(value)
        if schema.type == "struct":
            inner = (self._written(each, value.getField(name)).alias(name) for name, each in schema.fields)
            return fn.when(value.isNotNull(), fn.struct(*inner))
        assert schema.values is not None
        keys, values = schema.keys, schema.values
        if keys is None:
            return fn.transform(value, lambda each: self._written(values, each))
        if not is_pairs(schema):
            return fn.transform_values(value, lambda _, each: self._written(values, each))

        def pair(entry: Column) -> Column:
            sides = ((keys, entry.getField("key")), (values, entry.getField("value")))
            return fn.array(*(fn.parse_json(self.text(side, each)) for side, each in sides))

        return fn.transform(fn.map_entries(value), pair)

    def _is_as_it_is(self, schema: Schema) -> bool:
        if schema.name in (DATE, TIMESTAMP) or is_pairs(schema):
            return False
        if schema.name == DECIMAL:
            return self._has_numeric_decimals
        inner = [each for _, each in schema.fields] + [each for each in (schema.values,) if each]
        return all(map(self._is_as_it_is, inner))
