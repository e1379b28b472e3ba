"""CreatePartitions: add partitions to topics, or check whether they could be added.

Behaviour:
- The reply comes when the new partitions are kept by the store and have leaders, or after the timeout.
- With a timeout of 0 or less the reply is REQUEST_TIMED_OUT at once, and the partitions are added nevertheless.
- A topic that is named twice is refused, and answered once.
Deviations: More than 10,000 new partitions are refused, as in KRaft mode.
Versions: 0 to 3, all alike.
Counterpart in Kafka: KafkaApis.handleCreatePartitionsRequest.
"""

from collections import Counter
from collections.abc import Mapping

from ottla.broker.controller.client_requests import TopicOutcome
from ottla.broker.controller.controller import Controller
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)


def handle(
    request: CreatePartitionsRequest, context: RequestContext, *, controller: Controller
) -> CreatePartitionsResponse | Deferred[CreatePartitionsResponse]:
    """Refuse topics that are named twice, and put the others into the controller's queue."""
    if not controller.is_active:
        return error_response(request, context.api_version, ErrorCode.NOT_CONTROLLER)
    counts = Counter(topic.name for topic in request.topics)
    twice = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
    refused = {name: TopicOutcome(twice) for name, count in counts.items() if count > 1}

    def respond(outcomes: Mapping[str, TopicOutcome]) -> CreatePartitionsResponse:
        found = refused | dict(outcomes)
        return CreatePartitionsResponse(results=[_result(name, found[name]) for name in counts])

    wanted = [topic for topic in request.topics if topic.name not in refused]
    if not wanted:
        return respond({})
    created = controller.create_partitions(wanted, request.timeout_ms, validate_only=request.validate_only)
    return created.map(respond)


def _result(name: str, outcome: TopicOutcome) -> CreatePartitionsTopicResult:
    error = outcome.error
    return CreatePartitionsTopicResult(
        name=name,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=(error.detail if error else "") or None,
    )


def error_response(request: CreatePartitionsRequest, version: int, code: ErrorCode) -> CreatePartitionsResponse:
    """Return the error once for each topic."""
    names = dict.fromkeys(topic.name for topic in request.topics)
    results = [CreatePartitionsTopicResult(name=name, error_code=code) for name in names]
    return CreatePartitionsResponse(results=results)
