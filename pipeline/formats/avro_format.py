"""Avro with a schema that the job gives; alone, or behind the id that a schema registry gave to the schema.

Owns the five bytes before the record. Knows no registry. Counterpart: Confluent's AvroConverter.
"""

import json
from typing import Any, Final

from ottla.pipeline.formats.avro_schema import parse_avro
from ottla.pipeline.formats.fitting import Fitter
from ottla.pipeline.formats.format import Column, Format, Outcome
from ottla.pipeline.formats.schema import Schema, from_spark
from ottla.pipeline.formats.schema_text import KEY, read_text
from ottla.pipeline.settings import Settings

_MAGIC: Final = "00"
_ID_BYTES: Final = 4
_ID_KEY: Final = "use.schema.id"
# Put behind each record before it is read: where it is not found again, the record was longer, or shorter, or none.
_END: Final = b"ottla-end".hex().upper()


class AvroFormat(Format):
    """Avro; under the name of AvroConverter, or with an id, each record stands behind a zero and its schema's id.

    That id has to be known, for reading too: a record behind another one was written with another schema.
    """

    converter = "io.confluent.connect.avro.AvroConverter"
    needs = ("avro",)

    def __init__(self, settings: Settings, *, is_framed: bool) -> None:
        super().__init__(settings)
        try:
            self._node, self.schema = parse_avro(read_text(settings) or settings.text(KEY))
        except ValueError as error:
            raise settings.wrong(KEY, str(error)) from None
        use = settings.part("use")
        ids = use.part("schema")
        self._id = ids.integer("id", least=0) if "id" in ids else None
        ids.finish()
        use.finish()
        self._is_framed = is_framed or self._id is not None

    def check_reading(self) -> None:
        """Refuse to read behind ids that are not known: behind another one stands another schema."""
        if self._is_framed and self._id is None:
            raise self.settings.wrong(_ID_KEY, "is missing: there is no registry to ask for the schemas of other ids")

    def check_writing(self) -> None:
        """Refuse to write behind an id that is not known, and what Spark cannot write."""
        if self._is_framed and self._id is None:
            raise self.settings.wrong(_ID_KEY, "is missing: there is no registry to ask for the id of the schema")
        if _has_union(self.schema):
            raise self.settings.wrong(KEY, "has a union of several types, which can be read but not written")

    def parse(self, raw: Column) -> Column:
        """Return a struct of a value and what stands behind it."""
        from pyspark.sql import functions as fn
        from pyspark.sql.avro.functions import from_avro

        data = fn.substring(raw, 2 + _ID_BYTES, 2**31 - 1) if self._is_framed else raw
        end = {"type": "fixed", "name": "ottla_end", "size": len(_END) // 2}
        fields = [{"name": "value", "type": self._node}, {"name": "end", "type": end}]
        ended = {"type": "record", "name": "ottla_ended", "fields": fields}
        return from_avro(fn.concat(data, fn.unhex(fn.lit(_END))), json.dumps(ended), {"mode": "PERMISSIVE"})

    def read(self, raw: Column, parsed: Column) -> Outcome:
        """Return values and problems of bytes."""
        from pyspark.sql import functions as fn

        is_whole = fn.hex(parsed.getField("end")).eqNullSafe(fn.lit(_END))
        failed = fn.lit("Failed to deserialize data to Avro")
        frame = fn.hex(fn.substring(raw, 1, 1 + _ID_BYTES))
        is_framed = frame.startswith(_MAGIC) & (fn.length(frame) == 2 + 2 * _ID_BYTES)
        found = fn.conv(fn.substring(frame, 3, 2 * _ID_BYTES), 16, 10)
        if self._id is None:
            hint = fn.concat(failed, fn.lit(f"; if it stands behind a schema's id, set {_ID_KEY} to "), found)
            return Outcome(
                parsed.getField("value"),
                fn.when(raw.isNotNull() & ~is_whole, fn.when(is_framed, hint).otherwise(failed)),
            )
        other = fn.concat(
            fn.lit("The record's schema has the id "), found, fn.lit(f", which {_ID_KEY}={self._id} is not")
        )
        problem = fn.when(~is_framed, fn.lit("Unknown magic byte, or no schema id behind it"))
        problem = problem.when(found != str(self._id), other).when(~is_whole, failed)
        return Outcome(parsed.getField("value"), fn.when(raw.isNotNull(), problem))

    def write(self, value: Column, field: Any) -> Outcome:
        """Return bytes and problems of values."""
        from pyspark.sql import functions as fn
        from pyspark.sql.avro.functions import to_avro

        try:
            found = from_spark(field.dataType.jsonValue(), optional=field.nullable)
            value, problem = Fitter(replaces_null=False).outcome(self.schema, found, value)
        except ValueError as error:
            raise self.settings.wrong(KEY, str(error)) from None
        # What does not fit would end the whole query.
        sound = value if problem is None else fn.when(problem.isNull(), value)
        data = to_avro(sound, json.dumps(self._node))
        if self._id is not None:
            data = fn.concat(fn.unhex(fn.lit(f"{_MAGIC}{self._id:0{2 * _ID_BYTES}X}")), data)
        return Outcome(fn.when(sound.isNotNull(), data), problem)


def _has_union(schema: Schema) -> bool:
    inner = [each for _, each in schema.fields] + [each for each in (schema.values,) if each]
    return schema.name == "union" or any(map(_has_union, inner))
