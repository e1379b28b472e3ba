"""Committed offsets of groups: reading, writing and deleting them.

Counterparts in Kafka: ListConsumerGroupOffsetsHandler, AlterConsumerGroupOffsetsHandler,
DeleteConsumerGroupOffsetsHandler, OffsetAndMetadata.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from ottla.client.admin.groups.coordinators import ask_coordinators
from ottla.client.admin.reassignments import by_topic
from ottla.client.cluster import GROUP, Client, Coordinator, Target, check, kafka_error
from ottla.client.gather import gather
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.wire.types import TopicPartition

_NAMES_UP_TO: Final = 9
"""Later versions of OffsetFetch and OffsetCommit have topic ids in place of names."""
_MANY_GROUPS_FROM: Final = 8


class Committed(NamedTuple):
    """A committed offset. The leader epoch is -1 if the committer knew none."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


Offsets = Mapping[TopicPartition, Committed]


async def committed_offsets(client: Client, groups: Iterable[str]) -> dict[str, Offsets | KafkaError]:
    """Return all committed offsets of groups; a group that does not exist has none."""
    return await ask_coordinators(client, groups, partial(_fetch_offsets, client))


async def _fetch_offsets(client: Client, target: Target, groups: Sequence[str]) -> Mapping[str, Offsets | KafkaError]:
    if (await client.connection(target)).version_of(OffsetFetchRequest, 2, _NAMES_UP_TO) < _MANY_GROUPS_FROM:
        found = await gather(partial(_fetch_of_one, client, target, group) for group in groups)
        return dict(zip(groups, found, strict=True))
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=each, topics=None) for each in groups])
    response = await client.ask(request, target, OffsetFetchResponse, lowest=_MANY_GROUPS_FROM, highest=_NAMES_UP_TO)
    return {
        each.group_id: _offsets(each.topics) if each.error_code == ErrorCode.NONE else kafka_error(each.error_code)
        for each in response.groups
    }


async def _fetch_of_one(client: Client, target: Target, group: str) -> Offsets | KafkaError:
    request = OffsetFetchRequest(group_id=group, topics=None)
    response = await client.ask(request, target, OffsetFetchResponse, lowest=2, highest=_MANY_GROUPS_FROM - 1)
    return _offsets(response.topics) if response.error_code == ErrorCode.NONE else kafka_error(response.error_code)


def _offsets(topics: Sequence[OffsetFetchResponseTopic | OffsetFetchResponseTopics]) -> Offsets:
    return {
        TopicPartition(topic.name, each.partition_index): Committed(
            each.committed_offset, each.committed_leader_epoch, each.metadata or ""
        )
        for topic in topics
        for each in topic.partitions
        if each.error_code == ErrorCode.NONE and each.committed_offset >= 0
    }


async def commit_offsets(client: Client, group: str, offsets: Offsets) -> dict[TopicPartition, KafkaError | None]:
    """Commit offsets for a group without members."""
    topics = [
        OffsetCommitRequestTopic(
            name=name, partitions=[_commit(each, offsets[TopicPartition(name, each)]) for each in partitions]
        )
        for name, partitions in by_topic(offsets).items()
    ]
    request = OffsetCommitRequest(group_id=group, topics=topics)
    target = Coordinator(GROUP, group)
    response = await client.ask(request, target, OffsetCommitResponse, lowest=2, highest=_NAMES_UP_TO)
    return {
        TopicPartition(topic.name, each.partition_index): _error(each.error_code)
        for topic in response.topics
        for each in topic.partitions
    }


def _commit(partition: int, committed: Committed) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        committed_metadata=committed.metadata,
    )


async def delete_offsets(
    client: Client, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, KafkaError | None]:
    """Delete offsets of topics without a subscribed member. KafkaError if the group refuses the whole request."""
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=each) for each in numbers]
        )
        for name, numbers in by_topic(partitions).items()
    ]
    request = OffsetDeleteRequest(group_id=group, topics=topics)
    response = await client.ask(request, Coordinator(GROUP, group), OffsetDeleteResponse)
    check(response.error_code)
    return {
        TopicPartition(topic.name, each.partition_index): _error(each.error_code)
        for topic in response.topics
        for each in topic.partitions
    }


def _error(code: int) -> KafkaError | None:
    return None if code == ErrorCode.NONE else kafka_error(code)
