"""`App`: streams in Python, for what needs code: topics through the same steps that jobs describe in files.

Owns topics as streams and tables, and queries that write topics. The steps are those of `ottla.pipeline.steps`.
Counterparts in Kafka: StreamsBuilder, KStream, KTable and KafkaStreams.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

from ottla.pipeline import jars
from ottla.pipeline.dead_letters import bad_record_in
from ottla.pipeline.feed import Feed
from ottla.pipeline.session import open_session
from ottla.pipeline.settings import Settings
from ottla.pipeline.steps import Step, check_order, output_mode, read_step, told
from ottla.pipeline.steps.inputs import newest, strict, table
from ottla.pipeline.steps.result import Result
from ottla.pipeline.steps.step import COLUMNS, RECORDS
from ottla.pipeline.topics import TopicSink

DataFrame: TypeAlias = Any
# How keys or values are written: "string", "bytes", JSON with such a schema as "id BIGINT, name STRING", or the keys of
# a format as jobs have them.
Format: TypeAlias = str | Mapping[str, object]

# What a join calls the two that it joins: `records` and this.
OTHER: Final = "other"
_LOOK_EVERY_S: Final = 0.25


class App:
    """Streams between topics of one cluster, each query with a checkpoint of its own below `checkpoint`.

    `client` has Kafka's keys for producers and consumers. Without a session `spark` one is opened, or the one taken
    that there is. A record that cannot be read ends its query.
    """

    def __init__(
        self,
        bootstrap: str,
        checkpoint: str | Path,
        *,
        spark: DataFrame = None,
        client: Mapping[str, str] | None = None,
    ) -> None:
        self.bootstrap = bootstrap
        self.checkpoint = Path(checkpoint)
        self.client = client or {}
        cache = self.checkpoint / "jars"
        self.spark = spark or open_session("streams", [jars.KAFKA], given={}, jar_folder=None, cache=cache)
        self._outputs: list[_Output] = []

    def topic(self, name: str, *, key: Format = "string", value: Format = "string", **options: object) -> "Stream":
        """The records of a topic; options are those of a job's source: starting_offsets="latest"."""
        feed = self._feed(name, key, value, options)
        return Stream(self, strict(feed.frame(self.spark, streaming=True)).select(*COLUMNS))

    def table(self, name: str, *, key: Format = "string", value: Format = "string") -> "Stream":
        """The newest record of each key of a compacted topic, read anew for each batch: to be joined with."""
        feed = self._feed(name, key, value, {})
        return Stream(self, table(newest(feed.frame(self.spark, streaming=False))).select(*COLUMNS))

    def run(self, *, once: bool = False) -> None:
        """Carry out all that is to be written: until one of them ends, or `once` with what there is now.

        Raises BadRecordError for a bad record, in one line.
        """
        queries = []
        try:
            for output in self._outputs:
                writer = output.frame.writeStream.format("kafka").options(**output.sink.options)
                writer = writer.outputMode(output.mode).queryName(output.name)
                writer = writer.option("checkpointLocation", str(self.checkpoint / output.name))
                queries.append((writer.trigger(availableNow=True) if once else writer).start())
            are_busy = any if once else all
            # Spark's own wait for any of them ends at once where another query of the session has ended before.
            while queries and are_busy(each.isActive for each in queries):
                time.sleep(_LOOK_EVERY_S)
            for error in [each.exception() for each in queries]:
                if error is not None:
                    raise bad_record_in(error) or error
        finally:
            for query in queries:
                query.stop()

    def write(self, topic: str, frame: DataFrame, mode: str) -> None:
        """Write a record frame to a topic when the app runs: what is no text and no bytes becomes JSON."""
        settings = _settings(topic, "to", topic=topic, producer=self.client)
        if topic in [each.name for each in self._outputs]:
            # Two queries would share a checkpoint, and each go on where the other is.
            raise settings.wrong("topic", "is written by another stream of this app: unite their frames first")
        sink = TopicSink(settings, self.bootstrap)
        self._outputs.append(_Output(topic, sink.columns(strict(sink.encoded(frame))), mode, sink))

    def _feed(self, name: str, key: Format, value: Format, options: Mapping[str, object]) -> Feed:
        given = {option.replace("_", "."): each for option, each in options.items()}
        values = {"type": "topic", "topics": [name], "key": _format(key), "value": _format(value), **given}
        return Feed(_settings(name, "topic", consumer=self.client, **values), self.bootstrap)


@dataclass(frozen=True)
class _Output:
    name: str
    frame: DataFrame
    mode: str
    sink: TopicSink


class Stream:
    """Rows on their way. `frame` is PySpark's own, for whatever is not here; `with_frame` goes on from it."""

    def __init__(self, app: App, frame: DataFrame, steps: Sequence[Step] = ()) -> None:
        self.app = app
        self.frame = frame
        self.steps = steps

    def with_frame(self, frame: DataFrame) -> "Stream":
        """The same with another frame."""
        return Stream(self.app, frame, self.steps)

    def sql(self, query: str) -> "Stream":
        """SELECT ... FROM records."""
        return self._then("sql", query=query)

    def window(
        self, size: str, *, watermark: str | None = None, advance: str | None = None, emit: str = "updates"
    ) -> "Groups":
        """Windows of a size, one every `advance`; emit="final" tells of them when they are closed, once."""
        return Groups(self, "window", {"size": size, "watermark": watermark, "advance": advance, "emit": emit})

    def session(self, gap: str, *, watermark: str | None = None) -> "Groups":
        """Windows that end with the last record that another follows no sooner than after a gap."""
        return Groups(self, "window", {"session_gap": gap, "watermark": watermark})

    def by(self, *keys: str) -> "Groups":
        """One group for each key, over all time."""
        return Groups(self, "aggregate", {}).by(*keys)

    def join(
        self,
        other: "Stream",
        on: str,
        select: Sequence[str],
        *,
        type: str = "inner",
        within: str | None = None,
        watermark: str | None = None,
    ) -> "Stream":
        """This stream, called `records`, with another one or a table, called `other`."""
        keys = {"with": OTHER, "on": on, "select": select, "type": type, "within": within, "watermark": watermark}
        return self._then("join", other, **keys)

    def deduplicate(self, *keys: str, watermark: str | None = None) -> "Stream":
        """The first row alone of those with the same keys."""
        return self._then("deduplicate", keys=keys, watermark=watermark)

    def state(
        self, processor: type, by: Sequence[str], schema: str, *, timers: str = "none", watermark: str | None = None
    ) -> "Stream":
        """What a StatefulProcessor of PySpark, with pandas, makes of each group."""
        name = f"{processor.__module__}:{processor.__qualname__}"
        keys = {"class": name, "group_by": by, "schema": schema, "timers": timers, "watermark": watermark}
        return self._then("state", **keys)

    def to(self, topic: str, key: str | None = None, value: str | None = None, windowed_key: str | None = None) -> None:
        """Write a topic when the app runs. Key and value are SQL; what is no text and no bytes becomes JSON."""
        settings = _settings(topic, "to", key=key, value=value, windowed_key=windowed_key)
        result = Result(settings, self.steps)
        settings.finish()
        with told(result):
            self.app.write(topic, result.apply({RECORDS: self.frame}), output_mode(self.steps))

    def _then(self, kind: str, other: "Stream | None" = None, /, **values: object) -> "Stream":
        settings = _settings("streams", kind, kind=kind, **values)
        step = read_step(settings)
        settings.finish()
        before = [*self.steps, *(other.steps if other else ())]
        check_order(step, before)
        views = {RECORDS: self.frame, **({OTHER: other.frame} if other else {})}
        with told(step):
            return Stream(self.app, step.apply(views), [*before, step])


class Groups:
    """Rows that are to be aggregated, by keys and windows."""

    def __init__(self, stream: Stream, kind: str, values: Mapping[str, object]) -> None:
        self._stream = stream
        self._kind = kind
        self._values = values
        self._keys: tuple[str, ...] = ()

    def by(self, *keys: str) -> Self:
        """Have one group for each value of these SQL expressions."""
        self._keys = keys
        return self

    def aggregate(self, **aggregates: str) -> Stream:
        """One row for each group, with SQL expressions by name: n="count(*)"."""
        return self._stream._then(self._kind, group_by=self._keys, aggregates=aggregates, **self._values)


def _settings(file: str, part: str, **values: object) -> Settings:
    return Settings({key: value for key, value in values.items() if value is not None}, file, f"{part}.")


def _format(kind: Format) -> Mapping[str, object]:
    if not isinstance(kind, str):
        return kind
    return {"type": kind} if kind in ("string", "bytes") else {"type": "json", "schema": kind}
