"""Configs of topics, brokers, loggers, groups and client metrics.

Owns the numbers of resources, sources and operations. Must not know the keys.
Counterparts in Kafka: ConfigResource, ConfigEntry, AlterConfigOp.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.client.cluster import ANY, Client, Target, check, kafka_error
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages import alter_configs as replacing
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse


class ResourceType(IntEnum):
    """The type of a resource with configs."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Resource(NamedTuple):
    """A resource with configs. The broker with an empty name stands for the defaults of all brokers."""

    type: ResourceType
    name: str


class ConfigSource(IntEnum):
    """The source of a value."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class Operation(IntEnum):
    """The operation on one key. APPEND and SUBTRACT are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """A change of one key; DELETE has no value."""

    key: str
    operation: Operation
    value: str | None = None


class Synonym(NamedTuple):
    """A value that applies if those before it are not set."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """A key and its value; the value is None if it is unset or sensitive. `type` is Kafka's number of a type."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    is_read_only: bool
    synonyms: Sequence[Synonym] = ()
    type: int = 0
    documentation: str | None = None

    def default(self, resource: ResourceType) -> str | None:
        """Return the value that applies if none is set for the resource; None if the broker does not know one.

        For a topic it is the brokers' value, for a broker Kafka's default. The entry needs its synonyms.
        """
        if not self.is_own(resource):
            return self.value
        others = (each.value for each in self.synonyms if not _is_own(resource, each.source))
        return next((each for each in others if each is not None), None)

    def is_own(self, resource: ResourceType) -> bool:
        """Whether the value was set for the resource itself."""
        return _is_own(resource, self.source)

    def is_changed(self, resource: ResourceType) -> bool:
        """Whether the value was set and differs from the default; True if the value is not known."""
        return self.is_own(resource) and (self.value is None or self.value != self.default(resource))


def _is_own(resource: ResourceType, source: ConfigSource) -> bool:
    if resource == ResourceType.TOPIC:
        return source == ConfigSource.DYNAMIC_TOPIC_CONFIG
    return source != ConfigSource.DEFAULT_CONFIG


_OF_ONE_BROKER: Final = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)


def asked_of(resource: Resource) -> Target:
    """Return the target of requests for a resource, because only a broker itself knows its own configs."""
    return int(resource.name) if resource.type in _OF_ONE_BROKER and resource.name else ANY


async def describe_configs(
    client: Client,
    resources: Iterable[Resource],
    keys: Sequence[str] | None = None,
    *,
    synonyms: bool = False,
    documentation: bool = False,
) -> dict[Resource, list[ConfigEntry] | KafkaError]:
    """Return the configs of each resource, or the error for it."""
    results: dict[Resource, list[ConfigEntry] | KafkaError] = {}

    async def ask(target: Target, mine: Sequence[Resource]) -> None:
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=each.type, resource_name=each.name, configuration_keys=keys)
                for each in mine
            ],
            include_synonyms=synonyms,
            include_documentation=documentation,
        )
        response = await client.ask(request, target, DescribeConfigsResponse)
        for result in response.results:
            results[Resource(ResourceType(result.resource_type), result.resource_name)] = _described(result)

    for target, mine in _by_target(resources).items():
        await ask(target, mine)
    return results


_MILLISECONDS: Final = {".ms": 1, ".minutes": 60_000, ".hours": 3_600_000}
_TIMES: Final = {
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "segment.ms": ("log.roll.ms", "log.roll.hours"),
    "flush.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    "segment.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
}
"""Keys of topics, and the keys of brokers that are their defaults: the first one that is set applies."""


async def describe_with_defaults(
    client: Client, resources: Iterable[Resource], *, documentation: bool = False
) -> dict[Resource, list[ConfigEntry] | KafkaError]:
    """Return the configs of each resource with all synonyms.

    A broker leaves out the default of a topic's key that comes from several keys of the broker, in other units of time.
    This function adds it.
    """
    results = await describe_configs(client, resources, synonyms=True, documentation=documentation)
    lacking = [
        (entries, at)
        for resource, entries in results.items()
        if resource.type == ResourceType.TOPIC and not isinstance(entries, KafkaError)
        for at, entry in enumerate(entries)
        if entry.name in _TIMES and entry.default(resource.type) is None
    ]
    if lacking:
        found = await _broker_times(client)
        for entries, at in lacking:
            name = entries[at].name
            default = next((_milliseconds(found[each]) for each in _TIMES[name] if each in found), [])
            entries[at] = entries[at]._replace(synonyms=[*entries[at].synonyms, *default])
    return results


async def _broker_times(client: Client) -> dict[str, ConfigEntry]:
    """Return the keys of `_TIMES` that are set, as one of the brokers has them."""
    if not client.nodes:
        await client.metadata(())
    broker = Resource(ResourceType.BROKER, str(next(iter(client.nodes))))
    entries = (await describe_configs(client, [broker], [key for keys in _TIMES.values() for key in keys]))[broker]
    return {} if isinstance(entries, KafkaError) else {each.name: each for each in entries if each.value is not None}


def _milliseconds(entry: ConfigEntry) -> list[Synonym]:
    factor = next(each for unit, each in _MILLISECONDS.items() if entry.name.endswith(unit))
    count = int(entry.value or 0)
    return [Synonym(entry.name, str(count * factor if count >= 0 else -1), entry.source)]


def _described(result: DescribeConfigsResult) -> list[ConfigEntry] | KafkaError:
    if result.error_code != ErrorCode.NONE:
        return kafka_error(result.error_code, result.error_message)
    return [_entry(each) for each in result.configs]


def _entry(config: DescribeConfigsResourceResult) -> ConfigEntry:
    synonyms = [Synonym(each.name, each.value, _source(each.source)) for each in config.synonyms]
    return ConfigEntry(
        config.name,
        config.value,
        _source(config.config_source),
        config.is_sensitive,
        config.read_only,
        synonyms,
        config.config_type,
        config.documentation,
    )


def _source(number: int) -> ConfigSource:
    return ConfigSource(number) if number in ConfigSource._value2member_map_ else ConfigSource.UNKNOWN


async def alter_configs(
    client: Client, changes: Mapping[Resource, Sequence[Change]], *, validate_only: bool = False
) -> dict[Resource, KafkaError | None]:
    """Change keys of resources; their other keys stay as they are."""
    results: dict[Resource, KafkaError | None] = {}
    for target, mine in _by_target(changes).items():
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=each.type,
                    resource_name=each.name,
                    configs=[
                        AlterableConfig(name=change.key, config_operation=change.operation, value=change.value)
                        for change in changes[each]
                    ],
                )
                for each in mine
            ],
            validate_only=validate_only,
        )
        results |= _altered(await client.ask(request, target, IncrementalAlterConfigsResponse))
    return results


async def replace_configs(
    client: Client, configs: Mapping[Resource, Mapping[str, str | None]]
) -> dict[Resource, KafkaError | None]:
    """Set these keys of resources and unset all their other keys. Brokers before 2.3 have only this request."""
    results: dict[Resource, KafkaError | None] = {}
    for target, mine in _by_target(configs).items():
        request = replacing.AlterConfigsRequest(
            resources=[
                replacing.AlterConfigsResource(
                    resource_type=each.type,
                    resource_name=each.name,
                    configs=[replacing.AlterableConfig(name=key, value=value) for key, value in configs[each].items()],
                )
                for each in mine
            ],
            validate_only=False,
        )
        results |= _altered(await client.ask(request, target, replacing.AlterConfigsResponse))
    return results


def _altered(
    response: IncrementalAlterConfigsResponse | replacing.AlterConfigsResponse,
) -> dict[Resource, KafkaError | None]:
    return {
        Resource(ResourceType(each.resource_type), each.resource_name): None
        if each.error_code == ErrorCode.NONE
        else kafka_error(each.error_code, each.error_message)
        for each in response.responses
    }


async def list_config_resources(client: Client, type: ResourceType) -> list[Resource]:
    """Return the resources of a type; for groups and client metrics, those with configs of their own."""
    lowest = 0 if type == ResourceType.CLIENT_METRICS else 1
    request = ListConfigResourcesRequest(resource_types=[type])
    response = await client.ask(request, ANY, ListConfigResourcesResponse, lowest=lowest)
    check(response.error_code)
    return [Resource(ResourceType(each.resource_type), each.resource_name) for each in response.config_resources]


def _by_target(resources: Iterable[Resource]) -> dict[Target, list[Resource]]:
    grouped: dict[Target, list[Resource]] = {}
    for resource in resources:
        grouped.setdefault(asked_of(resource), []).append(resource)
    return grouped


async def min_insync_replicas(client: Client, topics: Sequence[str]) -> dict[str, int]:
    """Return `min.insync.replicas` of each topic whose configs can be described."""
    wanted = [Resource(ResourceType.TOPIC, name) for name in topics]
    found = await describe_configs(client, wanted, ["min.insync.replicas"])
    return {
        resource.name: int(entries[0].value or 1)
        for resource, entries in found.items()
        if not isinstance(entries, KafkaError) and entries
    }
