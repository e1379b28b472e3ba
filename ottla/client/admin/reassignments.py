"""Reassignments of partitions to other brokers, and the throttle that leaves bandwidth to clients.

Counterparts in Kafka: PartitionReassignment, KafkaAdminClient's reassignment methods, ReassignPartitionsCommand.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.client.admin.configs import (
    Change,
    ConfigSource,
    Operation,
    Resource,
    ResourceType,
    describe_configs,
)
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
    """A reassignment under way: all current replicas, and those of them that are added or removed."""

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
    client: Client,
    targets: Mapping[TopicPartition, Sequence[int] | None],
    *,
    allow_replication_factor_change: bool = True,
) -> dict[TopicPartition, KafkaError | None]:
    """Start moves of partitions to these replicas; None cancels a reassignment under way."""
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=allow_replication_factor_change,
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[
                    ReassignablePartition(partition_index=index, replicas=targets[TopicPartition(name, index)])
                    for index in indexes
                ],
            )
            for name, indexes in by_topic(targets).items()
        ],
    )
    lowest = 0 if allow_replication_factor_change else 1
    response = await client.ask(request, CONTROLLER, AlterPartitionReassignmentsResponse, lowest=lowest)
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


# The throttle

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LOG_DIR_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
BROKER_THROTTLES: Final = (LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE)
TOPIC_THROTTLES: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
_OWN: Final = (ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.DYNAMIC_TOPIC_CONFIG)


class Move(NamedTuple):
    """The brokers between which a partition is copied."""

    sources: Sequence[int]
    destinations: Sequence[int]

    @property
    def brokers(self) -> set[int]:
        """Return sources and destinations together."""
        return {*self.sources, *self.destinations}


def moves_of(
    under_way: Mapping[TopicPartition, Reassignment],
    targets: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
) -> dict[TopicPartition, Move]:
    """Return the moves of reassignments under way and of those about to start."""
    moves = {
        partition: Move([each for each in found.replicas if each not in found.adding], list(found.adding))
        for partition, found in under_way.items()
    }
    for partition, replicas in targets.items():
        sources = moves[partition].sources if partition in moves else list(current[partition])
        moves[partition] = Move(sources, [each for each in replicas if each not in sources])
    return moves


def replica_throttles(moves: Mapping[TopicPartition, Move]) -> dict[Resource, list[Change]]:
    """Return the changes of topics that name the throttled replicas."""
    changes = {}
    for topic, partitions in by_topic(moves).items():
        mine = {each: moves[TopicPartition(topic, each)] for each in partitions}
        leaders = {f"{each}:{broker}" for each, move in mine.items() for broker in move.sources}
        followers = {f"{each}:{broker}" for each, move in mine.items() for broker in move.destinations}
        changes[Resource(ResourceType.TOPIC, topic)] = [
            Change(LEADER_REPLICAS, Operation.SET, ",".join(sorted(leaders))),
            Change(FOLLOWER_REPLICAS, Operation.SET, ",".join(sorted(followers))),
        ]
    return changes


def rate_limits(brokers: Iterable[int], keys: Iterable[str], bytes_per_second: int) -> dict[Resource, list[Change]]:
    """Return the changes of brokers that limit the rate of throttled replicas."""
    limits = [Change(key, Operation.SET, str(bytes_per_second)) for key in keys]
    return {Resource(ResourceType.BROKER, str(each)): limits for each in brokers}


def throttle_removal(kind: ResourceType, names: Iterable[str], keys: Iterable[str]) -> dict[Resource, list[Change]]:
    """Return the changes of brokers or topics that end a throttle."""
    deletions = [Change(key, Operation.DELETE) for key in keys]
    return {Resource(kind, each): deletions for each in names}


async def find_throttles(client: Client) -> dict[Resource, list[Change]]:
    """Return the changes that end the throttles of all brokers and topics.

    A topic whose throttled replicas are `*` is left out, because an operator set that, not a reassignment.
    """
    topics = [topic.name or "" for topic in (await client.metadata(None)).topics]
    found = {}
    for kind, names, keys in (
        (ResourceType.BROKER, map(str, sorted(client.nodes)), BROKER_THROTTLES),
        (ResourceType.TOPIC, sorted(topics), TOPIC_THROTTLES),
    ):
        for resource, entries in (
            await describe_configs(client, [Resource(kind, each) for each in names], keys)
        ).items():
            if isinstance(entries, KafkaError):
                continue
            own = [each for each in entries if each.source in _OWN and each.value not in (None, "", "*")]
            if own:
                found[resource] = [Change(each.name, Operation.DELETE) for each in own]
    return found
