"""Topics as source and sink of a job, through Spark's own connector.

Owns the keys of both and their names in Spark. Must not know formats, nor how often a batch is written: what has to be
written once goes through `transactional_sink`. Counterparts in Kafka: consumer and producer of a Connect worker.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ottla.pipeline.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BOOTSTRAP: Final = "bootstrap.servers"
AT_LEAST_ONCE, EXACTLY_ONCE = "at-least-once", "exactly-once"
_SUBSCRIPTIONS: Final = {"topics": "subscribe", "topics.regex": "subscribePattern", "partitions": "assign"}
_LIMITS: Final = {
    "max.offsets.per.trigger": "maxOffsetsPerTrigger",
    "min.offsets.per.trigger": "minOffsetsPerTrigger",
    "max.trigger.delay": "maxTriggerDelay",
    "min.partitions": "minPartitions",
}


class TopicSource:
    """Records of topics, as Spark's connector gives them."""

    def __init__(self, settings: Settings, bootstrap: str | None) -> None:
        self.bootstrap = settings.text(BOOTSTRAP, bootstrap)
        self.options = {
            "kafka.bootstrap.servers": self.bootstrap,
            "includeHeaders": "true",
            "failOnDataLoss": str(settings.truth("fail.on.data.loss", default=True)).lower(),
            "kafka.isolation.level": settings.choice(
                "isolation.level", ("read_committed", "read_uncommitted"), "read_committed"
            ),
            "startingOffsets": _offsets(settings, "starting.offsets", "earliest"),
            **_subscription(settings),
            **_consumer_keys(settings, "consumer"),
        }
        self.options |= {name: settings.text(key) for key, name in _LIMITS.items() if key in settings}
        self.ending_offsets = _offsets(settings, "ending.offsets", "latest")
        settings.finish()

    def load(self, spark: "SparkSession", starting_offsets: Mapping[str, Mapping[str, int]] | None) -> "DataFrame":
        """All there is and will be, from given offsets on if a job was moved to some."""
        options = dict(self.options)
        if starting_offsets is not None:
            options["startingOffsets"] = json.dumps(starting_offsets)
        return spark.readStream.format("kafka").options(**options).load()


class TopicSink:
    """Records for one topic, or for the one that each names."""

    def __init__(self, settings: Settings, bootstrap: str | None) -> None:
        self.bootstrap = settings.text(BOOTSTRAP, bootstrap)
        self.topic = settings.optional("topic")
        self.delivery = settings.choice("delivery", (AT_LEAST_ONCE, EXACTLY_ONCE), AT_LEAST_ONCE)
        self.keeps_partitions = settings.truth("keep.partitions", default=False)
        self.producer_keys = _consumer_keys(settings, "producer")
        settings.finish()

    @property
    def options(self) -> dict[str, str]:
        """What Spark's sink is told."""
        topic = {} if self.topic is None else {"topic": self.topic}
        return {"kafka.bootstrap.servers": self.bootstrap, "includeHeaders": "true", **topic, **self.producer_keys}

    def columns(self, records: "DataFrame") -> "DataFrame":
        """Of what there is, what a topic takes; a record's own topic and partition only where they are to be kept."""
        wanted = ["key", "value", "headers"]
        wanted += [] if self.topic else ["topic"]
        wanted += ["partition"] if self.keeps_partitions else []
        return records.select(*(each for each in wanted if each in records.columns))

    def write(self, records: "DataFrame", query_id: str, batch_id: int) -> None:
        """Write a batch; once more if it is written again."""
        self.columns(records).write.format("kafka").options(**self.options).save()


def _subscription(settings: Settings) -> dict[str, str]:
    given = [key for key in _SUBSCRIPTIONS if key in settings]
    if len(given) != 1:
        raise settings.wrong("topics", f"or {' or '.join(list(_SUBSCRIPTIONS)[1:])} has to be there, and only one")
    (key,) = given
    text = ",".join(settings.texts(key)) if key == "topics" else settings.text(key)
    return {_SUBSCRIPTIONS[key]: text}


def _offsets(settings: Settings, key: str, default: str) -> str:
    """Where to begin or to end: `earliest`, `latest`, or offsets by topic and partition as JSON."""
    text = settings.text(key, default)
    if text in ("earliest", "latest"):
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


def _consumer_keys(settings: Settings, part: str) -> dict[str, str]:
    """Kafka's own keys of a client, handed on."""
    return {f"kafka.{key}": text for key, text in settings.part(part).all_texts().items()}
