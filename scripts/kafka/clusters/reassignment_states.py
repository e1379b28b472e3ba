"""The progress of a reassignment, in the lines of kafka-reassign-partitions.

Must not print. Counterparts: PartitionReassignmentState, LogDirMoveState.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.admin.log_dirs import Replica, Whereabouts, find_replicas
from ottla.client.admin.reassignments import Reassignment
from ottla.client.admin.topics import describe_topics
from ottla.client.cluster import Client
from ottla.scripts.kafka.calls import as_execution
from ottla.scripts.kafka.clusters.reassignment_files import Wanted
from ottla.scripts.kafka.face import JavaError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.metadata import MetadataResponseTopic
from ottla.wire.types import TopicPartition


def joined(values: Iterable[object]) -> str:
    """Return values with commas between them."""
    return ",".join(map(str, values))


async def partition_states(
    client: Client, wanted: Wanted, under_way: Mapping[TopicPartition, Reassignment]
) -> dict[TopicPartition, str]:
    """Return a line for each partition."""
    topics = {partition.topic for partition, _ in wanted.partitions if partition not in under_way}
    described = await describe_topics(client, sorted(topics))
    states = {}
    for partition, target in wanted.partitions:
        if partition in under_way:
            states[partition] = f"Reassignment of partition {partition} is still in progress."
            continue
        current = _replicas(described[partition.topic], partition.partition)
        if current == target:
            states[partition] = f"Reassignment of partition {partition} is completed."
        else:
            states[partition] = (
                f"There is no active reassignment of partition {partition}, but replica set is {joined(current)} "
                f"rather than {joined(target)}."
            )
    return states


def _replicas(topic: MetadataResponseTopic | KafkaError, number: int) -> list[int]:
    if isinstance(topic, KafkaError):
        if topic.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return []
        raise topic
    count = len(topic.partitions)
    if number == count:
        # Kafka's test for a missing partition lets the first missing number pass.
        message = f"Index {number} out of bounds for length {count}"
        raise JavaError("java.lang.IndexOutOfBoundsException", message)
    partitions = {each.partition_index: each for each in topic.partitions}
    return list(partitions[number].replica_nodes) if number in partitions else []


class DirectoryState(NamedTuple):
    """The progress of a replica's move into another log directory."""

    line: str
    is_done: bool
    current: str | None = None
    is_active: bool = False


async def directory_states(client: Client, targets: Mapping[Replica, str]) -> dict[Replica, DirectoryState]:
    """Return the progress of the moves of replicas into log directories."""
    try:
        found = await find_replicas(client, targets)
    except KafkaError as error:
        raise as_execution(error, "describeReplicaLogDirs") from None
    return {replica: _directory_state(replica, found[replica], target) for replica, target in targets.items()}


def _directory_state(replica: Replica, found: Whereabouts, target: str) -> DirectoryState:
    partition = f"Partition {replica.topic}-{replica.partition}"
    if found.current is None:
        return DirectoryState(
            f"{partition} is not found in any live log dir on broker {replica.broker_id}. There is likely an offline "
            "log directory on the broker.",
            is_done=False,
        )
    if found.future is None and found.current == target:
        return DirectoryState(f"Reassignment of replica {replica} completed successfully.", is_done=True)
    if found.future is None:
        line = f"{partition} on broker {replica.broker_id} is not being moved from log dir {found.current} to {target}."
        return DirectoryState(line, is_done=True)
    if found.future == target:
        line = f"Reassignment of replica {replica} is still in progress."
    else:
        line = (
            f"{partition} on broker {replica.broker_id} is being moved to log dir {found.future} instead of {target}."
        )
    return DirectoryState(line, is_done=False, current=found.current, is_active=True)
