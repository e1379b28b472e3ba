"""DescribeConfigs, versions 1 to 4: the configs of topics and of this broker, and where each value comes from.

A topic's own value stands before those of the broker's file, and these before the defaults; the synonyms of a config
are all values that there are for it, in this order.

Deviations: of a broker only those keys are told that Ottla knows, with Ottla's own documents, and of the keys that it
ignores those that were set, without their values. There are no loggers to describe.
Counterparts in Kafka: ConfigHelper, DynamicBrokerConfig.brokerConfigSynonyms.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import dropwhile
from typing import Any, Final, NamedTuple

from ottla.broker.config import BROKER_CONFIG, BrokerConfig
from ottla.broker.controller.topic_configs import TopicConfigs
from ottla.broker.controller.topics import check_name
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.request_context import Deferred, RequestContext
from ottla.log.config import BROKER_SYNONYMS, TOPIC_CONFIG, LogConfig
from ottla.wire.config_def import ConfigError, ConfigKey, ConfigType, Password, render
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

_TOPIC: Final = 2
_BROKER: Final = 4
# A broker's loggers, a client's metrics, a group: known, and not to be had.
_UNSUPPORTED: Final = {8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP"}

_FROM_TOPIC: Final = 1
_FROM_BROKER_FILE: Final = 4
_DEFAULT: Final = 5
_UNKNOWN_TYPE: Final = 0

# Keys of one meaning and several units; the first that is set counts.
_FAMILIES: Final = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)

Configs = Mapping[str, Mapping[str, str]]


class _Described(NamedTuple):
    """A config with all that can be told of it."""

    name: str
    value: str | None
    synonyms: Sequence[DescribeConfigsSynonym]
    read_only: bool
    # Of a key that nobody knows its value has to be taken for a secret.
    is_sensitive: bool = True
    type: int = _UNKNOWN_TYPE
    doc: str | None = None


def handle(
    request: DescribeConfigsRequest,
    context: RequestContext,
    *,
    metadata: MetadataCache,
    topic_configs: TopicConfigs,
    config: BrokerConfig,
    log_defaults: LogConfig,
    broker_id: int,
) -> DescribeConfigsResponse | Deferred[DescribeConfigsResponse]:
    """Describe configs; those of topics that are hosted elsewhere are read first.

    ManyElements for more than a few resources at once: a broker alone has hundreds of configs.
    """
    if len(request.resources) > MOST_RESOURCES:
        raise ManyElements(f"{len(request.resources)} resources")
    for resource in request.resources:
        if resource.resource_type not in (_TOPIC, _BROKER, *_UNSUPPORTED):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected resource type {resource.resource_type}")

    def respond(own: Configs) -> DescribeConfigsResponse:
        def find(resource: DescribeConfigsResource) -> list[_Described]:
            name = resource.resource_name
            if resource.resource_type == _TOPIC:
                _check_topic(name, metadata)
                return _topic(own.get(name, {}), config, log_defaults)
            if resource.resource_type == _BROKER:
                return _broker(name, config, broker_id)
            kind = _UNSUPPORTED[resource.resource_type]
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {kind}")

        return DescribeConfigsResponse(results=[_result(request, resource, find) for resource in request.resources])

    names = {each.resource_name for each in request.resources if each.resource_type == _TOPIC}
    return topic_configs.look_up({name for name in names if metadata.contains(name)}, respond)


def _result(
    request: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
    find: Callable[[DescribeConfigsResource], list[_Described]],
) -> DescribeConfigsResult:
    code, message = ErrorCode.NONE, ""
    found: list[_Described] = []
    try:
        found = find(resource)
    except KafkaError as error:
        code, message = error.code, error.detail
    keys = resource.configuration_keys
    return DescribeConfigsResult(
        error_code=code,
        error_message=message or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_entry(each, request) for each in found if not keys or each.name in keys],
    )


def _entry(described: _Described, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = described.synonyms
    return DescribeConfigsResourceResult(
        name=described.name,
        value=described.value,
        read_only=described.read_only,
        config_source=synonyms[0].source if synonyms else _DEFAULT,
        is_sensitive=described.is_sensitive,
        synonyms=synonyms if request.include_synonyms else (),
        config_type=described.type,
        documentation=described.doc if request.include_documentation else None,
    )


def _check_topic(name: str, metadata: MetadataCache) -> None:
    check_name(name)
    if not metadata.contains(name):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _topic(own: Mapping[str, str], config: BrokerConfig, log_defaults: LogConfig) -> list[_Described]:
    try:
        values = LogConfig.from_topic(own, log_defaults).values
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    found = []
    for name, key in TOPIC_CONFIG.items():
        value = _text(key, values[name])
        synonyms = _broker_synonyms(BROKER_SYNONYMS[name], config) if name in BROKER_SYNONYMS else []
        if name in own:
            synonyms = [DescribeConfigsSynonym(name=name, value=value, source=_FROM_TOPIC), *synonyms]
        found.append(_Described(name, value, synonyms, False, _is_sensitive(key), key.type.value, key.doc))
    return found


def _broker(name: str, config: BrokerConfig, broker_id: int) -> list[_Described]:
    if not name:
        # What was set for all brokers while they run: nothing is, yet.
        return []
    try:
        asked = int(name)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}") from None
    if asked != broker_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker_id} or empty string, but received {name}",
        )
    found = []
    for name, key in BROKER_CONFIG.items():
        value, synonyms = _text(key, config.values[name]), _broker_synonyms(name, config)
        found.append(_Described(name, value, synonyms, True, _is_sensitive(key), key.type.value, key.doc))
    unknown: Collection[str] = config.texts.keys() - BROKER_CONFIG.keys()
    found += [_Described(name, None, _broker_synonyms(name, config), True) for name in sorted(unknown)]
    return found


def _broker_synonyms(name: str, config: BrokerConfig) -> list[DescribeConfigsSynonym]:
    """Return what is set and what is the default, of a key and those that stand in for it."""
    names = next((family for family in _FAMILIES if name in family), (name,))
    found = [
        DescribeConfigsSynonym(
            name=each, value=_raw(BROKER_CONFIG.get(each), config.texts[each]), source=_FROM_BROKER_FILE
        )
        for each in names
        if each in config.texts
    ]
    found += [
        DescribeConfigsSynonym(name=each, value=_text(key, key.default), source=_DEFAULT)
        for each in names
        if (key := BROKER_CONFIG.get(each)) is not None and key.default is not None
    ]
    # Kafka does so too: what stands in for a key shows only behind a value of the key itself.
    return list(dropwhile(lambda synonym: synonym.name != name, found))


def _is_sensitive(key: ConfigKey[Any] | None) -> bool:
    """Whether a value is nobody's business; of a key that is not known, that has to be assumed."""
    return key is None or key.type is ConfigType.PASSWORD


def _raw(key: ConfigKey[Any] | None, text: str) -> str | None:
    return None if _is_sensitive(key) else text


def _text(key: ConfigKey[Any], value: Any) -> str | None:
    return None if value is None or isinstance(value, Password) or _is_sensitive(key) else render(value)


def error_response(request: DescribeConfigsRequest, version: int, code: ErrorCode) -> DescribeConfigsResponse:
    """Nothing is described."""
    results = [
        DescribeConfigsResult(
            error_code=code,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=(),
        )
        for resource in request.resources
    ]
    return DescribeConfigsResponse(results=results)
