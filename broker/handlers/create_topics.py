"""CreateTopics: create topics, or check whether they could be created.

Behaviour:
- The reply comes when each new topic is kept by the store and has leaders, or after the timeout.
- With a timeout of 0 or less the reply is REQUEST_TIMED_OUT at once, and the topics are created nevertheless.
- A topic that is named twice is refused, and answered twice.
Deviations: As in KRaft mode: a manual assignment names registered brokers only, and a request of more than 10,000
partitions is refused.
Versions: 2 to 7. From 4 the broker's defaults for -1 partitions or replicas; from 5 the response has partitions,
replication factor and configs; from 7 the topic id.
Counterpart in Kafka: KafkaApis.handleCreateTopicsRequest.
"""

from collections import Counter
from collections.abc import Mapping

from ottla.broker.cluster.config_description import topic_entries
from ottla.broker.cluster.topic_names import CLUSTER_METADATA_TOPIC
from ottla.broker.config.dynamic import DynamicConfig
from ottla.broker.controller.client_requests import TopicOutcome
from ottla.broker.controller.controller import Controller
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_topics import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


def handle(
    request: CreateTopicsRequest,
    context: RequestContext,
    *,
    controller: Controller,
    dynamic: DynamicConfig,
) -> CreateTopicsResponse | Deferred[CreateTopicsResponse]:
    """Refuse topics that are named twice, and put the others into the controller's queue."""
    if not controller.is_active:
        return error_response(request, context.api_version, ErrorCode.NOT_CONTROLLER)
    counts = Counter(topic.name for topic in request.topics)
    refused = {}
    for name, count in counts.items():
        if name == CLUSTER_METADATA_TOPIC:
            refused[name] = f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited."
        elif count > 1:
            refused[name] = "Found multiple entries for this topic."

    def respond(outcomes: Mapping[str, TopicOutcome]) -> CreateTopicsResponse:
        results = []
        for topic in request.topics:
            outcome = outcomes.get(topic.name)
            if outcome is None:
                outcome = TopicOutcome(KafkaError(ErrorCode.INVALID_REQUEST, refused[topic.name]))
            results.append(_result(topic.name, outcome, dynamic))
        return CreateTopicsResponse(topics=results)

    wanted = [topic for topic in request.topics if topic.name not in refused]
    if not wanted:
        return respond({})
    created = controller.create_topics(wanted, request.timeout_ms, validate_only=request.validate_only)
    return created.map(respond)


def _result(name: str, outcome: TopicOutcome, dynamic: DynamicConfig) -> CreatableTopicResult:
    error, topic = outcome.error, outcome.topic
    if error is not None or topic is None:
        return CreatableTopicResult(
            name=name,
            topic_id=outcome.topic_id,
            error_code=ErrorCode.NONE if error is None else error.code,
            error_message=(error.detail if error else "") or None,
        )
    return CreatableTopicResult(
        name=name,
        topic_id=outcome.topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=len(topic.assignment),
        replication_factor=len(topic.assignment[0]),
        configs=_configs(topic.configs, dynamic),
    )


def _configs(own: Mapping[str, str], dynamic: DynamicConfig) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=each.name,
            value=each.value,
            read_only=each.read_only,
            config_source=each.source,
            is_sensitive=each.is_sensitive,
        )
        for each in topic_entries(own, dynamic)
    ]


def error_response(request: CreateTopicsRequest, version: int, code: ErrorCode) -> CreateTopicsResponse:
    """Return the error for each topic."""
    results = [CreatableTopicResult(name=topic.name, error_code=code, error_message=None) for topic in request.topics]
    return CreateTopicsResponse(topics=results)
