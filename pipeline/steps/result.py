"""What leaves the last step: a record frame again, whose key and value are SQL expressions.

Owns the bytes of Kafka Streams' windowed keys. Must not know topics and formats. Counterparts in Kafka:
TimeWindowedSerializer, SessionWindowedSerializer, WindowKeySchema, SessionKeySchema.
"""

from collections.abc import Sequence
from typing import Final

from ottla.pipeline.names import quoted
from ottla.pipeline.record_frame import ERROR, HEADERS, ORIGINAL
from ottla.pipeline.settings import Settings
from ottla.pipeline.steps.aggregation import END, START, Window
from ottla.pipeline.steps.step import TIME, DataFrame, Step, Views

_TYPES: Final = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    TIME: "timestamp",
    "headers": HEADERS,
}
# No view shows those of the records: what a step calls so is its own.
_NONE_YET: Final = {"error": ERROR, "original": ORIGINAL}
# As Kafka's serializers for these types have them: big-endian, and texts in UTF-8.
_KEY_BYTES: Final = {
    "binary": "{0}",
    "string": "encode({0}, 'UTF-8')",
    "bigint": "unhex(lpad(hex({0}), 16, '0'))",
    "int": "unhex(right(lpad(hex({0}), 16, '0'), 8))",
}
_TIME_BYTES: Final = "unhex(lpad(hex(unix_millis({})), 16, '0'))"


class Result(Step):
    """`key` and `value` of the last step; `windowed_key`: how the window is part of the key, where there is one.

    "struct": a struct of key, start and end, for the sink's format; "kafka-streams": the bytes that the deserializers
    of Kafka Streams read, of which there are two kinds; "none": not at all.
    """

    is_stateful = False

    def __init__(self, settings: Settings, before: Sequence[Step]) -> None:
        super().__init__(settings)
        self.key = settings.optional("key")
        self.value = settings.optional("value")
        self.is_session = any(isinstance(each, Window) and each.session_gap for each in before)
        self.windowed_key = None
        if "windowed_key" in settings:
            self.windowed_key = settings.choice("windowed_key", ["struct", "kafka-streams", "none"])

    def apply(self, views: Views) -> DataFrame:
        """The record frame; without a word on `value`, it is a struct of all columns that records do not have."""
        from pyspark.sql import functions

        frame = views[self.name]
        key = self.key or ("key" if "key" in frame.columns else None)
        own = [functions.col(quoted(name)) for name in frame.columns if name != "key" and name not in _TYPES]
        if self.value is not None or "value" in frame.columns:
            value = functions.expr(self.value or "value")
        else:
            value = functions.struct(*own)
        others = [
            functions.col(name) if name in frame.columns else functions.lit(None).cast(kind).alias(name)
            for name, kind in _TYPES.items()
        ]
        others += [functions.lit(None).cast(kind).alias(name) for name, kind in _NONE_YET.items()]
        return frame.select(self._key(frame, key).alias("key"), value.alias("value"), *others)

    def _key(self, frame: DataFrame, sql: str | None) -> DataFrame:
        from pyspark.sql import functions

        if sql is None:
            if self.windowed_key:
                raise self.settings.wrong("key", "is missing")
            # For sinks that have no keys; a compacted topic refuses it.
            return functions.lit(None).cast("binary")
        key = functions.expr(sql)
        has_window = {START, END} <= set(frame.columns)
        how = self.windowed_key or ("struct" if has_window else "none")
        if how == "none":
            return key
        if not has_window:
            raise self.settings.wrong("windowed_key", f"finds no columns {START} and {END}")
        if how == "struct":
            return functions.struct(
                key.alias("key"), functions.col(START).alias("start"), functions.col(END).alias("end")
            )
        kind = frame.select(key).schema[0].dataType.simpleString()
        if kind not in _KEY_BYTES:
            raise self.settings.wrong(
                "key", f"is to be one of {', '.join(_KEY_BYTES)} in Kafka Streams' keys, not {kind}"
            )
        times = [END, START] if self.is_session else [START]
        in_bytes = functions.expr(_KEY_BYTES[kind].format(f"({sql})"))
        return functions.concat(in_bytes, *(functions.expr(_TIME_BYTES.format(time)) for time in times))
