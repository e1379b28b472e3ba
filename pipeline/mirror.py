"""A sink that copies topics: records keep partitions, timestamps and headers, and which offset became which is noted.

Owns the producers of a batch's tasks, and the topic of offsets. A batch that is written again comes twice. Must not
know where records come from, nor what the copies are like (`mirror_topics`). Counterparts in Kafka: MirrorSourceTask,
OffsetSyncWriter.
"""

import struct
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.pipeline import jars
from ottla.pipeline.mirror_topics import CopiedTopics
from ottla.pipeline.positions import Partition, Positions, UnreachableError
from ottla.pipeline.settings import Settings
from ottla.pipeline.topics import BOOTSTRAP, TopicSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_OFFSETS: Final = struct.Struct(">qq")
_COMPACTED: Final = {"cleanup.policy": "compact"}
_ANSWERED_WITHIN_S: Final = 120.0
# How often a mirror compares configs and numbers of partitions while records come.
_LOOK_EVERY_S: Final = 60.0
# The most that the client takes for a limit.
_NO_LIMIT_BYTES: Final = 1_000_000_000


class OffsetSync(NamedTuple):
    """Which offset of a partition became which: all before the one are before the other."""

    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int

    def key(self) -> bytes:
        """As MirrorMaker writes it."""
        name = self.topic.encode()
        return struct.pack(f">h{len(name)}si", len(name), name, self.partition)

    def value(self) -> bytes:
        """As MirrorMaker writes it."""
        return _OFFSETS.pack(self.upstream_offset, self.downstream_offset)


class MirrorSink:
    """Copies of topics, under their own names or behind a prefix."""

    needs = (jars.KAFKA,)

    def __init__(self, settings: Settings, bootstrap: str | None, source: TopicSource | None) -> None:
        if source is None:
            raise settings.wrong("type", "is for jobs whose source is a topic")
        self.bootstrap = settings.text(BOOTSTRAP, bootstrap)
        self._source = source
        self._prefix = settings.text("topic.prefix", "")
        self._offsets_topic = settings.text(
            "offset.syncs.topic", f"mm2-offset-syncs.{settings.text('alias', 'source')}.internal"
        )
        self._topics = CopiedTopics(self._prefix)
        self._prepared: set[Partition] = set()
        self._look_again_at = 0.0
        if not self._prefix and source.bootstrap == self.bootstrap:
            raise settings.wrong("topic.prefix", "has to be there where a cluster is copied into itself")
        settings.finish()

    def write(self, records: "DataFrame", query_id: str, batch_id: int) -> None:
        """Write a batch, and note its offsets."""
        self._prepare(records.sparkSession)
        records = records.select(*_COLUMNS)
        # Spark reads a partition in one task, so that its order stays.
        copied = records.rdd.mapPartitions(partial(_copied, self.bootstrap, self._prefix)).collect()
        newest = {(each.topic, each.partition): each for each in sorted(copied)}
        with _writing(self.bootstrap) as write:
            for each in newest.values():
                write(self._offsets_topic, each.key(), each.value(), lambda offset: None, partition=0)

    def _prepare(self, spark: "SparkSession") -> None:
        """Create the copies before a producer auto-creates them; update them every `_LOOK_EVERY_S` seconds.

        The brokers name the partitions that a batch can have, because a look at the batch itself would read it twice.
        """
        regex = spark._jvm.java.util.regex.Pattern
        now = time.monotonic()
        with closing(Positions(self._source.bootstrap)) as theirs:
            partitions = set(self._source.partitions(theirs, regex.matches))
            if partitions <= self._prepared and now < self._look_again_at:
                return
            with closing(Positions(self.bootstrap)) as ours:
                self._topics.prepare(theirs, ours, {topic for topic, _ in partitions})
                ours.create(self._offsets_topic, 1, _COMPACTED)
        self._prepared, self._look_again_at = partitions, now + _LOOK_EVERY_S


def _copied(bootstrap: str, prefix: str, rows: Iterable[Any]) -> Iterator[OffsetSync]:
    """Copy the rows of a task; returns what became of the last one of each partition."""
    synced: dict[tuple[str, int], OffsetSync] = {}

    def arrived(row: Any, offset: int) -> None:
        synced[row.topic, row.partition] = OffsetSync(row.topic, row.partition, row.offset, offset)

    with _writing(bootstrap) as write:
        for row in rows:
            headers = [(header.key, _bytes(header.value)) for header in row.headers or ()]
            timestamp_ms = round(row.timestamp.timestamp() * 1000)
            more = {"partition": row.partition, "timestamp": timestamp_ms, "headers": headers}
            write(prefix + row.topic, _bytes(row.key), _bytes(row.value), partial(arrived, row), **more)
    yield from synced.values()


def _bytes(cell: Any) -> bytes | None:
    return None if cell is None else bytes(cell)


@contextmanager
def _writing(bootstrap: str) -> Iterator[Callable[..., None]]:
    """A client that keeps the order of records; the block ends when all of them have arrived, or with an error."""
    # Not kafka-python, which cannot write a header without a value.
    from confluent_kafka import Producer

    failed: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            # How large a record may be is for the brokers to say.
            "message.max.bytes": _NO_LIMIT_BYTES,
            "log_level": 0,
        }
    )

    def write(topic: str, key: bytes | None, value: bytes | None, arrived: Callable[[int], None], **more: Any) -> None:
        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                failed.append(error)
            else:
                arrived(message.offset())

        while True:
            try:
                producer.produce(topic, value, key, on_delivery=delivered, **more)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
        if failed:
            raise UnreachableError(f"{bootstrap}: records are not written: {failed[0].str()}")

    yield write
    left = producer.flush(_ANSWERED_WITHIN_S)
    if left or failed:
        reason = failed[0].str() if failed else f"{left} of them are not acknowledged"
        raise UnreachableError(f"{bootstrap}: records are not written: {reason}")
