"""OffsetFetch: the offsets that groups have committed.

Behaviour:
- A partition without a committed offset, also of an unknown group, has offset -1 and no error.
- A partition that is named twice is answered once.
- A denied topic has an error if the client named it. If it asked for all topics, denied ones are left out.
Versions: 1 to 9. From 2 null means all topics, and the response has an error code (in 1 each partition); from 5 leader
epochs; from 7 UNSTABLE_OFFSET_COMMIT while a newer commit is in progress, if the client asks for that; from 8 many
groups.
Counterpart in Kafka: KafkaApis.handleOffsetFetchRequestFromCoordinator.
"""

import copy
from collections.abc import Sequence
from typing import Any, Final

from ottla.broker.net.session import RequestContext
from ottla.broker.requests.authorizer import EVERYBODY, Access, Operation, ResourceType
from ottla.coordinator.group_coordinator import GroupCoordinator
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_GROUPS_FROM_VERSION: Final = 8
_TOP_LEVEL_ERROR_FROM_VERSION: Final = 2
_NO_OFFSET: Final = -1
_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def handle(
    request: OffsetFetchRequest, context: RequestContext, *, groups: GroupCoordinator, access: Access = EVERYBODY
) -> OffsetFetchResponse:
    """Call the group coordinator without denied groups and topics, and add their errors."""
    if access.authorizer is None:
        return groups.offset_fetch(request, context.api_version)
    if context.api_version >= _GROUPS_FROM_VERSION:
        return _of_groups(request, context, groups, access)
    if not access.allows(context, Operation.DESCRIBE, ResourceType.GROUP, request.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    allowed, denied = _split(request, context, access)
    response = groups.offset_fetch(allowed, context.api_version)
    hidden = [_topic(topic.name, topic.partition_indexes, _DENIED) for topic in denied]
    _complete(request, response, hidden, context, access)
    return response


def _of_groups(
    request: OffsetFetchRequest, context: RequestContext, groups: GroupCoordinator, access: Access
) -> OffsetFetchResponse:
    names = [group.group_id for group in request.groups]
    shown = access.allowed(context, Operation.DESCRIBE, ResourceType.GROUP, names)
    asked = [group for group in request.groups if group.group_id in shown]
    split = [_split(group, context, access) for group in asked]
    visible = copy.copy(request)
    visible.groups = [allowed for allowed, _ in split]
    response = groups.offset_fetch(visible, context.api_version)
    for group, answer, (_, denied) in zip(asked, response.groups, split, strict=True):
        hidden = [_topic_of_group(topic.name, topic.partition_indexes) for topic in denied]
        _complete(group, answer, hidden, context, access)
    answers = iter(response.groups)
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    response.groups = [next(answers) if group.group_id in shown else _failed(group, code) for group in request.groups]
    return response


def _split(asked: Any, context: RequestContext, access: Access) -> tuple[Any, Sequence[Any]]:
    """Return a group's request without denied topics, and the denied topics."""
    if asked.topics is None:
        return asked, ()
    names = [topic.name for topic in asked.topics]
    shown = access.allowed(context, Operation.DESCRIBE, ResourceType.TOPIC, names)
    allowed = copy.copy(asked)
    allowed.topics = [topic for topic in asked.topics if topic.name in shown]
    return allowed, [topic for topic in asked.topics if topic.name not in shown]


def _complete(asked: Any, answer: Any, hidden: Sequence[Any], context: RequestContext, access: Access) -> None:
    """Add the denied topics to a group's response. If the client asked for all topics, remove them instead."""
    if answer.error_code != ErrorCode.NONE:
        return
    if asked.topics is None:
        names = [topic.name for topic in answer.topics]
        shown = access.allowed(context, Operation.DESCRIBE, ResourceType.TOPIC, names)
        answer.topics = [topic for topic in answer.topics if topic.name in shown]
    else:
        answer.topics = [*answer.topics, *hidden]


def error_response(request: OffsetFetchRequest, version: int, code: ErrorCode) -> OffsetFetchResponse:
    """Return the error for each group; before version 8 once, in version 1 for each partition."""
    if version >= _GROUPS_FROM_VERSION:
        return OffsetFetchResponse(groups=[_failed(group, code) for group in request.groups])
    topics: list[OffsetFetchResponseTopic] = []
    if version < _TOP_LEVEL_ERROR_FROM_VERSION:
        topics = [_topic(topic.name, topic.partition_indexes, code) for topic in request.topics or ()]
    return OffsetFetchResponse(error_code=code, topics=topics)


def _failed(group: OffsetFetchRequestGroup, code: ErrorCode) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=(), error_code=code)


def _topic(name: str, indexes: Sequence[int], code: ErrorCode) -> OffsetFetchResponseTopic:
    partitions = [
        OffsetFetchResponsePartition(partition_index=index, committed_offset=_NO_OFFSET, metadata="", error_code=code)
        for index in indexes
    ]
    return OffsetFetchResponseTopic(name=name, partitions=partitions)


def _topic_of_group(name: str, indexes: Sequence[int]) -> OffsetFetchResponseTopics:
    partitions = [
        OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=_NO_OFFSET, metadata="", error_code=_DENIED
        )
        for index in indexes
    ]
    return OffsetFetchResponseTopics(name=name, partitions=partitions)
