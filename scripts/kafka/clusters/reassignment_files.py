"""The files of kafka-reassign-partitions, and the assignments that it proposes.

PURE but for chance, which chooses the first broker of a proposal. Must not know a cluster.
Counterparts: ReassignPartitionsCommand's parsing and formatting, StripedReplicaPlacer.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from ottla.client.admin.log_dirs import Replica
from ottla.scripts.kafka.face import JavaError, Release
from ottla.scripts.kafka.failures import command_failed, operation_failed
from ottla.scripts.kafka.java import json_values
from ottla.scripts.kafka.java.hashes import by_number_hash, by_partition_hash, by_string_hash
from ottla.scripts.kafka.java.numbers import INTEGER
from ottla.wire.types import TopicPartition

T = TypeVar("T")
ANY: Final = "any"
"""In place of a log directory: the broker chooses one."""
_VERSION: Final = 1


class Wanted(NamedTuple):
    """A reassignment file: replicas of partitions in the file's order, and directories of some replicas."""

    partitions: Sequence[tuple[TopicPartition, list[int]]]
    log_dirs: Mapping[Replica, str]


def parse_reassignment(text: str, release: Release) -> Wanted:
    """Return the reassignment in a file. JavaError if it cannot be read."""
    try:
        document = json_values.as_object(json_values.parse(text))
    except JavaError as error:
        if error.java_class.endswith("JsonParseException"):
            raise operation_failed(release, error.message, error) from None
        raise
    _check_version(document, release)
    partitions, log_dirs = [], {}
    for each in map(json_values.as_object, json_values.as_array(document.get("partitions", []))):
        partition, replicas, dirs = _entry(each, release)
        partitions.append((partition, replicas))
        for broker_id, path in zip(replicas, dirs, strict=True):
            if path != ANY:
                log_dirs[Replica(*partition, broker_id)] = path
    return Wanted(partitions, log_dirs)


def _check_version(document: Mapping[str, Any], release: Release) -> None:
    version = json_values.as_int(document.get("version", _VERSION))
    if version != _VERSION:
        raise operation_failed(release, f"Not supported version field value {version}")


def _entry(each: dict[str, Any], release: Release) -> tuple[TopicPartition, list[int], list[str]]:
    topic = json_values.as_text(json_values.field(each, "topic"))
    partition = TopicPartition(topic, json_values.as_int(json_values.field(each, "partition")))
    replicas = [json_values.as_int(it) for it in json_values.list_of(json_values.field(each, "replicas"))]
    dirs = [ANY] * len(replicas)
    if "log_dirs" in each:
        dirs = [json_values.as_text(it) for it in json_values.list_of(each["log_dirs"])]
    if len(replicas) != len(dirs):
        message = (
            f"Size of replicas list {_listed(replicas)} is different from size of log dirs list {_listed(dirs)} for "
            f"partition {partition}"
        )
        raise command_failed(release, message)
    return partition, replicas, dirs


def _listed(values: Iterable[object]) -> str:
    return f"[{', '.join(map(str, values))}]"


def check_targets(wanted: Wanted, release: Release) -> dict[TopicPartition, list[int]]:
    """Return the replicas of each partition. JavaError if they cannot be executed."""
    if not wanted.partitions:
        raise command_failed(release, "Partition reassignment list cannot be empty")
    if not all(replicas for _, replicas in wanted.partitions):
        raise command_failed(release, "Partition replica list cannot be empty")
    twice = by_partition_hash(_repeated(partition for partition, _ in wanted.partitions))
    if twice:
        shown = ",".join(map(str, twice))
        raise command_failed(release, f"Partition reassignment contains duplicate topic partitions: {shown}")
    found = []
    for partition, replicas in wanted.partitions:
        again = by_number_hash(_repeated(replicas))
        if again:
            found.append(f"{partition} contains multiple entries for {','.join(map(str, again))}")
    if found:
        raise command_failed(release, f"Partition replica lists may not contain duplicate entries: {'. '.join(found)}")
    return dict(wanted.partitions)


def parse_topics(text: str, release: Release) -> list[str]:
    """Return the topics in a file. JavaError if it cannot be read."""
    try:
        document = json_values.parse(text)
    except JavaError:
        raise operation_failed(release, "The input string is not a valid JSON") from None
    fields = json_values.as_object(document)
    _check_version(fields, release)
    entries = map(json_values.as_object, json_values.as_array(fields.get("topics", [])))
    topics = [json_values.as_text(json_values.field(each, "topic")) for each in entries]
    twice = _repeated(topics)
    if twice:
        shown = _listed(by_string_hash(twice))
        raise command_failed(release, f"List of topics to reassign contains duplicate entries: {shown}")
    return topics


def parse_brokers(text: str, release: Release) -> list[int]:
    """Return broker ids separated by commas. JavaError if one is not a number, or is there twice."""
    brokers: list[int] = []
    for each in text.split(","):
        try:
            brokers.append(INTEGER.convert(each))
        except ValueError as error:
            raise JavaError("java.lang.NumberFormatException", str(error)) from None
    twice = by_number_hash(_repeated(brokers))
    if twice:
        raise command_failed(release, f"Broker list contains duplicate entries: {_listed(twice)}")
    return brokers


def formatted(partitions: Mapping[TopicPartition, Sequence[int]], log_dirs: Mapping[Replica, str]) -> str:
    """Return a reassignment file."""
    entries = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "replicas": list(partitions[each]),
            "log_dirs": [log_dirs.get(Replica(*each, broker_id), ANY) for broker_id in partitions[each]],
        }
        for each in sorted(partitions)
    ]
    return json_values.encode({"version": _VERSION, "partitions": entries})


def propose(racks: Mapping[int, str | None], partitions: int, replicas: int) -> list[list[int]]:
    """Return brokers for each partition of a topic: leaders in turn, and racks in turn for the other replicas."""
    by_rack: dict[str, list[int]] = {}
    for broker_id in sorted(racks):
        by_rack.setdefault(racks[broker_id] or "", []).append(broker_id)
    queues = [by_rack[rack] for rack in sorted(by_rack)]
    queues = _turned(queues, random.randrange(len(queues)))
    queues = [_turned(queue, random.randrange(len(queue))) for queue in queues]
    found = []
    for number in range(partitions):
        if number and number % len(racks) == 0:
            # Because otherwise the same replicas would follow the same leader again.
            random.shuffle(queues)
            for queue in queues:
                random.shuffle(queue)
        first = number % len(queues)
        turn = [_turned(queue, number) for queue in _turned(queues, first)]
        longest = max(map(len, turn))
        found.append([queue[place] for place in range(longest) for queue in turn if place < len(queue)][:replicas])
    return found


def _repeated(values: Iterable[T]) -> list[T]:
    return [each for each, count in Counter(values).items() if count > 1]


def _turned(values: list[T], places: int) -> list[T]:
    places %= len(values)
    return values[places:] + values[:places]
