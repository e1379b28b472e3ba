"""What becomes of bad records: they end the job in one line, or are left out, logged and kept in a topic of their own.

Owns the keys of `[errors]`, and what a dead letter looks like. Must not know how rows are read, and writes none.
Counterparts in Kafka: RetryWithToleranceOperator, DeadLetterQueueReporter, LogReporter.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from ottla.pipeline.record_frame import HEADERS, unmoved
from ottla.pipeline.settings import Settings

DataFrame = Any
Column = Any

logger = logging.getLogger(__name__)

_PREFIX: Final = "__connect.errors."
_DEFAULT_REPLICATION: Final = 3
# Around the line of a bad record, so that it is found again in whatever Spark makes of it on its way to the driver.
_BEGIN, _END = "bad-record<<", "<<bad-record"


class BadRecordError(Exception):
    """A record that the job does not tolerate, in one line."""


@dataclass(frozen=True)
class ErrorPolicy:
    """What a job does with bad records. `topic` is where dead letters go, None where there are none."""

    tolerates_all: bool
    topic: str | None
    replication_factor: int
    has_context_headers: bool
    logs: bool
    logs_messages: bool

    @contextmanager
    def split(self, batch: DataFrame) -> Iterator[tuple[DataFrame, DataFrame | None]]:
        """Give the good rows of a batch and the bad ones; None where nobody is to look at these.

        Where none is tolerated the good rows end whoever reads them as soon as there is a bad one: `bad_record_in`
        finds it in what is raised. Where they are kept, the batch is remembered while the block lasts, so that
        it is read and transformed once; of good rows nothing then tells what they were in their topic.
        """
        from pyspark.sql import functions as fn

        if not self.tolerates_all:
            yield self.checked(batch), None
            return
        batch = batch.withColumn("error", unmoved(fn.col("error")))
        if self.topic is None and not self.logs:
            yield batch.where(fn.col("error").isNull()), None
            return
        # Most of what is remembered would be what came from the topic, of which nobody needs that of good rows.
        original = fn.when(fn.col("error").isNotNull(), fn.col("original"))
        batch = batch.withColumn("original", original)
        batch.persist()
        try:
            yield batch.where(fn.col("error").isNull()), batch.where(fn.col("error").isNotNull())
        finally:
            batch.unpersist()

    def checked(self, frame: DataFrame) -> DataFrame:
        """Return a frame, of a batch or a stream, that cannot be read beyond a bad row."""
        from pyspark.sql import functions as fn

        end = fn.raise_error(fn.concat(fn.lit(_BEGIN), _line(), fn.lit(_END))).cast("boolean")
        frame = frame.withColumn("error", unmoved(fn.col("error")))
        return frame.where(fn.when(fn.col("error").isNull(), True).otherwise(end))

    def dead_letters(self, bad: DataFrame, connector: str, task: int = 0) -> DataFrame:
        """Return what Spark's Kafka sink writes of bad rows: original key, value and headers, and what was wrong."""
        from pyspark.sql import functions as fn

        headers = fn.coalesce("original.headers", fn.array().cast(HEADERS))
        if self.has_context_headers:
            headers = fn.concat(headers, _context(connector, task))
        return bad.select(
            fn.lit(self.topic).alias("topic"),
            fn.col("original.key").alias("key"),
            fn.col("original.value").alias("value"),
            headers.alias("headers"),
        )

    def log(self, bad: DataFrame, connector: str, task: int = 0) -> None:
        """Log a line for each bad row, if the job asks for that, as Connect has them."""
        if not self.logs:
            return
        for row in bad.select("original.topic", "partition", "offset", "timestamp", "error").toLocalIterator():
            line = f"Error encountered in task {connector}-{task}. Executing stage '{row.error['stage']}'"
            line += f" with class '{row.error['executing']}'"
            if self.logs_messages:
                line += f", where consumed record is {{topic='{row.topic}', partition={row.partition}"
                line += f", offset={row.offset}, timestamp={row.timestamp}}}"
            logger.error("%s. %s: %s", line, row.error["class"], row.error["message"])


def read_errors(settings: Settings) -> ErrorPolicy:
    """What `[errors]` says, whose keys are those of Connect without `errors.`."""
    dead, log = settings.part("deadletterqueue"), settings.part("log")
    topic, context = dead.part("topic"), dead.part("context")
    headers, replication, include = context.part("headers"), topic.part("replication"), log.part("include")
    policy = ErrorPolicy(
        tolerates_all=settings.choice("tolerance", ["none", "all"], "none") == "all",
        topic=(topic.optional("name") or "").strip() or None,
        replication_factor=replication.integer("factor", _DEFAULT_REPLICATION),
        has_context_headers=headers.truth("enable", default=False),
        logs=log.truth("enable", default=False),
        logs_messages=include.truth("messages", default=False),
    )
    if policy.replication_factor < 1 and policy.replication_factor != -1:
        raise replication.wrong(
            "factor", f"is to be at least 1, or -1 for the broker's own, not {policy.replication_factor}"
        )
    for part in (headers, replication, include, topic, context, dead, log, settings):
        part.finish()
    return policy


def bad_record_in(error: BaseException) -> BadRecordError | None:
    """The bad record that ended a query, out of what Spark says; None if it ended for another reason."""
    found = re.search(f"{_BEGIN}(.*?){_END}", str(error), re.DOTALL)
    return BadRecordError(found[1]) if found else None


def _line() -> Column:
    """The line of a bad row: where it is, where it was found to be bad, and why."""
    from pyspark.sql import functions as fn

    def text(name: str) -> Column:
        return fn.coalesce(fn.col(name).cast("string"), fn.lit("none"))

    where = fn.concat(fn.lit("topic "), text("original.topic"), fn.lit(", partition "), text("partition"))
    where = fn.concat(where, fn.lit(", offset "), text("offset"), fn.lit(": "))
    # Of a row of a file the error itself says where it is.
    where = fn.when(fn.col("original.topic").isNotNull() | fn.col("offset").isNotNull(), where).otherwise(fn.lit(""))
    message = fn.regexp_replace(text("error.message"), r"\s+", " ")
    return fn.concat(where, text("error.stage"), fn.lit(": "), message)


def _context(connector: str, task: int) -> Column:
    """The headers that tell where a record came from, and what was wrong with it."""
    from pyspark.sql import functions as fn

    error, message = fn.col("error.class"), fn.col("error.message")
    # As Java prints an exception; that of a column has been nowhere.
    trace = fn.concat(error, fn.coalesce(fn.concat(fn.lit(": "), message), fn.lit("")), fn.lit("\n"))
    texts = {
        "topic": fn.col("original.topic"),
        "partition": fn.col("partition").cast("string"),
        "offset": fn.col("offset").cast("string"),
        "connector.name": fn.lit(connector),
        "task.id": fn.lit(str(task)),
        "stage": fn.col("error.stage"),
        "class.name": fn.col("error.executing"),
        "exception.class.name": error,
        "exception.message": message,
        "exception.stacktrace": trace,
    }
    headers = (
        fn.struct(fn.lit(_PREFIX + name).alias("key"), text.cast("binary").alias("value"))
        for name, text in texts.items()
    )
    return fn.array(*headers)
