"""Configs of topics, brokers, loggers, groups and client metrics.

Owns the numbers of resources, sources and operations. Must not know which keys there are.
Counterparts in Kafka: ConfigResource, ConfigEntry, AlterConfigOp.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.client.cluster import ANY, Client, Target, kafka_error
from ottla.wire.errors import ErrorCode, KafkaError
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


class ResourceType(IntEnum):
    """What has configs."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Resource(NamedTuple):
    """One thing that has configs. The broker named by an empty string stands for the defaults of all brokers."""

    type: ResourceType
    name: str


class ConfigSource(IntEnum):
    """Where a value comes from."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class Operation(IntEnum):
    """What to do to one key. APPEND and SUBTRACT are for lists."""

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
    """A value that counts where those before it are not set."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """A key and its value, which is None where it is unset or sensitive. `type` is Kafka's number of a type."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    is_read_only: bool
    synonyms: Sequence[Synonym] = ()
    type: int = 0
    documentation: str | None = None

    @property
    def default(self) -> str | None:
        """Return the value without any that was set for this resource; None if the broker does not say."""
        own = (ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.GROUP_CONFIG, ConfigSource.CLIENT_METRICS_CONFIG)
        return next((each.value for each in self.synonyms if each.source not in own), None)


_OF_ONE_BROKER: Final = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)


def asked_of(resource: Resource) -> Target:
    """Return whom to ask: only a broker itself knows its own configs."""
    return int(resource.name) if resource.type in _OF_ONE_BROKER and resource.name else ANY


async def describe_configs(
    client: Client,
    resources: Iterable[Resource],
    keys: Sequence[str] | None = None,
    *,
    synonyms: bool = False,
    documentation: bool = False,
) -> dict[Resource, list[ConfigEntry] | KafkaError]:
    """Return the configs of each resource, or why they cannot be told."""
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
    """Change keys of resources and leave their other keys as they are."""
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
        response = await client.ask(request, target, IncrementalAlterConfigsResponse)
        for result in response.responses:
            failed = result.error_code != ErrorCode.NONE
            error = kafka_error(result.error_code, result.error_message) if failed else None
            results[Resource(ResourceType(result.resource_type), result.resource_name)] = error
    return results


def _by_target(resources: Iterable[Resource]) -> dict[Target, list[Resource]]:
    grouped: dict[Target, list[Resource]] = {}
    for resource in resources:
        grouped.setdefault(asked_of(resource), []).append(resource)
    return grouped


async def min_insync_replicas(client: Client, topics: Sequence[str]) -> dict[str, int]:
    """Return `min.insync.replicas` of each topic that tells its configs."""
    wanted = [Resource(ResourceType.TOPIC, name) for name in topics]
    found = await describe_configs(client, wanted, ["min.insync.replicas"])
    return {
        resource.name: int(entries[0].value or 1)
        for resource, entries in found.items()
        if not isinstance(entries, KafkaError) and entries
    }
