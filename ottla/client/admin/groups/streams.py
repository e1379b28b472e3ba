"""Streams groups: describing them with their topology and the tasks of their members.

Listing, deleting and committed offsets are the same for groups of every type. Counterpart in Kafka:
DescribeStreamsGroupsHandler.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from ottla.client.admin.groups.coordinators import ask_coordinators
from ottla.client.admin.groups.share import coordinator_of
from ottla.client.cluster import Client, Node, Target, kafka_error
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.streams_group_describe import (
    DescribedGroup,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
)
from ottla.wire.types import TopicPartition

STREAMS: Final = "Streams"


class StreamsGroup(NamedTuple):
    """A streams group; the epoch of its topology is None until a member has sent one."""

    group_id: str
    state: str
    coordinator: Node
    epoch: int
    assignment_epoch: int
    topology_epoch: int | None
    subtopologies: Sequence[Subtopology]
    members: Sequence[Member]

    def source_topics(self, *, with_repartition: bool) -> set[str]:
        """Return the topics that tasks read, with or without the group's own repartition topics."""
        found = {topic for each in self.subtopologies for topic in each.source_topics}
        if with_repartition:
            found |= {topic.name for each in self.subtopologies for topic in each.repartition_source_topics}
        return found

    def internal_topics(self) -> list[str]:
        """Return the repartition and changelog topics, which the group creates."""
        sources = self.source_topics(with_repartition=False)
        return [
            topic.name
            for each in self.subtopologies
            for topic in (*each.repartition_source_topics, *each.state_changelog_topics)
            if topic.name not in sources
        ]

    def partitions_of(self, tasks: Iterable[TaskIds]) -> set[TopicPartition]:
        """Return the partitions that tasks read."""
        topics = {
            each.subtopology_id: [*each.source_topics, *(topic.name for topic in each.repartition_source_topics)]
            for each in self.subtopologies
        }
        return {
            TopicPartition(topic, number)
            for each in tasks
            for topic in topics[each.subtopology_id]
            for number in each.partitions
        }


async def describe_streams_groups(client: Client, groups: Iterable[str]) -> dict[str, StreamsGroup | KafkaError]:
    """Return streams groups, or the error for each."""
    found = await ask_coordinators(client, groups, partial(_describe, client))
    results: dict[str, StreamsGroup | KafkaError] = {}
    for name, result in found.items():
        results[name] = result if isinstance(result, KafkaError) else await _streams_group(client, result)
    return results


async def _describe(client: Client, target: Target, groups: Sequence[str]) -> Mapping[str, DescribedGroup | KafkaError]:
    request = StreamsGroupDescribeRequest(group_ids=list(groups))
    response = await client.ask(request, target, StreamsGroupDescribeResponse)
    return {
        each.group_id: each if each.error_code == ErrorCode.NONE else kafka_error(each.error_code, each.error_message)
        for each in response.groups
    }


async def _streams_group(client: Client, group: DescribedGroup) -> StreamsGroup:
    topology = group.topology
    return StreamsGroup(
        group.group_id,
        group.group_state,
        await coordinator_of(client, group.group_id),
        group.group_epoch,
        group.assignment_epoch,
        None if topology is None else topology.epoch,
        () if topology is None else topology.subtopologies or (),
        list(group.members),
    )
