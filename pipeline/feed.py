"""Where records come from: a source, and what its bytes mean.

Owns how any source becomes a record frame. Must not know what becomes of the records. Counterpart in Kafka: a consumer
with its deserializers.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ottla.pipeline import jars, record_frame
from ottla.pipeline.formats import Format, read_format
from ottla.pipeline.settings import Settings
from ottla.pipeline.sources import SOURCES, read_source
from ottla.pipeline.topics import TopicSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC: Final = "topic"
SIDES: Final = ("key", "value")


class Feed:
    """A source of a job. What can be wrong with its keys is said when it is made. Bytes without a format stay bytes."""

    def __init__(self, settings: Settings, bootstrap: str | None) -> None:
        self._settings = settings
        self._time = settings.optional("time")
        self.topics: TopicSource | None = None
        self.formats: dict[str, Format] = {}
        self.needs: Sequence[str] = ()
        if settings.choice("type", (TOPIC, *SOURCES)) == TOPIC:
            parts = {side: settings.part(side) for side in SIDES}
            self.formats = {side: read_format(part) for side, part in parts.items() if part.keys()}
            for format_ in self.formats.values():
                format_.check_reading()
            self.needs = [jars.KAFKA, *(need for each in self.formats.values() for need in each.needs)]
            self.topics = TopicSource(settings, bootstrap)
        else:
            self._rows = read_source(settings)
            self.needs = self._rows.needs

    def frame(
        self,
        spark: "SparkSession",
        *,
        streaming: bool,
        checkpoint: str = "",
        start: Mapping[str, Mapping[str, int]] | None = None,
    ) -> "DataFrame":
        """The record frame: as a stream, which may `start` elsewhere than the job says, or all that there is now."""
        if self.topics is None:
            rows = self._rows.records(spark, streaming=streaming, checkpoint=checkpoint)
            return record_frame.counted(rows, f"{self._settings.prefix}rows") if streaming else rows
        frame = record_frame.from_kafka(self.topics.load(spark, streaming=streaming, start=start))
        for side, format_ in self.formats.items():
            frame = format_.decode(frame, side)
        return frame

    def timed(self, frame: "DataFrame") -> "DataFrame":
        """Return a record frame whose timestamp is what `time` says, where there is one."""
        from pyspark.errors import PySparkException
        from pyspark.sql import functions

        if self._time is None:
            return frame
        try:
            return frame.withColumn("timestamp", functions.expr(self._time).cast("timestamp"))
        except PySparkException as error:
            raise self._settings.wrong("time", f"cannot be: {str(error).strip().splitlines()[0]}") from None

    def poll(self) -> None:
        """Look for new rows where Spark cannot do so itself."""
        if self.topics is None:
            self._rows.poll()
