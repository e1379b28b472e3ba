"""What a reader of log files was asked for: which directories, which topics, from where to where, and how strictly.

Owns the names of the options and the forms of their values. Must not know files, nor Spark. Counterparts in Spark's
source for Kafka: KafkaSourceProvider, ConsumerStrategy, JsonUtils.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from ottla.pipeline.settings import JobError, Settings
from ottla.wire.types import TopicPartition

FORMAT: Final = "ottla-log"
EARLIEST: Final = -2
LATEST: Final = -1
_NAMED: Final = {"earliest": EARLIEST, "latest": LATEST}
_KEYS: Final = (
    "path", "subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets", "isolation",
    "failOnDataLoss", "mode", "maxOffsetsPerTrigger",
)  # fmt: skip
# As with Kafka's clients, a pattern finds none of these.
_INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})

Offsets = Mapping[TopicPartition, int]


class Subscription(NamedTuple):
    """Which partitions are wanted: those of topics, those of topics that a pattern finds, or these."""

    topics: frozenset[str] | None = None
    pattern: re.Pattern[str] | None = None
    partitions: frozenset[TopicPartition] | None = None

    def wants(self, topic_partition: TopicPartition) -> bool:
        """Whether this is one of them."""
        topic = topic_partition.topic
        if self.partitions is not None:
            return topic_partition in self.partitions
        if self.topics is not None:
            return topic in self.topics
        return self.pattern is not None and topic not in _INTERNAL and self.pattern.fullmatch(topic) is not None

    def missing(self, found: Iterable[TopicPartition]) -> list[str]:
        """What was asked for by its name and is not among those that were found."""
        there = set(found)
        if self.partitions is not None:
            return sorted(map(str, self.partitions - there))
        return sorted((self.topics or frozenset()) - {each.topic for each in there})


class LogOptions(NamedTuple):
    """All that can be asked for."""

    directories: tuple[Path, ...]
    subscription: Subscription
    starting: int | Offsets
    """EARLIEST, LATEST, or an offset (or one of these) for each partition."""
    ending: int | Offsets
    read_committed: bool
    fail_on_data_loss: bool
    is_permissive: bool
    max_offsets_per_trigger: int | None


def parse_options(options: Mapping[str, str], *, streaming: bool = False) -> LogOptions:
    """The options of a reader, whatever the case of their names. JobError for what is none."""
    names = {key.lower(): key for key in _KEYS}
    settings = Settings({names.get(key.lower(), key): value for key, value in options.items()}, FORMAT)
    parsed = LogOptions(
        directories=tuple(map(Path, settings.texts("path"))),
        subscription=_subscription(settings),
        starting=_offsets(settings, "startingOffsets", "latest" if streaming else "earliest"),
        ending=_offsets(settings, "endingOffsets", "latest"),
        read_committed=settings.choice("isolation", ("read_committed", "read_uncommitted"), "read_committed")
        == "read_committed",
        fail_on_data_loss=settings.truth("failOnDataLoss", default=True),
        is_permissive=settings.choice("mode", ("FAILFAST", "PERMISSIVE"), "FAILFAST") == "PERMISSIVE",
        max_offsets_per_trigger=settings.integer("maxOffsetsPerTrigger", least=1)
        if "maxOffsetsPerTrigger" in settings
        else None,
    )
    settings.finish()
    if streaming and "endingOffsets" in settings:
        raise settings.wrong("endingOffsets", "is not for streams, which have no end")
    if not streaming and parsed.starting == LATEST:
        raise settings.wrong("startingOffsets", "is latest, where nothing is to be read yet")
    if EARLIEST in (parsed.ending.values() if isinstance(parsed.ending, Mapping) else [parsed.ending]):
        raise settings.wrong("endingOffsets", "is earliest, where nothing was read yet")
    return parsed


def offset_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Offsets as Spark's source for Kafka writes them; the same text for the same offsets."""
    found: dict[str, dict[str, int]] = {}
    for topic_partition in sorted(offsets):
        found.setdefault(topic_partition.topic, {})[str(topic_partition.partition)] = offsets[topic_partition]
    return found


def parse_offset_json(document: object) -> dict[TopicPartition, int]:
    """What `offset_json` made. ValueError where it is not that."""
    if not isinstance(document, dict):
        raise ValueError("no object of topics")
    offsets = {}
    for topic, by_partition in document.items():
        if not isinstance(by_partition, dict):
            raise ValueError(f"no object of partitions for {topic}")
        for partition, offset in by_partition.items():
            if not partition.isdecimal() or not isinstance(offset, int) or isinstance(offset, bool) or offset < -2:
                raise ValueError(f"no offset for {topic}-{partition}")
            offsets[TopicPartition(topic, int(partition))] = offset
    return offsets


def _subscription(settings: Settings) -> Subscription:
    ways = [key for key in ("subscribe", "subscribePattern", "assign") if key in settings]
    if len(ways) != 1:
        raise JobError(f"{FORMAT}: one of subscribe, subscribePattern and assign is to be there, and not {len(ways)}")
    way = ways[0]
    if way == "subscribe":
        topics = frozenset(settings.texts(way))
        if not topics:
            raise settings.wrong(way, "names no topic")
        return Subscription(topics=topics)
    if way == "subscribePattern":
        try:
            return Subscription(pattern=re.compile(settings.text(way)))
        except re.error as error:
            raise settings.wrong(way, f"is no pattern: {error}") from None
    try:
        document = json.loads(settings.text(way))
        named = [(topic, int(number)) for topic, numbers in document.items() for number in numbers]
    except (ValueError, TypeError, AttributeError):
        raise settings.wrong(way, 'is to be like {"topic": [0, 1]}') from None
    if not named:
        raise settings.wrong(way, "names no partition")
    return Subscription(partitions=frozenset(TopicPartition(*each) for each in named))


def _offsets(settings: Settings, key: str, default: str) -> int | Offsets:
    text = settings.text(key, default)
    if text.lower() in _NAMED:
        return _NAMED[text.lower()]
    try:
        return parse_offset_json(json.loads(text))
    except ValueError as error:
        raise settings.wrong(key, f'is to be earliest, latest or like {{"topic": {{"0": 5}}}}: {error}') from None
