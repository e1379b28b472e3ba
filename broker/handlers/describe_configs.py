"""DescribeConfigs: the configs of topics and of this broker, and the source of each value.

Behaviour:
- Every broker describes every topic, and the configs of all brokers; its own configs and loggers only itself.
- Each resource has its own error, but an unknown type of resource fails the whole request.
- The loggers are those of this process.
Deviations: A broker's configs are those that Ottla knows, with Ottla's documentation. Keys that Ottla ignores are in
the response if they were set, without their values.
Versions: 1 to 4. From 3 types and documentation.
Counterpart in Kafka: ConfigHelper.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ottla.broker.cluster.config_description import (
    Entry,
    Resource,
    Source,
    broker_entries,
    broker_id_of,
    default_entries,
    logger_entries,
    topic_entries,
)
from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.cluster.topic_configs import TopicConfigs
from ottla.broker.cluster.topic_names import check_name
from ottla.broker.config.dynamic import DynamicConfig
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.large_arrays import ManyElements
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

MOST_RESOURCES: Final = 10
# As in Kafka, a resource of another type fails the whole request.
_KINDS: Final = frozenset({Resource.TOPIC, Resource.BROKER, Resource.BROKER_LOGGER, Resource.CLIENT_METRICS})

Configs = Mapping[str, Mapping[str, str]]


def handle(
    request: DescribeConfigsRequest,
    context: RequestContext,
    *,
    metadata: MetadataCache,
    topic_configs: TopicConfigs,
    dynamic: DynamicConfig,
    broker_id: int,
) -> DescribeConfigsResponse | Deferred[DescribeConfigsResponse]:
    """Describe each resource. The configs of topics that this broker does not host are read first.

    Raise ManyElements for more than MOST_RESOURCES, because one broker has hundreds of configs.
    """
    if len(request.resources) > MOST_RESOURCES:
        raise ManyElements(f"{len(request.resources)} resources")
    for resource in request.resources:
        if resource.resource_type not in _KINDS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected resource type {resource.resource_type}")

    def respond(own: Configs) -> DescribeConfigsResponse:
        def find(resource: DescribeConfigsResource) -> Sequence[Entry]:
            name = resource.resource_name
            match Resource(resource.resource_type):
                case Resource.TOPIC:
                    _check_topic(name, metadata)
                    return topic_entries(own.get(name, {}), dynamic)
                case Resource.BROKER:
                    return _broker(name, dynamic, broker_id)
                case Resource.BROKER_LOGGER:
                    return _loggers(name, broker_id)
                case kind:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {kind.name}")

        return DescribeConfigsResponse(results=[_result(request, resource, find) for resource in request.resources])

    names = {each.resource_name for each in request.resources if each.resource_type == Resource.TOPIC}
    return topic_configs.look_up({name for name in names if metadata.contains(name)}, respond)


def _result(
    request: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
    find: Callable[[DescribeConfigsResource], Sequence[Entry]],
) -> DescribeConfigsResult:
    error: KafkaError | None = None
    found: Sequence[Entry] = ()
    try:
        found = find(resource)
    except KafkaError as caught:
        error = caught
    keys = resource.configuration_keys
    return DescribeConfigsResult(
        error_code=ErrorCode.NONE if error is None else error.code,
        # As in Kafka, the message is "" and not null.
        error_message=error.detail if error else "",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_entry(each, request) for each in found if not keys or each.name in keys],
    )


def _entry(entry: Entry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    is_logger = entry.source == Source.DYNAMIC_BROKER_LOGGER
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[DescribeConfigsSynonym(**each._asdict()) for each in synonyms],
        config_type=entry.type,
        # As in Kafka, a logger has "" and never null.
        documentation="" if is_logger else entry.doc if request.include_documentation else None,
    )


def _check_topic(name: str, metadata: MetadataCache) -> None:
    check_name(name)
    if not metadata.contains(name):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _broker(name: str, dynamic: DynamicConfig, broker_id: int) -> Sequence[Entry]:
    if not name:
        return default_entries(dynamic)
    if broker_id_of(name, "Broker") != broker_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker_id} or empty string, but received {name}",
        )
    return broker_entries(dynamic)


def _loggers(name: str, broker_id: int) -> Sequence[Entry]:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    if broker_id_of(name, "Broker") != broker_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {broker_id} but received {name}")
    return logger_entries()


def error_response(request: DescribeConfigsRequest, version: int, code: ErrorCode) -> DescribeConfigsResponse:
    """Return the error for each resource."""
    results = [
        DescribeConfigsResult(
            error_code=code,
            error_message=f"The request failed with {code.name}.",
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=(),
        )
        for resource in request.resources
    ]
    return DescribeConfigsResponse(results=results)
