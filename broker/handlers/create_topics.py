"""CreateTopics, versions 2 to 7: create topics, or only say whether they could be.

The reply comes when each new topic is kept by the store and has leaders, or when time is up. A client that allows no
time gets REQUEST_TIMED_OUT at once, and its topics nevertheless.

Deviations: as in KRaft mode a manual assignment may name only registered brokers, and more than 10,000 partitions in
one request are refused.
Counterpart in Kafka: KafkaApis.handleCreateTopicsRequest.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from ottla.broker.controller.admin import TopicOutcome
from ottla.broker.controller.event_loop import Controller
from ottla.broker.controller.topics import CLUSTER_METADATA_TOPIC
from ottla.broker.request_context import Deferred, RequestContext
from ottla.log.config import BROKER_SYNONYMS, TOPIC_CONFIG, LogConfig
from ottla.wire.config_def import ConfigType, render
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_topics import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

_FROM_TOPIC: Final = 1
_FROM_BROKER_FILE: Final = 4
_DEFAULT: Final = 5


def handle(
    request: CreateTopicsRequest,
    context: RequestContext,
    *,
    controller: Controller,
    log_defaults: LogConfig,
) -> CreateTopicsResponse | Deferred[CreateTopicsResponse]:
    """Create topics. `log_defaults` is the configuration of a topic that sets nothing."""
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
            results.append(_result(topic.name, outcome, log_defaults))
        return CreateTopicsResponse(topics=results)

    wanted = [topic for topic in request.topics if topic.name not in refused]
    if not wanted:
        return respond({})
    created = controller.create_topics(wanted, request.timeout_ms, validate_only=request.validate_only)
    reply: Deferred[CreateTopicsResponse] = Deferred(applied=False, on_abandon=created.abandon)
    created.then(lambda outcomes: reply.complete(respond(outcomes)))
    return reply


def _result(name: str, outcome: TopicOutcome, log_defaults: LogConfig) -> CreatableTopicResult:
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
        configs=_configs(topic.configs, log_defaults),
    )


def _configs(own: Mapping[str, str], log_defaults: LogConfig) -> list[CreatableTopicConfigs]:
    values = LogConfig.from_topic(own, log_defaults).values
    found = []
    for name, key in TOPIC_CONFIG.items():
        source = _DEFAULT
        if name in own:
            source = _FROM_TOPIC
        elif name in BROKER_SYNONYMS and values[name] != key.default:
            source = _FROM_BROKER_FILE
        is_sensitive = key.type is ConfigType.PASSWORD
        found.append(
            CreatableTopicConfigs(
                name=name,
                value=None if is_sensitive else render(values[name]),
                read_only=False,
                config_source=source,
                is_sensitive=is_sensitive,
            )
        )
    return found


def error_response(request: CreateTopicsRequest, version: int, code: ErrorCode) -> CreateTopicsResponse:
    """No topic is created."""
    results = [CreatableTopicResult(name=topic.name, error_code=code, error_message=None) for topic in request.topics]
    return CreateTopicsResponse(topics=results)
