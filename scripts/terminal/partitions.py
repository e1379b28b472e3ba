"""Partitions on the command line: `TOPIC`, `TOPIC:0`, `TOPIC:0,3-5`, where TOPIC may be a shell pattern.

Owns the notation. Must not know the use of partitions.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import click

from ottla.client.cluster import Client, kafka_error
from ottla.scripts.terminal.patterns import chosen, is_pattern
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from ottla.wire.types import TopicPartition

WHOLE_TOPIC = -1
"""The partition number of a row for a topic that cannot be described."""
Found = Mapping[TopicPartition, MetadataResponsePartition | KafkaError]


class Chosen(NamedTuple):
    """A topic, and the numbers of some of its partitions; None for all."""

    topic: str
    numbers: frozenset[int] | None


def read_partitions(texts: Sequence[str]) -> list[Chosen]:
    """Return the topics and partitions of texts. UsageError for an invalid text."""
    found = []
    for text in texts:
        # No topic has a colon in its name.
        topic, colon, numbers = text.partition(":")
        if not topic:
            raise click.UsageError(f"{text!r}: partitions are TOPIC or TOPIC:0 or TOPIC:0,3-5")
        found.append(Chosen(topic, _numbers(text, numbers) if colon else None))
    return found


def _numbers(text: str, numbers: str) -> frozenset[int]:
    found: set[int] = set()
    try:
        for each in numbers.split(","):
            first, dash, last = each.partition("-")
            found.update(range(int(first), int(last if dash else first) + 1))
    except ValueError:
        raise click.UsageError(f"{text!r}: partitions are numbers, such as 0 or 0,3-5") from None
    return frozenset(found)


def read_brokers(text: str) -> list[int]:
    """Return the brokers of `--brokers`, in their order. UsageError if a part is not a number."""
    try:
        return sorted({int(each) for each in text.split(",")})
    except ValueError:
        raise click.UsageError(f"--brokers {text}: brokers are numbers, such as 1,2") from None


async def find_partitions(client: Client, wanted: Sequence[Chosen]) -> Found:
    """Return partitions in the order of their names, and an error for each missing one; all if none is wanted.

    The error of a topic that cannot be described is at its partition `WHOLE_TOPIC`.
    """
    plain = not any(is_pattern(each.topic) for each in wanted)
    names = list(dict.fromkeys(each.topic for each in wanted)) if wanted and plain else None
    topics = {topic.name or "": topic for topic in (await client.metadata(names)).topics}
    found: dict[TopicPartition, MetadataResponsePartition | KafkaError] = {}
    for each in wanted or [Chosen("*", None)]:
        found.update(_find(each, topics))
    return {partition: found[partition] for partition in sorted(found)}


def _find(wanted: Chosen, topics: Mapping[str, MetadataResponseTopic]) -> Found:
    found: dict[TopicPartition, MetadataResponsePartition | KafkaError] = {}
    names = chosen(topics, [wanted.topic]) if is_pattern(wanted.topic) else [wanted.topic]
    for name in names:
        topic = topics.get(name)
        if topic is None or topic.error_code != ErrorCode.NONE:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error_code
            is_missing = code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            found[TopicPartition(name, WHOLE_TOPIC)] = kafka_error(code, "there is no such topic" if is_missing else "")
            continue
        partitions = {each.partition_index: each for each in topic.partitions}
        for number in partitions if wanted.numbers is None else sorted(wanted.numbers):
            missing = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic has no such partition")
            found[TopicPartition(name, number)] = partitions.get(number, missing)
    return found


def place(partition: TopicPartition) -> dict[str, str | int | None]:
    """Return the columns `topic` and `partition` of a row."""
    return {
        "topic": partition.topic,
        "partition": None if partition.partition == WHOLE_TOPIC else partition.partition,
    }
