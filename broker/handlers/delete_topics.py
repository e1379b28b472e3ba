"""DeleteTopics: delete topics with all their records.

Behaviour:
- The reply comes when nothing is left of the topics, or after the timeout.
- A topic with a replica on a broker that is away cannot be deleted now, but clients do not see it any more.
- A topic that is named twice is answered twice, with the same result.
- A client that may not describe a topic gets no name for its id.
Deviations: A topic of the same name can be created at once after the reply, as in KRaft mode. Kafka replies before. A
topic with neither name nor id gets INVALID_REQUEST, as in KRaft mode.
Versions: 1 to 6. From 3 TOPIC_DELETION_DISABLED (INVALID_REQUEST before); from 5 an error message; from 6 topics by
name or by id.
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
    """Refuse unknown and denied topics, and put the others into the controller's queue."""
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
    """Return the result of a topic, with an error if it cannot be deleted."""
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
    """Set the error of denied topics, and hide the names of ids that the client may not describe."""
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
    """Return the error for each topic."""
    results = [
        DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=code)
        for topic in _topics(request, version)
    ]
    return DeleteTopicsResponse(responses=results)
