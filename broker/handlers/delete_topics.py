"""DeleteTopics, versions 1 to 6: delete topics, by name or, from version 6, by id.

The reply comes when nothing is left of them, or when time is up; a topic that cannot be deleted now, because a broker
is away, is gone for clients all the same. A topic named twice is answered twice alike.

Deviations: Kafka answers when brokers were told that a topic goes; here a topic of the same name can be created at once
after the reply, as in KRaft mode. A topic with neither name nor id gets INVALID_REQUEST, as there.
Counterpart in Kafka: KafkaApis.handleDeleteTopicsRequest.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.controller.controller import Controller
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.broker.requests.authorizer import EVERYBODY, Access, Operation, ResourceType
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.wire.types import ZERO_UUID

_TOPICS_FROM_VERSION: Final = 6
_DISABLED_FROM_VERSION: Final = 3
_REASONS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
    ErrorCode.INVALID_REQUEST: "Neither topic name nor id were specified.",
}


def handle(
    request: DeleteTopicsRequest,
    context: RequestContext,
    *,
    controller: Controller,
    metadata: MetadataCache,
    delete_topic_enable: bool,
    access: Access = EVERYBODY,
) -> DeleteTopicsResponse | Deferred[DeleteTopicsResponse]:
    """Delete topics."""
    version = context.api_version
    if not controller.is_active:
        return error_response(request, version, ErrorCode.NOT_CONTROLLER)
    if not delete_topic_enable:
        known = version >= _DISABLED_FROM_VERSION
        return error_response(
            request, version, ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST
        )
    results = [_find(topic, metadata) for topic in _topics(request, version)]
    _refuse_denied(results, context, access)
    names = {result.name for result in results if result.error_code == ErrorCode.NONE and result.name is not None}
    if not names:
        return DeleteTopicsResponse(responses=results)

    def respond(errors: Mapping[str, ErrorCode]) -> DeleteTopicsResponse:
        for result in results:
            if result.error_code == ErrorCode.NONE and result.name is not None:
                result.error_code = errors[result.name]
        return DeleteTopicsResponse(responses=results)

    return controller.delete_topics(sorted(names), request.timeout_ms).map(respond)


def _topics(request: DeleteTopicsRequest, version: int) -> Sequence[DeleteTopicState]:
    if version >= _TOPICS_FROM_VERSION:
        return request.topics
    return [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in request.topic_names]


def _find(topic: DeleteTopicState, metadata: MetadataCache) -> DeletableTopicResult:
    """Return the result as it stands before anything is deleted."""
    name, code = topic.name, ErrorCode.NONE
    if topic.topic_id != ZERO_UUID:
        if name is not None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Topic name and topic ID can not both be specified.")
        name = metadata.topic_name(topic.topic_id)
        if name is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
    elif name is None:
        code = ErrorCode.INVALID_REQUEST
    if name is not None and not metadata.contains(name):
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DeletableTopicResult(name=name, topic_id=topic.topic_id, error_code=code, error_message=_REASONS.get(code))


def _refuse_denied(results: Sequence[DeletableTopicResult], context: RequestContext, access: Access) -> None:
    """Who may not see a topic is not told the name that belongs to an id, nor whether there is one of some name."""
    names = [result.name for result in results if result.name is not None]
    by_id = {result.name for result in results if result.name is not None and result.topic_id != ZERO_UUID}
    seen = access.allowed(context, Operation.DESCRIBE, ResourceType.TOPIC, by_id)
    deletable = access.allowed(context, Operation.DELETE, ResourceType.TOPIC, names)
    for result in results:
        is_hidden = result.name in by_id and result.topic_id != ZERO_UUID and result.name not in seen
        if result.name is not None and (is_hidden or result.name not in deletable):
            result.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if is_hidden:
            result.name = None


def error_response(request: DeleteTopicsRequest, version: int, code: ErrorCode) -> DeleteTopicsResponse:
    """No topic is deleted."""
    results = [
        DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=code)
        for topic in _topics(request, version)
    ]
    return DeleteTopicsResponse(responses=results)
