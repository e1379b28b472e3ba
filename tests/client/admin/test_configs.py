"""Configs: defaults, and the resources that a broker lists."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from ottla import Broker
from ottla.client.admin.configs import (
    Change,
    ConfigEntry,
    ConfigSource,
    Operation,
    Resource,
    ResourceType,
    Synonym,
    alter_configs,
    describe_configs,
    describe_with_defaults,
    list_config_resources,
    replace_configs,
)
from ottla.client.admin.topics import NewTopic, create_topics
from ottla.client.cluster import Client, open_client
from ottla.client.config import ClientConfig
from ottla.client.errors import UnsupportedRequestError
from ottla.wire.api_keys import ApiKey
from ottla.wire.codec import RequestHeader
from ottla.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ottla.wire.schema import Request, Response
from tests.client.scripted import ScriptedBroker, listening

TOPIC = Resource(ResourceType.TOPIC, "t")
DYNAMIC = Synonym("log.roll.ms", "3", ConfigSource.DYNAMIC_BROKER_CONFIG)
STATIC = Synonym("log.roll.ms", "2", ConfigSource.STATIC_BROKER_CONFIG)
DEFAULT = Synonym("log.roll.ms", "1", ConfigSource.DEFAULT_CONFIG)


def entry(value: str | None, *synonyms: Synonym) -> ConfigEntry:
    return ConfigEntry("k", value, synonyms[0].source, False, False, synonyms)


def test_the_default_of_a_topic_is_the_brokers_value_and_that_of_a_broker_is_kafkas() -> None:
    own = Synonym("segment.ms", "4", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    topic = entry("4", own, DYNAMIC, STATIC, DEFAULT)
    assert (topic.default(ResourceType.TOPIC), topic.is_changed(ResourceType.TOPIC)) == ("3", True)
    inherited = entry("3", DYNAMIC, STATIC, DEFAULT)
    assert (inherited.default(ResourceType.TOPIC), inherited.is_changed(ResourceType.TOPIC)) == ("3", False)
    assert (inherited.default(ResourceType.BROKER), inherited.is_changed(ResourceType.BROKER)) == ("1", True)
    plain = entry("1", DEFAULT)
    assert (plain.default(ResourceType.BROKER), plain.is_changed(ResourceType.BROKER)) == ("1", False)


def test_a_value_equal_to_the_default_is_not_changed_but_a_secret_is() -> None:
    assert not entry("1", STATIC._replace(value="1"), DEFAULT).is_changed(ResourceType.BROKER)
    secret = entry(None, STATIC._replace(value=None))
    assert (secret.default(ResourceType.BROKER), secret.is_changed(ResourceType.BROKER)) == (None, True)


async def test_resources_of_other_types_than_client_metrics_need_a_newer_broker() -> None:
    async def answer(header: RequestHeader, request: Request) -> Response:
        return ListConfigResourcesResponse(error_code=0, config_resources=[ConfigResource(resource_name="a")])

    broker = ScriptedBroker(answer)
    broker.versions = {**broker.versions, ApiKey.LIST_CONFIG_RESOURCES: (0, 0)}
    async with listening(broker), open_client(ClientConfig({"bootstrap.servers": broker.bootstrap})) as client:
        found = await list_config_resources(client, ResourceType.CLIENT_METRICS)
        with pytest.raises(UnsupportedRequestError) as refused:
            await list_config_resources(client, ResourceType.GROUP)
    assert found == [Resource(ResourceType.CLIENT_METRICS, "a")]
    assert refused.value.api == "LIST_CONFIG_RESOURCES"
    assert isinstance(broker.requests[-1], ListConfigResourcesRequest)


@asynccontextmanager
async def with_topic(configs: Mapping[str, str], **settings: object) -> AsyncIterator[Client]:
    """Yield a client of a broker with one topic."""
    with Broker(**settings) as running:
        async with open_client(ClientConfig({"bootstrap.servers": running.bootstrap})) as client:
            await create_topics(client, [NewTopic(TOPIC.name, configs=configs)])
            yield client


@pytest.mark.slow
async def test_defaults_in_another_unit_of_time_are_found() -> None:
    times = {"retention.ms": "5", "segment.ms": "9000000", "segment.jitter.ms": "7"}
    async with with_topic(times, log_retention_hours=48, log_roll_hours=5) as client:
        entries = (await describe_with_defaults(client, [TOPIC]))[TOPIC]
    assert isinstance(entries, list)
    defaults = {each.name: each.default(ResourceType.TOPIC) for each in entries if each.name in times}
    assert defaults == {"retention.ms": "172800000", "segment.ms": "18000000", "segment.jitter.ms": "0"}


@pytest.mark.slow
async def test_replacing_configs_unsets_all_other_keys() -> None:
    async with with_topic({"retention.ms": "5", "segment.ms": "9000000"}) as client:
        assert await replace_configs(client, {TOPIC: {"retention.ms": "6"}}) == {TOPIC: None}
        assert await alter_configs(client, {TOPIC: [Change("flush.ms", Operation.SET, "9")]}) == {TOPIC: None}
        entries = (await describe_configs(client, [TOPIC]))[TOPIC]
    assert isinstance(entries, list)
    own = {each.name: each.value for each in entries if each.source is ConfigSource.DYNAMIC_TOPIC_CONFIG}
    assert own == {"retention.ms": "6", "flush.ms": "9"}
