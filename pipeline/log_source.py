"""Topics as tables without a broker's help: a Spark data source that reads log directories from the disk.

Owns what Spark asks of a source, in batches and in streams. Must not know files nor records: `log_source_directories`
plans, `log_source_reading` reads, `log_source_arrow` makes columns of it. Counterparts in Spark: KafkaBatch,
KafkaMicroBatchStream.

It runs in Python processes of Spark's, where `ottla` has to be installed and the directories to be found: one at the
driver plans, one for each task reads.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from ottla.pipeline.log_source_arrow import SCHEMA, record_batch
from ottla.pipeline.log_source_directories import Logs, Slice
from ottla.pipeline.log_source_options import FORMAT, LogOptions, offset_json, parse_offset_json, parse_options
from ottla.pipeline.log_source_reading import SliceReader
from ottla.pipeline.log_source_stream import LogStream

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:  # before 4.2, where a batch of a stream is all that there is
    SupportsTriggerAvailableNow = object


def register(spark: Any) -> None:
    """Have a Spark session know `format("ottla-log")`."""
    spark.dataSource.register(LogSource)


class LogSource(DataSource):
    """The format `ottla-log`."""

    @classmethod
    def name(cls) -> str:
        """What to call it."""
        return FORMAT

    def schema(self) -> str:
        """The columns of Spark's source for Kafka, headers among them."""
        return SCHEMA

    def reader(self, schema: Any) -> "LogReader":
        """For `spark.read`."""
        return LogReader(parse_options(self.options))

    def streamReader(self, schema: Any) -> "LogStreamReader":  # noqa: N802 - Spark's name
        """For `spark.readStream`."""
        return LogStreamReader(parse_options(self.options, streaming=True))


class _Reader:
    """What reads in a task, of a batch or of a stream."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options

    def read(self, partition: Any) -> Iterator[Any]:
        """The records of one slice as Arrow's record batches."""
        wanted: Slice | None = partition.value
        if wanted is None:  # Spark's way to say that there are no slices
            return
        reader = SliceReader(
            wanted, is_permissive=self._options.is_permissive, fail_on_data_loss=self._options.fail_on_data_loss
        )
        for columns in reader.read():
            yield record_batch(columns, *wanted.topic_partition)


class LogReader(_Reader, DataSourceReader):
    """What is there now."""

    def partitions(self) -> Sequence[Any]:
        """A task for each segment, or for each part of a large one."""
        return [InputPartition(each) for each in Logs(self._options).batch()]


class LogStreamReader(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What is there, and what comes."""

    def __init__(self, options: LogOptions) -> None:
        super().__init__(options)
        self._stream = LogStream(options)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's names from here on
        """Where a new query begins."""
        return offset_json(self._stream.initial())

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """How much a batch takes at most."""
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """Where the next batch ends; Spark says neither where it begins nor how much it wants before 4.2."""
        latest = self._stream.latest(parse_offset_json(start or {}), getattr(limit, "max_rows", None))
        return offset_json(latest)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What comes later is not for this query."""
        self._stream.stop_at_what_is_there()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
        """The tasks of a batch."""
        return [InputPartition(each) for each in self._stream.slices(parse_offset_json(start), parse_offset_json(end))]
