"""Share groups: describing them, and their start offsets.

Listing and deleting is the same for groups of every type. Counterparts in Kafka: DescribeShareGroupsHandler,
ListShareGroupOffsetsHandler, AlterShareGroupOffsetsHandler, DeleteShareGroupOffsetsHandler.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from ottla.client.admin.groups.coordinators import ask_coordinators
from ottla.client.admin.reassignments import by_topic
from ottla.client.cluster import GROUP, Client, Coordinator, Node, Target, check, kafka_error
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from ottla.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseTopic,
)
from ottla.wire.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from ottla.wire.types import TopicPartition

SHARE: Final = "Share"


class ShareMember(NamedTuple):
    """A member of a share group; other members may fetch from the same partitions."""

    member_id: str
    client_id: str
    host: str
    epoch: int
    assignment: Sequence[TopicPartition]


class ShareGroup(NamedTuple):
    """A share group."""

    group_id: str
    state: str
    coordinator: Node
    epoch: int
    assignment_epoch: int
    members: Sequence[ShareMember]


class ShareOffset(NamedTuple):
    """The first offset (inclusive) that may still be delivered; epoch and lag are None if unknown."""

    start: int
    leader_epoch: int | None
    lag: int | None


ShareOffsets = Mapping[TopicPartition, ShareOffset | None]
"""Offsets of a group; None for a partition without a start offset yet."""


async def describe_share_groups(client: Client, groups: Iterable[str]) -> dict[str, ShareGroup | KafkaError]:
    """Return share groups, or the error for each."""
    found = await ask_coordinators(client, groups, partial(_describe, client))
    results: dict[str, ShareGroup | KafkaError] = {}
    for name, result in found.items():
        results[name] = result if isinstance(result, KafkaError) else await _share_group(client, result)
    return results


async def _describe(client: Client, target: Target, groups: Sequence[str]) -> Mapping[str, DescribedGroup | KafkaError]:
    response = await client.ask(
        ShareGroupDescribeRequest(group_ids=list(groups)), target, ShareGroupDescribeResponse, lowest=1
    )
    return {
        each.group_id: each if each.error_code == ErrorCode.NONE else kafka_error(each.error_code, each.error_message)
        for each in response.groups
    }


async def _share_group(client: Client, group: DescribedGroup) -> ShareGroup:
    members = [
        ShareMember(
            each.member_id,
            each.client_id,
            each.client_host,
            each.member_epoch,
            [
                TopicPartition(topic.topic_name, number)
                for topic in each.assignment.topic_partitions
                for number in topic.partitions
            ],
        )
        for each in group.members
    ]
    coordinator = await coordinator_of(client, group.group_id)
    return ShareGroup(
        group.group_id, group.group_state, coordinator, group.group_epoch, group.assignment_epoch, members
    )


async def coordinator_of(client: Client, group: str) -> Node:
    """Return the node of a group's coordinator, which has just answered."""
    ((broker_id, _),) = (await client.find_coordinators(GROUP, [group])).items()
    return client.nodes[broker_id]


async def share_group_offsets(client: Client, group: str) -> ShareOffsets:
    """Return the offsets of a group; partitions that the client may not see are left out."""
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)]
    )
    response = await client.ask(request, Coordinator(GROUP, group), DescribeShareGroupOffsetsResponse)
    found: dict[TopicPartition, ShareOffset | None] = {}
    for each in response.groups:
        check(each.error_code, each.error_message)
        for topic in each.topics:
            found |= _offsets(topic)
    return found


def _offsets(topic: DescribeShareGroupOffsetsResponseTopic) -> dict[TopicPartition, ShareOffset | None]:
    return {
        TopicPartition(topic.topic_name, each.partition_index): ShareOffset(
            each.start_offset,
            None if each.leader_epoch < 0 else each.leader_epoch,
            None if each.lag < 0 else each.lag,
        )
        if each.start_offset >= 0
        else None
        for each in topic.partitions
        if each.error_code == ErrorCode.NONE
    }


async def alter_share_group_offsets(
    client: Client, group: str, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, KafkaError | None]:
    """Set the start offsets of a group without members. A group that does not exist is created."""
    topics = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=[
                AlterShareGroupOffsetsRequestPartition(
                    partition_index=number, start_offset=offsets[TopicPartition(name, number)]
                )
                for number in numbers
            ],
        )
        for name, numbers in by_topic(offsets).items()
    ]
    request = AlterShareGroupOffsetsRequest(group_id=group, topics=topics)
    response = await client.ask(request, Coordinator(GROUP, group), AlterShareGroupOffsetsResponse)
    if response.error_code != ErrorCode.NONE:
        return dict.fromkeys(offsets, kafka_error(response.error_code, response.error_message))
    return {
        TopicPartition(topic.topic_name, each.partition_index): _error(each.error_code, each.error_message)
        for topic in response.responses
        for each in topic.partitions
    }


async def delete_share_group_offsets(client: Client, group: str, topics: Iterable[str]) -> dict[str, KafkaError | None]:
    """Delete the offsets of topics, in a group without members. KafkaError if it refuses the whole request."""
    request = DeleteShareGroupOffsetsRequest(
        group_id=group, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=each) for each in topics]
    )
    response = await client.ask(request, Coordinator(GROUP, group), DeleteShareGroupOffsetsResponse)
    check(response.error_code, response.error_message)
    return {each.topic_name: _error(each.error_code, each.error_message) for each in response.responses}


def _error(code: int, message: str | None) -> KafkaError | None:
    return None if code == ErrorCode.NONE else kafka_error(code, message)
