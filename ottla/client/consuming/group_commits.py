"""The offsets that a group member commits, and the committed offsets that it begins at.

Must not know who is in the group. Counterpart in Kafka: ConsumerCoordinator's commits.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import trio

from ottla.client.cluster import GROUP, Client, Coordinator, check
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.wire.types import TopicPartition

_LOWEST: Final = 2
_NAMES_UP_TO: Final = 9
"""Later versions have topic ids in place of names."""
_GROUPS_FROM: Final = 8
Place = tuple[int, int]
"""An offset, and the leader epoch of the record before it (-1: not known)."""
Positions = dict[TopicPartition, Place]


async def commit(
    client: Client,
    group_id: str,
    positions: Mapping[TopicPartition, Place],
    generation: int,
    member_id: str,
    instance_id: str | None,
) -> None:
    """Commit offsets as a member. KafkaError if the coordinator refuses one of them."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, index), (offset, epoch) in positions.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_leader_epoch=epoch, committed_metadata=""
            )
        )
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=[OffsetCommitRequestTopic(name=name, partitions=found) for name, found in topics.items()],
    )
    target = Coordinator(GROUP, group_id)
    response = await client.ask(request, target, OffsetCommitResponse, lowest=_LOWEST, highest=_NAMES_UP_TO)
    for found in response.topics:
        for each in found.partitions:
            check(each.error_code, f"{found.name}-{each.partition_index}")


async def fetch_committed(client: Client, group_id: str, partitions: Sequence[TopicPartition]) -> Positions:
    """Return the group's committed offsets for partitions; a partition without a commit is missing."""
    topics: dict[str, list[int]] = {}
    for each in partitions:
        topics.setdefault(each.topic, []).append(each.partition)
    if not topics:
        return {}
    request = OffsetFetchRequest(
        group_id=group_id,
        topics=[OffsetFetchRequestTopic(name=name, partition_indexes=found) for name, found in topics.items()],
        groups=[
            OffsetFetchRequestGroup(
                group_id=group_id,
                topics=[OffsetFetchRequestTopics(name=name, partition_indexes=found) for name, found in topics.items()],
            )
        ],
        require_stable=True,
    )
    while True:
        try:
            return await _fetch_committed(client, group_id, request)
        except KafkaError as error:
            if error.code != ErrorCode.UNSTABLE_OFFSET_COMMIT:
                raise
        # A transaction is about to commit another offset.
        await trio.sleep(client.config.seconds("retry.backoff.ms"))


async def _fetch_committed(client: Client, group_id: str, request: OffsetFetchRequest) -> Positions:
    target = Coordinator(GROUP, group_id)
    version = (await client.connection(target)).version_of(OffsetFetchRequest, _LOWEST, _NAMES_UP_TO)
    if version < _GROUPS_FROM:
        request = OffsetFetchRequest(
            group_id=group_id, topics=request.topics, require_stable=request.require_stable and version >= 7
        )
    else:
        request = OffsetFetchRequest(groups=request.groups, require_stable=True)
    response = await client.ask(request, target, OffsetFetchResponse, lowest=_LOWEST, highest=version)
    for group in response.groups:
        check(group.error_code, group_id)
    check(response.error_code, group_id)
    found: Positions = {}
    topics: list[OffsetFetchResponseTopic | OffsetFetchResponseTopics] = [*response.topics]
    topics += [topic for group in response.groups for topic in group.topics]
    for topic in topics:
        for each in topic.partitions:
            check(each.error_code, f"{topic.name}-{each.partition_index}")
            if each.committed_offset >= 0:
                where = TopicPartition(topic.name, each.partition_index)
                found[where] = (each.committed_offset, each.committed_leader_epoch)
    return found
