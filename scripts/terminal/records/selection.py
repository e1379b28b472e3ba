"""The options that select records: partitions, and a range of offsets or times.

Owns the reading of these options. Must not know the use of the records.
"""

import time
from collections.abc import Sequence

import click

from ottla.client.cluster import check
from ottla.scripts.terminal.records.ranges import BEGINNING, Range, read_point, read_range
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.metadata import MetadataResponseTopic
from ottla.wire.types import TopicPartition


def read_numbers(text: str | None) -> list[int]:
    """Return the partitions of `--partition`; an empty list for all. UsageError if a part is not a number."""
    numbers = [] if text is None else text.split(",")
    if not all(each.isascii() and each.isdigit() for each in numbers):
        raise click.UsageError(f"--partition {text}: use a number, or several with commas")
    return sorted(set(map(int, numbers)))


def read_bounds(first: str | None, until: str | None, offset: str | None) -> Range:
    """Return the range of `--from` and `--until`, or of `--offset`. UsageError for options that contradict."""
    now_ms = time.time_ns() // 1_000_000
    if offset is None:
        start = BEGINNING if first is None else read_point(first, now_ms)
        return Range(start, None if until is None else read_point(until, now_ms))
    if first is not None or until is not None:
        raise click.UsageError(f"{'--until' if first is None else '--from'} and --offset contradict each other")
    return read_range(offset, now_ms)


def some_partitions(topic: MetadataResponseTopic, numbers: Sequence[int]) -> list[TopicPartition]:
    """Return these partitions of a topic, or all. KafkaError if the topic or a partition does not exist."""
    name = topic.name or ""
    check(topic.error_code, name)
    known = sorted(each.partition_index for each in topic.partitions)
    for number in numbers:
        if number not in known:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{name} has no partition {number}")
    return [TopicPartition(name, number) for number in numbers or known]
