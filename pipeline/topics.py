"""Topics as source and sink of a job, through Spark's own connector.

Owns the keys of both and their names in Spark. Must not know jobs, nor how it is done that records are written once
(`transactional_sink`). Counterparts in Kafka: consumer and producer of a Connect worker.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from ottla.pipeline import jars
from ottla.pipeline.checkpoint import Offsets
from ottla.pipeline.formats import Format, read_format
from ottla.pipeline.java_regex import JAVA_REGEX
from ottla.pipeline.positions import EARLIEST, LATEST, Partition, Positions, by_topic
from ottla.pipeline.settings import JobError, Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BOOTSTRAP: Final = "bootstrap.servers"
_AS_THEY_ARE: Final = ("binary", "string", "void")
_ENDS: Final = {"earliest": EARLIEST, "latest": LATEST}
AT_LEAST_ONCE, EXACTLY_ONCE = "at-least-once", "exactly-once"
_SUBSCRIPTIONS: Final = {"topics": "subscribe", "topics.regex": "subscribePattern", "partitions": "assign"}
_LIMITS: Final = {
    "max.offsets.per.trigger": "maxOffsetsPerTrigger",
    "min.offsets.per.trigger": "minOffsetsPerTrigger",
    "min.partitions": "minPartitions",
}


class TopicSource:
    """Records of topics, as Spark's connector gives them."""

    def __init__(self, settings: Settings, bootstrap: str | None) -> None:
        self.bootstrap = settings.text(BOOTSTRAP, bootstrap)
        self._way, self._wanted = _subscription(settings)
        self.options = {
            "kafka.bootstrap.servers": self.bootstrap,
            "includeHeaders": "true",
            "failOnDataLoss": str(settings.truth("fail.on.data.loss", default=True)).lower(),
            "kafka.isolation.level": settings.choice(
                "isolation.level", ("read_committed", "read_uncommitted"), "read_committed"
            ),
            "startingOffsets": _offsets(settings, "starting.offsets", "earliest"),
            _SUBSCRIPTIONS[self._way]: self._wanted,
            **_client_keys(settings, "consumer"),
        }
        self.options |= {name: str(settings.integer(key, least=1)) for key, name in _LIMITS.items() if key in settings}
        if (delay := settings.optional("max.trigger.delay")) is not None:
            self.options["maxTriggerDelay"] = delay
        self.ending_offsets = _offsets(settings, "ending.offsets", "latest")
        self.names = self._wanted.split(",") if self._way == "topics" else None
        settings.finish()

    def load(
        self, spark: "SparkSession", *, streaming: bool, start: Mapping[str, Mapping[str, int]] | None = None
    ) -> "DataFrame":
        """All there is and will be, from `start` on if a job was moved there; or all there is now."""
        options = self.options if start is None else self.options | {"startingOffsets": json.dumps(start)}
        if streaming:
            return spark.readStream.format("kafka").options(**options).load()
        return spark.read.format("kafka").options(**options, endingOffsets=self.ending_offsets).load()

    def partitions(self, positions: Positions, matches: Callable[[str, str], object] = re.fullmatch) -> list[Partition]:
        """Which partitions these are, now; `matches` is given a regular expression and a topic."""
        if self._way == "partitions":
            return [(topic, partition) for topic, each in json.loads(self._wanted).items() for partition in each]
        if self._way == "topics.regex":
            try:
                return positions.partitions([each for each in positions.topics() if matches(self._wanted, each)])
            except re.error as error:
                # Java may know it: Spark reads these topics, though they cannot be told here.
                raise JobError(f"topics.regex {self._wanted!r} cannot be matched here: {error}") from None
        return positions.partitions(self._wanted.split(","))

    def completed(self, start: Offsets, positions: Positions) -> Offsets:
        """Where to begin in all partitions that there are now; those that are new begin with their first record.

        Spark takes no others, and all of them.
        """
        return by_topic(
            {
                (topic, partition): start.get(topic, {}).get(str(partition), EARLIEST)
                for topic, partition in self.partitions(positions)
            }
        )

    def reads(self, topic: str) -> bool:
        """Whether a topic is among these, be it there yet or not."""
        if self._way == "topics.regex":
            try:
                return re.fullmatch(self._wanted, topic) is not None
            except re.error:
                return False  # Java may know it, and nobody asks Java before Spark starts.
        return topic in (json.loads(self._wanted) if self._way == "partitions" else self._wanted.split(","))

    def starts_at(self, topic: str, partition: int) -> int:
        """The offset at which a partition is begun, or EARLIEST or LATEST."""
        text = self.options["startingOffsets"]
        if text in _ENDS:
            return _ENDS[text]
        return int(json.loads(text).get(topic, {}).get(str(partition), EARLIEST))


class TopicSink:
    """Records for one topic, or for the one that each names."""

    def __init__(self, settings: Settings, bootstrap: str | None) -> None:
        self.bootstrap = settings.text(BOOTSTRAP, bootstrap)
        self.topic = settings.optional("topic")
        self.is_once = settings.choice("delivery", (AT_LEAST_ONCE, EXACTLY_ONCE), AT_LEAST_ONCE) == EXACTLY_ONCE
        self.keeps_partitions = settings.truth("keep.partitions", default=False)
        self._tasks = settings.integer("tasks", 1, least=1)
        self._formats = {side: _format(settings, side) for side in ("key", "value")}
        formats = [each for each in self._formats.values() if each is not None]
        self.needs = [jars.KAFKA, *(need for each in formats for need in each.needs)]
        self._producer_keys = _client_keys(settings, "producer")
        if self.is_once and self.topic is None:
            raise settings.wrong("topic", f"has to be there where delivery is {EXACTLY_ONCE}")
        settings.finish()

    def check(self) -> None:
        """Refuse what the brokers cannot do, before there are records."""
        if self.is_once:
            from ottla.pipeline.transactions import check_transactions

            check_transactions(self.bootstrap, self._producer_keys)

    def encoded(self, records: "DataFrame") -> "DataFrame":
        """Records whose keys and values are bytes; what has no format is as it is, or JSON."""
        for side, format_ in self._formats.items():
            if format_ is not None:
                records = format_.encode(records, side)
            elif records.schema[side].dataType.typeName() not in _AS_THEY_ARE:
                records = read_format(Settings({"type": "json"}, side)).encode(records, side)
        return records

    @property
    def options(self) -> dict[str, str]:
        """What Spark's sink is told."""
        topic = {} if self.topic is None else {"topic": self.topic}
        return {"kafka.bootstrap.servers": self.bootstrap, "includeHeaders": "true", **topic, **self._producer_keys}

    def columns(self, records: "DataFrame") -> "DataFrame":
        """Of what there is, what a topic takes; a record's own topic and partition only where they are to be kept."""
        wanted = ["key", "value", "headers"]
        wanted += [] if self.topic else ["topic"]
        wanted += ["partition"] if self.keeps_partitions else []
        return records.select(*(each for each in wanted if each in records.columns))

    def write(self, records: "DataFrame", query_id: str, batch_id: int, name: str) -> None:
        """Write a batch, of which nothing is written twice where that was asked for."""
        if not self.is_once:
            self.columns(records).write.format("kafka").options(**self.options).save()
            return
        from ottla.pipeline import transactional_sink

        transactional_sink.register(records.sparkSession)
        # A task that comes again has the same rows: of the same partitions of the source, in their order.
        spread = self.columns(transactional_sink.spread(records, self._tasks, "topic", "partition"))
        own = {"topic": str(self.topic), "query": name, "tasks": str(self._tasks)}
        writer = spread.write.format(transactional_sink.FORMAT).mode("append")
        writer.options(**{"kafka.bootstrap.servers": self.bootstrap}, **self._producer_keys, **own).save()


def _format(settings: Settings, side: str) -> Format | None:
    part = settings.part(side)
    if not part.keys():
        return None
    found = read_format(part)
    found.check_writing()
    return found


def _subscription(settings: Settings) -> tuple[str, str]:
    """Which way topics are named, and how."""
    given = [key for key in _SUBSCRIPTIONS if key in settings]
    if len(given) != 1:
        raise settings.wrong("topics", f"or {' or '.join(list(_SUBSCRIPTIONS)[1:])} has to be there, and only one")
    (key,) = given
    if key == "topics":
        topics = settings.texts(key)
        if not topics:
            raise settings.wrong(key, "is empty")
        return key, ",".join(topics)
    text = settings.text(key)
    if key == "topics.regex" and (fault := JAVA_REGEX.fault(text)):
        raise settings.wrong(key, fault)
    if key == "partitions" and not _are_partitions(text):
        raise settings.wrong(key, f'is to be {{"topic": [0, 1]}}, not {text!r}')
    return key, text


def _are_partitions(text: str) -> bool:
    try:
        topics = json.loads(text)
    except ValueError:
        return False
    is_right = isinstance(topics, dict) and all(isinstance(each, list) for each in topics.values())
    return is_right and all(isinstance(partition, int) for each in topics.values() for partition in each)


def _offsets(settings: Settings, key: str, default: str) -> str:
    """Where to begin or to end: `earliest`, `latest`, or offsets by topic and partition as JSON."""
    text = settings.text(key, default)
    if text in _ENDS:
        return text
    try:
        offsets = json.loads(text)
        is_right = isinstance(offsets, dict) and all(
            isinstance(of, dict) and all(isinstance(each, int) for each in of.values()) for of in offsets.values()
        )
    except ValueError:
        is_right = False
    if not is_right:
        raise settings.wrong(key, f'is to be earliest, latest or {{"topic": {{"0": 42}}}}, not {text!r}')
    return text


def _client_keys(settings: Settings, part: str) -> dict[str, str]:
    """Kafka's own keys of a client, handed on."""
    return {f"kafka.{key}": text for key, text in settings.part(part).all_texts().items()}
