"""Reassignments of partitions to other brokers.

Counterparts in Kafka: PartitionReassignment, KafkaAdminClient's reassignment methods.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.client.cluster import CONTROLLER, Client, check, kafka_error
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from ottla.wire.types import TopicPartition


class Reassignment(NamedTuple):
    """A reassignment that is not over: all replicas now, and those among them that come or go."""

    replicas: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]


async def list_reassignments(
    client: Client, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, Reassignment]:
    """Return the reassignments under way, of some partitions or of all."""
    topics = None
    if partitions is not None:
        topics = [
            ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
            for name, indexes in by_topic(partitions).items()
        ]
    request = ListPartitionReassignmentsRequest(topics=topics)
    response = await client.ask(request, CONTROLLER, ListPartitionReassignmentsResponse)
    check(response.error_code, response.error_message)
    return {
        TopicPartition(topic.name, each.partition_index): Reassignment(
            list(each.replicas), list(each.adding_replicas), list(each.removing_replicas)
        )
        for topic in response.topics
        for each in topic.partitions
    }


async def alter_reassignments(
    client: Client, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, KafkaError | None]:
    """Begin to move partitions to these replicas; None cancels a reassignment that is under way."""
    request = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[
                    ReassignablePartition(partition_index=index, replicas=targets[TopicPartition(name, index)])
                    for index in indexes
                ],
            )
            for name, indexes in by_topic(targets).items()
        ]
    )
    response = await client.ask(request, CONTROLLER, AlterPartitionReassignmentsResponse)
    check(response.error_code, response.error_message)
    return {
        TopicPartition(topic.name, each.partition_index): None
        if each.error_code == ErrorCode.NONE
        else kafka_error(each.error_code, each.error_message)
        for topic in response.responses
        for each in topic.partitions
    }


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the numbers of partitions by the names of their topics."""
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found
