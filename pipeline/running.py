"""A job at work: the query that Spark runs for it, batch by batch, and what is told of it.

Owns the way of records from the source to the sink, and when a batch counts. A batch that is run again after a crash
writes nothing twice where its sink can tell that it was there: sinks know the query and the batch. Must not know files,
terminals and servers. Counterparts in Kafka: WorkerSourceTask, WorkerSinkTask, KafkaStreams.
"""

import json
import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.pipeline import record_frame
from ottla.pipeline.checkpoint import Checkpoint, Offsets
from ottla.pipeline.dead_letters import bad_record_in
from ottla.pipeline.job import Job
from ottla.pipeline.mirror import MirrorSink
from ottla.pipeline.positions import NoTopicError, Positions, UnreachableError
from ottla.pipeline.record_frame import ROWS
from ottla.pipeline.sinks import Sink
from ottla.pipeline.steps import apply_steps, output_mode
from ottla.pipeline.topics import TopicSink
from ottla.pipeline.transforms import apply_transforms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_NAMED: Final = re.compile(r"^(Caused by: )?([A-Za-z_]\w*\.)+\w*(Error|Exception): ")
_LOOK_EVERY_S: Final = 0.25
_POLL_EVERY_S: Final = 1.0
_PATIENCE_S: Final = 10.0
_NOTHING_TOLD: Final = (-1, "")

logger = logging.getLogger(__name__)


class Progress(NamedTuple):
    """How far a job is."""

    batch: int
    rows: int
    """How many rows the sources gave."""
    rows_per_second: float
    lag: int | None
    """How many records wait in the source's topics; None for a source that is no topic."""

    def __str__(self) -> str:
        lag = "" if self.lag is None else f", lag {self.lag:,}"
        return f"batch {self.batch:,}, {self.rows:,} rows, {self.rows_per_second:,.0f} rows/s{lag}"


class JobFailedError(Exception):
    """A job that ended because of something; the text is one line."""


class Running:
    """One run of a job."""

    def __init__(
        self,
        job: Job,
        checkpoint: Checkpoint,
        spark: "SparkSession",
        tell: Callable[[Progress], None],
        stopping: threading.Event | None = None,
    ) -> None:
        """`stopping` is set by whoever wants it to end, perhaps before it has begun."""
        self._job = job
        self._checkpoint = checkpoint
        self._spark = spark
        self._tell = tell
        self._failure: BaseException | None = None
        self._query_id = ""
        self._stopping = stopping or threading.Event()
        self._owed: Offsets = {}
        # Steps that keep state have to see a stream; all others see a batch, whose bad records were put aside.
        self._streams = any(step.is_stateful for step in job.steps) or any(not each.is_table for each, _ in job.inputs)

    def run(self, *, once: bool) -> None:
        """Work until stopped, or until all is done that there is now. Raises JobFailedError."""
        from py4j.protocol import Py4JError, Py4JNetworkError
        from pyspark.errors import PySparkException

        try:
            self._run(once)
        except (Py4JNetworkError, ConnectionError):
            raise self._failed("Spark is gone: its JVM was killed, or had too little memory") from None
        except (PySparkException, Py4JError) as error:
            raise self._failed(_one_line(error)) from error

    def _run(self, once: bool) -> None:
        with self._checkpoint.locked():
            positions = self._positions()
            try:
                self._owe(self._checkpoint.offsets())
                query = self._start(once, positions)
                try:
                    self._watch(query, positions)
                finally:
                    self._end(query)
            finally:
                if positions is not None:
                    positions.close()

    def stop(self) -> None:
        """End soon; a batch that is under way is run again at the next start."""
        self._stopping.set()

    # The query

    def _start(self, once: bool, positions: Positions | None) -> "StreamingQuery":
        job = self._job
        trigger = {"availableNow": True} if once else job.trigger.arguments()
        frame = self._frame(positions)
        if self._streams:
            frame = apply_steps(frame, job.steps, self._inputs(self._spark))
        writer = frame.writeStream.queryName(job.name).option("checkpointLocation", str(self._checkpoint.spark))
        if job.trigger.continuous and not once:
            assert isinstance(job.sink, TopicSink)
            frame = job.sink.columns(job.errors.checked(job.sink.encoded(frame)))
            writer = frame.writeStream.format("kafka").options(**job.sink.options)
            writer = writer.option("checkpointLocation", str(self._checkpoint.spark))
        else:
            writer = writer.outputMode(output_mode(job.steps)).foreachBatch(self._write)
        return writer.trigger(**trigger).start()

    def _end(self, query: "StreamingQuery") -> None:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            query.stop()
        except (PySparkException, Py4JError):
            if not self._stopping.is_set():
                raise
            # Brokers that are gone are waited for, whoever interrupts that. With Spark ends all that may still write,
            # before the job's lock is given up.
            self._spark.stop()

    def _frame(self, positions: Positions | None) -> "DataFrame":
        checkpoint, start, topics = str(self._checkpoint.spark), self._checkpoint.start(), self._job.source.topics
        if start is not None and topics is not None and positions is not None:
            start = topics.completed(start, positions)
        frame = self._job.source.frame(self._spark, streaming=True, checkpoint=checkpoint, start=start)
        return self._job.source.timed(apply_transforms(frame, self._job.transforms))

    def _inputs(self, spark: "SparkSession") -> Mapping[str, "DataFrame"]:
        frames = {}
        for each, feed in self._job.inputs:
            checkpoint = str(self._checkpoint.spark / "inputs" / each.name)
            frame = feed.frame(spark, streaming=not each.is_table, checkpoint=checkpoint)
            frames[each.name] = each.prepare(feed.timed(frame))
        return frames

    def _write(self, batch: "DataFrame", batch_id: int) -> None:
        """One batch; runs on a thread of Spark's."""
        try:
            self._write_batch(batch, batch_id)
        except Exception as error:
            self._failure = error
            raise

    def _write_batch(self, batch: "DataFrame", batch_id: int) -> None:
        job = self._job
        self._query_id = self._query_id or self._checkpoint.query_id()
        if not job.steps or self._streams:
            self._deliver(batch, batch_id)
            return
        with job.errors.split(batch) as (good, bad):
            # A batch has a session of its own, and SQL sees no views of another.
            inputs = self._inputs(good.sparkSession)
            self._deliver(apply_steps(record_frame.without_errors(good), job.steps, inputs), batch_id)
            self._put_aside(bad)

    def _deliver(self, frame: "DataFrame", batch_id: int) -> None:
        sink = self._job.sink
        if self._job.steps:
            frame = record_frame.made_by_steps(frame)
        if isinstance(sink, TopicSink):
            frame = sink.encoded(frame)
        elif isinstance(sink, Sink) and not sink.takes_nulls:
            frame = record_frame.with_values(frame)
        with self._job.errors.split(frame) as (good, bad):
            if isinstance(sink, TopicSink):
                sink.write(good, self._query_id, batch_id, self._job.name)
            elif isinstance(sink, MirrorSink):
                sink.write(good, self._query_id, batch_id)
            else:
                sink.write(record_frame.rows(good), self._query_id, batch_id)
            self._put_aside(bad)

    def _put_aside(self, bad: "DataFrame | None") -> None:
        job = self._job
        if bad is None:
            return
        job.errors.log(bad, job.name)
        if job.errors.topic is not None:
            letters = job.errors.dead_letters(bad, job.name)
            brokers = {"kafka.bootstrap.servers": str(job.dead_letters), "includeHeaders": "true"}
            letters.write.format("kafka").options(**brokers).save()

    # What is told

    def _positions(self) -> Positions | None:
        topics = self._job.source.topics
        return None if topics is None else Positions(topics.bootstrap)

    def _watch(self, query: "StreamingQuery", positions: Positions | None) -> None:
        told = _NOTHING_TOLD
        next_poll = 0.0
        while query.isActive and not self._stopping.is_set():
            self._stopping.wait(_LOOK_EVERY_S)
            now = time.monotonic()
            if now >= next_poll:
                next_poll = now + _POLL_EVERY_S
                for feed in (self._job.source, *(each for _, each in self._job.inputs)):
                    feed.poll()
            told = self._tell_since(query, positions, told)
            self._commit(positions)
        self._tell_since(query, positions, told)
        self._commit(positions, 0.0 if self._stopping.is_set() else _PATIENCE_S)
        if not self._stopping.is_set() and (error := query.exception()) is not None:
            error = self._failure or error
            raise self._failed(_one_line(bad_record_in(error) or error) + self._what_is_gone(positions))

    def _what_is_gone(self, positions: Positions | None) -> str:
        """What the brokers say of a job that failed: of a topic that was deleted Spark does not tell the name."""
        topics = self._job.source.topics
        try:
            if positions is not None and topics is not None and topics.names is not None:
                positions.partitions(topics.names)
        except UnreachableError as error:
            return f" {error}"
        return ""

    def _failed(self, line: str) -> JobFailedError:
        file = f"{self._job.file}: "
        return JobFailedError(file + line.removeprefix(file))

    def _tell_since(
        self, query: "StreamingQuery", positions: Positions | None, told: tuple[int, str]
    ) -> tuple[int, str]:
        for progress in query.recentProgress:
            # Of a trigger that had nothing to do Spark tells under the number of the batch to come.
            batch, trigger = progress["batchId"], (progress["batchId"], progress["timestamp"])
            if trigger <= told:
                continue
            told = trigger
            # As Spark's JVM tells it: before 4.2 PySpark gives offsets in Python's words.
            said = json.loads(progress.json)
            offsets = [each for each in map(_offsets, said["sources"]) if each is not None]
            self._owe([end for end, _ in offsets])
            lag = sum(_distance(end, latest) for end, latest in offsets) if positions is not None else None
            rows, read = _rows(said), progress["numInputRows"]
            rows_per_second = (progress["processedRowsPerSecond"] or 0.0) * (rows / read if read else 1)
            self._tell(Progress(batch, rows, rows_per_second, lag))
        return told

    def _owe(self, offsets: list[Offsets]) -> None:
        """Offsets that those who look at consumer groups are to see."""
        for each in offsets:
            for topic, of in each.items():
                self._owed.setdefault(topic, {}).update(of)

    def _commit(self, positions: Positions | None, patience_s: float = 0.0) -> None:
        """Show where the job is. Nothing depends on it: what cannot be committed now is the next time."""
        if positions is None or not self._owed:
            return
        try:
            positions.commit(self._job.group, self._owed, patience_s)
            self._owed = {}
        except UnreachableError as error:
            if isinstance(error, NoTopicError):
                # A topic that is gone, or of an input from another cluster; all others are committed.
                self._owed = {}
            logger.info("The offsets of %s are not committed: %s", self._job.name, error)


def _offsets(source: Any) -> tuple[Offsets, Offsets] | None:
    """Where a topic source is, and where its topics end."""
    if not source["description"].startswith("KafkaV2"):
        return None
    end, latest = source["endOffset"], source["latestOffset"]
    return None if end is None else (end, latest or end)


def _rows(progress: Any) -> int:
    """Return how many rows the sources gave.

    Not Spark's own `numInputRows` alone, because a query with windows, joins or state reads a row more than once.
    The rows of topics are at most the distance of their offsets. All other sources have an observed metric each, which
    counts a row once.
    """
    rows = sum(int(metric.get(ROWS) or 0) for metric in (progress.get("observedMetrics") or {}).values())
    for source in progress["sources"]:
        if (offsets := _offsets(source)) is not None:
            # Spark does not say where the first batch begins.
            rows += min(int(source["numInputRows"]), _distance(source.get("startOffset") or {}, offsets[0]))
    return rows


def _distance(start: Offsets, end: Offsets) -> int:
    return sum(
        max(0, offset - start.get(topic, {}).get(partition, 0))
        for topic, of in end.items()
        for partition, offset in of.items()
    )


def _one_line(error: BaseException | None) -> str:
    """What an error says; of one that came through Spark, what it was at first."""
    lines = str(error).strip().splitlines()
    first = [line.strip() for line in lines if _NAMED.match(line.strip())]
    if first:
        return _NAMED.sub("", first[-1])
    return lines[0] if lines else type(error).__name__
