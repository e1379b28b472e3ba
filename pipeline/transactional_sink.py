"""Spark's data source `ottla-transactional`: a streaming query's batches go to topics, each record once.

Owns how rows become records, and how a task learns which batch it is a part of. Must not know transactions
(`transactional_write`). Counterpart in Spark: the sink `kafka`, whose columns it takes.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage

from ottla.pipeline.settings import JobError, Settings
from ottla.pipeline.transactional_write import Record, Written, write_once
from ottla.pipeline.transactions import Batch, Target, kafka_settings

FORMAT: Final = "ottla-transactional"
_HEADERS: Final = "array<struct<key:string,value:binary>>"
_TYPES: Final = {
    "key": ("binary", "string", "void"),
    "value": ("binary", "string", "void"),
    "headers": (_HEADERS,),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}
# What Spark tells the tasks of a streaming query.
_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"


def register(spark: Any) -> None:
    """Have a session know the format."""
    spark.dataSource.register(TransactionalSink)


def spread(frame: Any, tasks: int, *columns: Any) -> Any:
    """Return a frame of so many tasks, in which a task that comes again has the same rows.

    The columns are to have the same values then, and to come as often: a source's topic and partition, a key. Rows
    that agree in them keep their order where each source partition is read by one task.
    """
    if not columns:
        raise ValueError("rows are spread by columns")
    return frame.repartition(tasks, *columns)


class TransactionalSink(DataSource):
    """Options: kafka.bootstrap.servers and others of kafka-python, topic, query (a name of its own), tasks.

    `topic` is where rows without a topic go; it has at least as many partitions as there are tasks. Frames come from
    `spread`, with that number of tasks: as a stream, or as the frames of foreachBatch.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Return what writes a stream."""
        return _StreamWriter(self._target(), _columns(schema))

    def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:
        """Return what writes a frame of foreachBatch."""
        return _FrameWriter(self._target(), _columns(schema))

    def _target(self) -> Target:
        kafka = kafka_settings(self.options)
        others = {key.lower(): text for key, text in self.options.items() if not key.lower().startswith("kafka.")}
        settings = Settings(others, FORMAT)
        target = Target(kafka, settings.text("topic"), settings.text("query"), settings.integer("tasks", least=1))
        # Spark's own, of the query.
        settings.optional("checkpointlocation"), settings.optional("path")
        settings.finish()
        return target


@dataclass
class Done(WriterCommitMessage):
    """What a task tells when its transaction is committed, by this attempt or an earlier one."""

    written: Written


class _StreamWriter(DataSourceStreamWriter):
    """Writes the batches of a stream."""

    def __init__(self, target: Target, columns: dict[str, int]) -> None:
        self._target = target
        self._columns = columns

    def write(self, iterator: Iterator[Any]) -> Done:
        """Write the rows of a task, unless an earlier attempt did."""
        context = TaskContext.get()
        checkpoint, number = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
        if not checkpoint or not number:
            raise JobError(f"{FORMAT} writes the batches of streaming queries, and this is none")
        records = _records(iterator, self._columns, self._target.topic)
        with _in_utc():
            return Done(write_once(self._target, context.partitionId(), Batch(checkpoint, int(number)), records))

    def commit(self, messages: list[Any], batchId: int = -1) -> None:  # noqa: N803
        """Refuse what was not spread: tasks that come again may have other rows then."""
        if len(messages) != self._target.tasks and any(message.written.records for message in messages):
            wanted = f"{len(messages)} tasks, not {self._target.tasks}"
            raise JobError(f"{FORMAT}: the frame has {wanted}: it is to be spread")

    def abort(self, messages: list[Any], batchId: int = -1) -> None:  # noqa: N803
        """Leave what is committed: it is the same when the batch comes again."""


class _FrameWriter(_StreamWriter, DataSourceWriter):
    """Writes the frames of foreachBatch, in the same way."""


def _columns(schema: Any) -> dict[str, int]:
    """Return where each column of a record is, or refuse columns that are none of a record's."""
    found = {}
    for index, field in enumerate(schema.fields):
        kind = field.dataType.simpleString()
        if kind not in _TYPES.get(field.name, ()):
            wanted = f"is to be {' or '.join(_TYPES[field.name])}" if field.name in _TYPES else "is not a record's"
            raise JobError(f"{FORMAT}: the column {field.name} ({kind}) {wanted}")
        found[field.name] = index
    if "value" not in found:
        raise JobError(f"{FORMAT}: there is no column value")
    return found


def _records(rows: Iterator[Any], columns: dict[str, int], default_topic: str) -> Iterator[Record]:
    """Return rows as records."""
    # What is not there is the None after the last column.
    key, value, headers, topic, partition, timestamp = (columns.get(name, -1) for name in _TYPES)
    for row in rows:
        cells = (*row, None)
        yield Record(
            default_topic if cells[topic] is None else cells[topic],
            _bytes(cells[key]),
            _bytes(cells[value]),
            [_header(header) for header in cells[headers] or ()],
            cells[partition],
            None if cells[timestamp] is None else round(cells[timestamp].timestamp() * 1000),
        )


@contextlib.contextmanager
def _in_utc() -> Iterator[None]:
    """Have Spark give times of UTC: it gives those of here, of which some come twice when clocks are put back."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()


def _bytes(cell: Any) -> bytes | None:
    return cell.encode() if isinstance(cell, str) else cell


def _header(header: Any) -> Any:
    name, content = header or (None, None)
    return name, content if content is None else bytes(content)
