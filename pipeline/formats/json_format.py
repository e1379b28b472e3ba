"""JSON: Spark's own, with a schema that the job gives, or Connect's, with and without the schema in every record.

Owns the envelope, and whether a record's schema is the one that was expected. Must not know single types. Counterparts
in Kafka: JsonConverter, JsonConverterConfig.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from ottla.pipeline.formats.fitting import Fitter, MisfitError
from ottla.pipeline.formats.format import Column, Format, Outcome
from ottla.pipeline.formats.json_reading import CORRUPT, JsonReader, parsed_json
from ottla.pipeline.formats.json_writing import JsonWriter, json_text
from ottla.pipeline.formats.schema import Schema, from_spark, to_connect_text
from ottla.pipeline.formats.schema_check import parsed_schema, schema_difference
from ottla.pipeline.formats.schema_text import KEY, read_schema
from ottla.pipeline.record_frame import unmoved
from ottla.pipeline.settings import Settings

_NO_JSON: Final = "Converting byte[] to Kafka Connect data failed due to serialization error: no JSON of the schema"
_NO_ENVELOPE: Final = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional fields.'
    " If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter configuration."
)
_OTHER_SCHEMA: Final = "The record's schema is not the one that is expected: "


class JsonFormat(Format):
    """JSON with a schema. Under the name of JsonConverter, Connect's defaults and Connect's way with logical types."""

    converter = "org.apache.kafka.connect.json.JsonConverter"

    def __init__(
        self, settings: Settings, *, is_connect: bool, options: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """`options` are those of Spark's parser, such as how times are written."""
        super().__init__(settings)
        self._options = options
        schemas, null, decimal = (settings.part(each) for each in ("schemas", "replace.null.with", "decimal"))
        self._has_envelope = schemas.truth("enable", default=is_connect)
        cache = schemas.part("cache")  # Connect's, of which Spark has no need.
        cache.integer("size", 1000)
        self._is_connect = is_connect or self._has_envelope
        self._replaces_null = null.truth("default", default=True)
        numeric = decimal.choice("format", ["BASE64", "NUMERIC"], "BASE64") == "NUMERIC"
        self._writer = JsonWriter(has_numeric_decimals=numeric)
        self._reader = JsonReader(is_connect=self._is_connect, replaces_null=self._replaces_null)
        self.schema = read_schema(settings)
        for part in (schemas, null, decimal, cache):
            part.finish()

    def check_reading(self) -> None:
        """Refuse to read without a schema."""
        _ = self._expected

    def parse(self, raw: Column) -> Column:
        """Return a struct: the payload of bytes whose schema is the job's own text, and whatever else bytes are."""
        from pyspark.sql import functions as fn

        text, kind = raw.cast("string"), self._reader.parsed_type(self._expected)
        if not self._has_envelope:
            return unmoved(fn.struct(_payload(text, kind, self._options).alias("usual")))
        before = _before(self._expected)
        payload = fn.substring(text, fn.lit(len(before) + 1), fn.length(text) - len(before) - 1)
        is_usual = text.startswith(before) & text.endswith("}")
        other = parsed_json(text, f"schema {parsed_schema(self._expected)}, payload {kind}")
        found = {"usual": fn.when(is_usual, _payload(payload, kind, self._options)), "other": fn.when(~is_usual, other)}
        return unmoved(fn.struct(*(each.alias(name) for name, each in found.items())))

    def read(self, raw: Column, parsed: Column) -> Outcome:
        """Return values and problems of bytes."""
        from pyspark.sql import functions as fn

        schema, text, usual = self._expected, raw.cast("string"), parsed.getField("usual")
        payloads = usual.getField("payload")
        payload = fn.get(payloads, fn.lit(0))
        no_json = usual.getField(CORRUPT).isNotNull() | (fn.size(payloads) != 1) | ~fn.is_valid_utf8(text)
        problems = [fn.when(usual.isNotNull() & no_json, fn.lit(_NO_JSON))]
        if self._has_envelope:
            other = parsed.getField("other")
            payload = fn.coalesce(payload, other.getField("payload"))
            problems.append(fn.when(usual.isNull(), _envelope_problem(schema, text, other)))
        value, problem = self._reader.outcome(schema, payload)
        if problem is not None:
            problems.append(problem)
        return Outcome(value, fn.when(raw.isNotNull(), fn.coalesce(*problems)))

    def write(self, value: Column, field: Any) -> Outcome:
        """Return bytes and problems of values."""
        from pyspark.sql import functions as fn

        schema, problem = self.schema, None
        if schema is None and not self._is_connect:
            text = json_text(value)
        else:
            try:
                found = from_spark(field.dataType.jsonValue(), optional=field.nullable, metadata=field.metadata)
                if schema is not None:
                    value, problem = Fitter(replaces_null=self._replaces_null).outcome(schema, found, value)
            except MisfitError as error:
                raise self.settings.wrong(KEY, str(error)) from None
            except ValueError as error:
                raise self.settings.wrong("type", f"cannot write a value that {error}") from None
            written = schema or found
            text = self._writer.text(written, value) if self._is_connect else json_text(value)
            if self._has_envelope:
                text = fn.concat(fn.lit(_before(written)), text, fn.lit("}"))
        return Outcome(fn.when(value.isNotNull(), text).cast("binary"), problem)

    @property
    def _expected(self) -> Schema:
        if self.schema is None:
            raise self.settings.wrong(KEY, "is missing: nothing else tells what the JSON of a topic holds")
        return self.schema


def _before(schema: Schema) -> str:
    """What Connect writes before a payload."""
    return f'{{"schema":{to_connect_text(schema)},"payload":'


def _payload(text: Column, kind: str, options: Mapping[str, str]) -> Column:
    """Parse a value of JSON alone, as the only element of an array.

    Spark tells of nothing but objects what it cannot parse; and in an array it notices what follows a value.
    """
    from pyspark.sql import functions as fn

    return parsed_json(fn.concat(fn.lit('{"payload":['), text, fn.lit("]}")), f"payload ARRAY<{kind}>", options)


def _envelope_problem(schema: Schema, text: Column, parsed: Column) -> Column:
    """Return what is wrong with an envelope, other than its payload's values."""
    from pyspark.sql import functions as fn

    keys = fn.array_sort(fn.json_object_keys(text))
    is_envelope = keys.eqNullSafe(fn.array(fn.lit("payload"), fn.lit("schema")))
    difference = schema_difference(schema, parsed.getField("schema"))
    no_json = parsed.getField(CORRUPT).isNotNull() | ~fn.is_valid_utf8(text)
    return (
        fn.when(~is_envelope, fn.lit(_NO_ENVELOPE))
        .when(difference.isNotNull(), fn.concat(fn.lit(_OTHER_SCHEMA), difference))
        .when(no_json, fn.lit(_NO_JSON))
    )
