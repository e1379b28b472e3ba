"""Listing and deleting groups of all types; describing classic and consumer groups with their members.

Must not know offsets. Counterparts in Kafka: KafkaAdminClient's group methods, GroupListing,
DescribeConsumerGroupsHandler, DeleteConsumerGroupsHandler.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from ottla.client.admin.groups.coordinators import ask_coordinators
from ottla.client.cluster import Client, Coordinator, Node, Target, check, kafka_error
from ottla.client.gather import gather
from ottla.wire.errors import DecodeError, ErrorCode, KafkaError
from ottla.wire.internal.consumer_protocol import PROTOCOL_TYPE, assigned_partitions
from ottla.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    Member,
)
from ottla.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.types import TopicPartition

CLASSIC: Final = "Classic"
CONSUMER: Final = "Consumer"
DEAD: Final = "Dead"
EMPTY: Final = "Empty"
_ANOTHER_PROTOCOL: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})
"""The errors of ConsumerGroupDescribe for a group that may be a classic one."""


class GroupListing(NamedTuple):
    """A group. State and type are None if the broker is too old to return them."""

    group_id: str
    protocol_type: str
    state: str | None
    type: str | None
    coordinator: int | None = None


async def list_groups(client: Client, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[GroupListing]:
    """Return the groups of all brokers."""
    if not client.nodes:
        await client.metadata(())
    lowest = 5 if types else 4 if states else 0
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))

    async def of_broker(broker_id: int) -> list[GroupListing]:
        response = await client.ask(request, broker_id, ListGroupsResponse, lowest=lowest)
        check(response.error_code)
        return [
            GroupListing(
                each.group_id, each.protocol_type, each.group_state or None, each.group_type or None, broker_id
            )
            for each in response.groups
        ]

    found: dict[str, GroupListing] = {}
    for listings in await gather(partial(of_broker, broker_id) for broker_id in list(client.nodes)):
        for each in listings:
            found.setdefault(each.group_id, each)
    return list(found.values())


# Describing


class GroupMember(NamedTuple):
    """A member. The target, the epoch and the protocol are None in a classic group."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: Sequence[TopicPartition]
    target: Sequence[TopicPartition] | None = None
    epoch: int | None = None
    uses_consumer_protocol: bool | None = None


class GroupDescription(NamedTuple):
    """A group; the epochs are None for a classic one."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: Node
    members: Sequence[GroupMember]
    epoch: int | None = None
    assignment_epoch: int | None = None


async def describe_groups(client: Client, groups: Iterable[str]) -> dict[str, GroupDescription | KafkaError]:
    """Return classic and consumer groups, or an error for a group that cannot be described.

    For a group that does not exist, brokers return GROUP_ID_NOT_FOUND, and brokers before Kafka 4 a dead group.
    """
    wanted = list(dict.fromkeys(groups))
    found: dict[str, GroupDescription | KafkaError] = {}
    if ConsumerGroupDescribeRequest.api_key in (await client.connection()).api_versions:
        found = await ask_coordinators(client, wanted, partial(_describe_consumer_groups, client))
    left = [each for each in wanted if each not in found or _may_be_classic(found[each])]
    found |= await ask_coordinators(client, left, partial(_describe_classic_groups, client)) if left else {}
    return {each: found[each] for each in wanted}


def _may_be_classic(result: GroupDescription | KafkaError) -> bool:
    return isinstance(result, KafkaError) and result.code in _ANOTHER_PROTOCOL


async def _describe_consumer_groups(
    client: Client, target: Target, groups: Sequence[str]
) -> Mapping[str, GroupDescription | KafkaError]:
    request = ConsumerGroupDescribeRequest(group_ids=list(groups))
    response = await client.ask(request, target, ConsumerGroupDescribeResponse)
    node = await _node(client, target)
    return {
        each.group_id: _consumer_group(each, node)
        if each.error_code == ErrorCode.NONE
        else kafka_error(each.error_code, each.error_message)
        for each in response.groups
    }


def _consumer_group(group: DescribedConsumerGroup, coordinator: Node) -> GroupDescription:
    members = [_consumer_member(each) for each in group.members]
    return GroupDescription(
        group.group_id,
        CONSUMER,
        group.group_state,
        PROTOCOL_TYPE,
        group.assignor_name,
        coordinator,
        members,
        group.group_epoch,
        group.assignment_epoch,
    )


def _consumer_member(member: Member) -> GroupMember:
    return GroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        _partitions(member.assignment),
        _partitions(member.target_assignment),
        member.member_epoch,
        None if member.member_type < 0 else member.member_type > 0,
    )


def _partitions(assignment: Assignment) -> list[TopicPartition]:
    return [
        TopicPartition(each.topic_name, number) for each in assignment.topic_partitions for number in each.partitions
    ]


async def _describe_classic_groups(
    client: Client, target: Target, groups: Sequence[str]
) -> Mapping[str, GroupDescription | KafkaError]:
    response = await client.ask(DescribeGroupsRequest(groups=list(groups)), target, DescribeGroupsResponse)
    node = await _node(client, target)
    return {
        each.group_id: _classic_group(each, node)
        if each.error_code == ErrorCode.NONE
        else kafka_error(each.error_code, each.error_message)
        for each in response.groups
    }


def _classic_group(group: DescribedGroup, coordinator: Node) -> GroupDescription:
    has_assignments = group.protocol_type == PROTOCOL_TYPE
    members = [_classic_member(each, has_assignments) for each in group.members]
    return GroupDescription(
        group.group_id, CLASSIC, group.group_state, group.protocol_type, group.protocol_data, coordinator, members
    )


def _classic_member(member: DescribedGroupMember, has_assignment: bool) -> GroupMember:
    try:
        assignment = assigned_partitions(bytes(member.member_assignment)) if has_assignment else []
    except DecodeError:
        assignment = []  # the group's leader used another format
    return GroupMember(member.member_id, member.group_instance_id, member.client_id, member.client_host, assignment)


async def _node(client: Client, target: Target) -> Node:
    """Return the node of a coordinator that has just answered."""
    if isinstance(target, Coordinator):
        ((target, _),) = (await client.find_coordinators(target.kind, [target.key])).items()
    assert isinstance(target, int)
    return client.nodes[target]


# Deleting


async def delete_groups(client: Client, groups: Iterable[str]) -> dict[str, KafkaError | None]:
    """Delete groups without members, of any type, with their offsets."""

    async def exchange(target: Target, mine: Sequence[str]) -> dict[str, KafkaError | None]:
        response = await client.ask(DeleteGroupsRequest(groups_names=list(mine)), target, DeleteGroupsResponse)
        return {
            each.group_id: None
            if each.error_code == ErrorCode.NONE
            else kafka_error(each.error_code, each.error_message)
            for each in response.results
        }

    return await ask_coordinators(client, groups, exchange)
