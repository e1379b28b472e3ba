"""The record frame: the columns in which records flow from a source to a sink.

Owns how a frame is made, and how a row becomes one with an error. Must not know formats, transforms, sources and sinks.
Counterparts in Kafka: ConnectRecord, ProcessingContext.
"""

from typing import Any, Final

from ottla.pipeline.names import quoted

DataFrame = Any
Column = Any

HEADERS: Final = "array<struct<key: string, value: binary>>"
# Where a record was found to be bad: the stage and the class of Connect that was at work; then the exception.
ERROR: Final = "struct<stage: string, executing: string, class: string, message: string>"
# What came from a topic, whatever becomes of the record: dead letters have it again.
ORIGINAL: Final = f"struct<key: binary, value: binary, topic: string, headers: {HEADERS}>"
COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers", "error", "original")
# The field of an observed metric that has the number of rows.
ROWS: Final = "rows"
_DATA_EXCEPTION: Final = "org.apache.kafka.connect.errors.DataException"
_OUTCOME: Final = "outcome"
_ALL_FIELDS: Final = {"ignoreNullFields": "false"}


def from_kafka(frame: DataFrame) -> DataFrame:
    """Return the record frame of what Spark's Kafka source reads; headers are there if it was told to include them."""
    from pyspark.sql import functions

    none = functions.array().cast(HEADERS)
    headers = functions.coalesce("headers", none) if "headers" in frame.columns else none
    return frame.select(
        "topic",
        "partition",
        "offset",
        "timestamp",
        "key",
        "value",
        headers.alias("headers"),
        functions.lit(None).cast(ERROR).alias("error"),
        functions.struct("key", "value", "topic", headers.alias("headers")).alias("original"),
    )


def from_values(frame: DataFrame, topic: str | None = None) -> DataFrame:
    """Return the record frame of rows that come from no topic: each row is a value, without a key.

    What dead letters have of such a row is its JSON; nobody computes it for rows without an error.
    """
    from pyspark.sql import functions

    value = functions.struct(*(functions.col(quoted(name)) for name in frame.columns))
    original = functions.to_json(value, _ALL_FIELDS).cast("binary")
    return frame.select(*_from_no_topic(value, original, topic))


def from_lines(frame: DataFrame) -> DataFrame:
    """Return the record frame of lines, `value`, that are yet to be read as rows; where each was, `file`, is beside it.

    What dead letters have of such a row is its line.
    """
    from pyspark.sql import functions

    line = functions.col("value").cast("binary")
    return frame.select(*_from_no_topic(line, line), "file")


def _from_no_topic(value: Column, original: Column, topic: str | None = None) -> list[Column]:
    from pyspark.sql import functions

    headers = functions.array().cast(HEADERS)
    return [
        functions.lit(topic).cast("string").alias("topic"),
        functions.lit(None).cast("int").alias("partition"),
        functions.lit(None).cast("bigint").alias("offset"),
        functions.current_timestamp().alias("timestamp"),
        functions.lit(None).cast("binary").alias("key"),
        value.alias("value"),
        headers.alias("headers"),
        functions.lit(None).cast(ERROR).alias("error"),
        _original(original, headers).alias("original"),
    ]


def counted(frame: DataFrame, name: str) -> DataFrame:
    """Return a streaming frame whose rows each progress of the query counts, in the observed metric `name`.

    A query that reads the frame twice counts each row once, because Spark reports one observed metric for a name.
    """
    from pyspark.sql import functions

    return frame.observe(name, functions.count(functions.lit(1)).alias(ROWS))


def made_by_steps(frame: DataFrame) -> DataFrame:
    """Return a frame whose rows that steps have made, of nothing that a topic has, are their own originals, as JSON."""
    from pyspark.sql import functions

    row = functions.to_json(functions.struct("key", "value"), _ALL_FIELDS).cast("binary")
    return frame.withColumn("original", functions.coalesce("original", _original(row, functions.col("headers"))))


def _original(value: Column, headers: Column) -> Column:
    """Return the original of a row that came from no topic."""
    from pyspark.sql import functions

    return functions.struct(
        functions.lit(None).cast("binary").alias("key"),
        value.alias("value"),
        functions.lit(None).cast("string").alias("topic"),
        headers.alias("headers"),
    )


def unmoved(error: Column) -> Column:
    """Return the same column, below which Spark moves no filter: it would compute anew there all that is looked at."""
    from pyspark.sql import functions

    # True, but not known to be the same each time.
    return functions.when(functions.spark_partition_id() >= 0, error)


def data_error(stage: str, executing: str, message: Column) -> Column:
    """Return the error of a row that cannot be read, transformed or written."""
    from pyspark.sql import functions

    texts = {"stage": stage, "executing": executing, "class": _DATA_EXCEPTION}
    constants = (functions.lit(text).alias(name) for name, text in texts.items())
    return functions.struct(*constants, message.alias("message"))


def settled(
    frame: DataFrame, column: str, value: Column, problem: Column | None, stage: str, executing: str
) -> DataFrame:
    """Return the frame with a column's new value; where there is a problem, a text, the row gets an error instead.

    Rows that have an error already keep it; their column becomes null, for its type may have changed.
    """
    from pyspark.sql import functions

    message = functions.lit(None).cast("string") if problem is None else problem
    # A column of its own, so that Spark knows it for one thing that is looked at more than once.
    frame = frame.withColumn(_OUTCOME, functions.struct(value.alias("value"), message.alias("message")))
    value, message = (functions.col(_OUTCOME).getField(name) for name in ("value", "message"))
    found = data_error(stage, executing, message)
    columns = {
        column: functions.when(functions.col("error").isNull() & message.isNull(), value),
        "error": unmoved(functions.coalesce("error", functions.when(message.isNotNull(), found))),
    }
    return frame.select(*(columns.get(name, functions.col(name)).alias(name) for name in COLUMNS))


def without_errors(frame: DataFrame) -> DataFrame:
    """Return a frame that has no bad rows, so that Spark knows it: it looks for none then."""
    from pyspark.sql import functions

    return frame.withColumn("error", functions.lit(None).cast(ERROR))


def with_values(frame: DataFrame) -> DataFrame:
    """Return a frame in which a record without a value is a bad one where `rows` would make nulls of all its fields."""
    from pyspark.sql import functions

    if frame.schema["value"].dataType.typeName() != "struct":
        return frame
    problem = functions.lit("A record without a value is no row")
    found = data_error("TASK_PUT", "org.apache.kafka.connect.sink.SinkTask", problem)
    missing = functions.when(functions.col("value").isNull(), found)
    return frame.withColumn("error", functions.coalesce("error", missing))


def rows(frame: DataFrame) -> DataFrame:
    """Return what a table or a file takes of records: the fields of their values, or else all of each record."""
    if frame.schema["value"].dataType.typeName() == "struct":
        return frame.select("value.*")
    return frame.select(*(name for name in COLUMNS if name not in ("error", "original")))
