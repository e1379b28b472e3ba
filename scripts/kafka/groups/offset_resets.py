"""New offsets for a reset: the partitions, the offsets, and their lines.

Counterparts: org.apache.kafka.tools.OffsetsUtils; in 3.9, ConsumerGroupCommand's own methods.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ottla.client.admin.groups.committed_offsets import Offsets
from ottla.client.admin.offsets import EARLIEST, LATEST, NO_OFFSET, list_offsets, partitions_of
from ottla.client.cluster import Client
from ottla.client.errors import ClientError
from ottla.scripts.kafka.face import Face, JavaError, as_java, execution, illegal_argument, timed_out
from ottla.scripts.kafka.java.hashes import hash_order, partition_hash
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition

_LOGGER: Final = {
    False: "org.apache.kafka.tools.OffsetsUtils",
    True: "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
}
_LEADER_LOGGER: Final = "org.apache.kafka.clients.admin.internals.PartitionLeaderStrategy"
_LEAST_WIDTH: Final = 15
NewOffsets = Mapping[TopicPartition, int]


def runtime(cause: JavaError) -> JavaError:
    """Return a RuntimeException around another exception."""
    return JavaError("java.lang.RuntimeException", str(cause), cause)


def as_runtime(error: KafkaError) -> JavaError:
    """Return the exception of a tool whose future failed."""
    return runtime(execution(as_java(error)))


def in_hash_order(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return partitions in the order of a HashMap with these keys."""
    found = list(dict.fromkeys(partitions))
    return [found[position] for position in hash_order(partition_hash(each.topic, each.partition) for each in found)]


# Partitions


def parse_topic_with_partitions(text: str) -> list[TopicPartition]:
    """Return the partitions of `topic:0,1`."""
    parts = text.split(":")
    while parts and not parts[-1]:
        parts.pop()  # like Java's split
    if len(parts) != 2:
        raise illegal_argument(f"Invalid topic arg '{text}', expected topic name and partitions")
    topic, numbers = parts
    found = []
    for number in numbers.split(","):
        if not number.removeprefix("-").isdigit():
            raise illegal_argument(f"Invalid partition '{number}' specified in topic arg '{text}''")
        found.append(TopicPartition(topic, int(number)))
    return found


async def partitions_to_reset(client: Client, arguments: Sequence[str]) -> list[TopicPartition]:
    """Return the partitions of `--topic` arguments. KafkaError for a topic that does not exist."""
    found = [each for text in arguments if ":" in text for each in parse_topic_with_partitions(text)]
    for topic in (await partitions_of(client, [text for text in arguments if ":" not in text])).values():
        if isinstance(topic, KafkaError):
            raise topic
        found += topic
    return found


async def check_partitions(client: Client, partitions: Sequence[TopicPartition]) -> None:
    """Raise JavaError unless all partitions exist and have leaders."""
    existing = await partitions_of(client, {each.topic for each in partitions})
    for topic in existing.values():
        if isinstance(topic, KafkaError):
            raise as_runtime(topic)
    missing = [each for each in partitions if each not in existing[each.topic]]  # type: ignore[operator]
    if missing:
        names = ",".join(map(str, missing))
        raise as_java(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f'The partitions "{names}" do not exist'))
    leaders = await client.leaders(partitions) if partitions else {}
    leaderless = [each for each in partitions if isinstance(leaders[each], KafkaError)]
    if leaderless:
        names = ",".join(map(str, leaderless))
        raise as_java(KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f'The partitions "{names}" have no leader'))


# Offsets


async def offsets_at(
    client: Client, face: Face, partitions: Iterable[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    """Return offsets of a timestamp, -1 if there is none. JavaError if the offset of a partition cannot be found."""
    found = {}
    try:
        results = await list_offsets(client, dict.fromkeys(partitions, timestamp))
    except ClientError:
        raise runtime(execution(timed_out("listOffsets"))) from None
    for partition, result in results.items():
        if isinstance(result, KafkaError):
            raise runtime(execution(_refusal(face, partition, result)))
        found[partition] = result.offset
    return found


def _refusal(face: Face, partition: TopicPartition, error: KafkaError) -> JavaError:
    if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return timed_out("listOffsets")  # Kafka's client waits for the partition to appear
    if error.code != ErrorCode.INVALID_TOPIC_EXCEPTION:
        return as_java(KafkaError(error.code))
    text = (
        f"[AdminClient clientId=adminclient-1] Received invalid topic error for topic {partition.topic} in `Metadata` "
        "response"
    )
    if face.is_3_9:
        face.complain(f"ERROR {text} ({_LEADER_LOGGER})")
        face.complain(str(as_java(KafkaError(error.code))))
    else:
        face.complain(f"[kafka-admin-client-thread | adminclient-1] ERROR {_LEADER_LOGGER} - {text}")
    return as_java(
        KafkaError(
            error.code, f"Failed to fetch metadata for partition {partition} due to invalid topic `{partition.topic}`"
        )
    )


async def offsets_at_or_latest(
    client: Client, face: Face, partitions: Iterable[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    """Return offsets of a time; the end of a log without a record since then."""
    found = await offsets_at(client, face, partitions, timestamp)
    without = in_hash_order(each for each, offset in found.items() if offset == NO_OFFSET)
    for topic, partition in without:
        face.print(f"\nWarn: Partition {partition} from topic {topic} is empty. Falling back to latest known offset.")
    return found | await offsets_at(client, face, without, LATEST)


async def offsets_in_range(client: Client, face: Face, wanted: NewOffsets) -> dict[TopicPartition, int]:
    """Return the offsets, moved into the ranges of the logs."""
    starts = await offsets_at(client, face, wanted, EARLIEST)
    ends = await offsets_at(client, face, wanted, LATEST)
    found = {}
    for partition, offset in wanted.items():
        start, end = starts[partition], ends[partition]
        found[partition] = min(max(offset, start), end)
        if found[partition] != offset:
            which = "higher than latest" if offset > end else "lower than earliest"
            face.complain(
                f"[main] WARN {_LOGGER[face.is_3_9]} - New offset ({offset}) is {which} offset for topic partition "
                f"{partition}. Value will be set to {found[partition]}"
            )
    return found


async def shifted_offsets(
    client: Client, face: Face, partitions: Sequence[TopicPartition], committed: Offsets, shift: int
) -> dict[TopicPartition, int]:
    """Return committed offsets plus `shift`."""
    for each in partitions:
        if each not in committed:
            raise illegal_argument(
                f"Cannot shift offset for partition {each} since there is no current committed offset"
            )
    return await offsets_in_range(client, face, {each: committed[each].offset + shift for each in partitions})


async def current_offsets(
    client: Client, face: Face, partitions: Sequence[TopicPartition], committed: Offsets
) -> dict[TopicPartition, int]:
    """Return committed offsets; the end of a log without one."""
    found = {each: committed[each].offset for each in partitions if each in committed}
    return found | await offsets_at(client, face, [each for each in partitions if each not in committed], LATEST)


# Lines


def print_offsets(face: Face, offsets: Mapping[str, NewOffsets]) -> None:
    """Print the new offsets of groups. 3.9 prints all rows on one line."""
    if face.is_3_9:
        if offsets:
            face.print(f"\n{'GROUP':<30} {'TOPIC':<30} {'PARTITION':<10} {'NEW-OFFSET':<15}", end="")
        for group, (topic, partition), offset in _rows(offsets):
            face.print(f"{group:<30} {topic:<30} {partition:<10} {offset:<15}", end="")
        return
    widths = [
        max(_LEAST_WIDTH, *map(len, offsets), 0),
        max(_LEAST_WIDTH, *(len(topic) for found in offsets.values() for topic, _ in found), 0),
    ]
    if offsets:
        face.print(f"\n{'GROUP':<{widths[0]}} {'TOPIC':<{widths[1]}} {'PARTITION':<10} NEW-OFFSET", end="")
    for group, (topic, partition), offset in _rows(offsets):
        face.print(f"\n{group:<{widths[0]}} {topic:<{widths[1]}} {partition:<10} {offset}", end="")
    face.print()


def _rows(offsets: Mapping[str, NewOffsets]) -> Iterable[tuple[str, TopicPartition, int]]:
    return [
        (group, partition, found[partition]) for group, found in offsets.items() for partition in in_hash_order(found)
    ]
