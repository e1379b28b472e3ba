import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.broker.config.broker_config import BROKER_CONFIG
from ottla.broker.handlers import describe_configs
from ottla.broker.net.session import RequestContext
from ottla.log.config import TOPIC_CONFIG
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tests.broker.controller.cluster import LONG_MS, Broker, running, topic, wait_for

LATEST = 4
TOPIC, BROKER, LOGGERS, METRICS, GROUP = 2, 4, 8, 16, 32


def resource(kind: int, name: str, keys: Sequence[str] | None = None) -> DescribeConfigsResource:
    return DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)


async def describe(
    broker: Broker,
    *resources: DescribeConfigsResource,
    version: int = LATEST,
    synonyms: bool = False,
    documentation: bool = False,
) -> list[DescribeConfigsResult]:
    request = DescribeConfigsRequest(
        resources=resources, include_synonyms=synonyms, include_documentation=documentation and version >= 3
    )
    request = DescribeConfigsRequest.decode(request.encode(version), version)
    reply = describe_configs.handle(
        request,
        RequestContext(ApiKey.DESCRIBE_CONFIGS, version),
        metadata=broker.metadata,
        topic_configs=broker.topic_configs,
        dynamic=broker.dynamic,
        broker_id=broker.broker_id,
    )
    response: DescribeConfigsResponse = await wait_for(reply)
    return list(DescribeConfigsResponse.decode(response.encode(version), version).results)


async def configs_of(
    broker: Broker, kind: int, name: str, *, synonyms: bool = False, documentation: bool = False
) -> dict[str, DescribeConfigsResourceResult]:
    (result,) = await describe(broker, resource(kind, name), synonyms=synonyms, documentation=documentation)
    assert result.error_code == ErrorCode.NONE
    return {config.name: config for config in result.configs}


async def create(broker: Broker, name: str, **configs: str) -> None:
    await wait_for(broker.controller.create_topics([topic(name, 1, 1, **configs)], LONG_MS, validate_only=False))


def sources(config: DescribeConfigsResourceResult) -> list[tuple[str, str | None, int]]:
    return [(synonym.name, synonym.value, synonym.source) for synonym in config.synonyms]


async def test_a_topics_configs_come_with_their_sources(tmp_path: Path) -> None:
    async with running(tmp_path, 0, log_retention_ms="77", segment_bytes="5") as cluster:
        await create(cluster.brokers[0], "t", cleanup_policy="compact")
        configs = await configs_of(cluster.brokers[0], TOPIC, "t")
        assert configs.keys() == TOPIC_CONFIG.keys()
        told = {name: (config.value, config.config_source, config.config_type) for name, config in configs.items()}
        assert told["cleanup.policy"] == ("compact", 1, 7)
        assert told["retention.ms"] == ("77", 4, 5)
        assert told["segment.bytes"] == ("1073741824", 5, 3)
        assert told["preallocate"] == ("false", 5, 1)
        assert not any(config.synonyms or config.documentation for config in configs.values())
        assert not any(config.read_only or config.is_sensitive for config in configs.values())


async def test_synonyms_come_in_the_order_of_their_precedence(tmp_path: Path) -> None:
    async with running(tmp_path, 0, log_retention_ms="77", log_roll_hours="3", message_max_bytes="9") as cluster:
        await create(cluster.brokers[0], "t", retention_ms="5", preallocate="true")
        configs = await configs_of(cluster.brokers[0], TOPIC, "t", synonyms=True)
        assert sources(configs["retention.ms"]) == [
            ("retention.ms", "5", 1),
            ("log.retention.ms", "77", 4),
            ("log.retention.hours", "168", 5),
        ]
        assert sources(configs["preallocate"]) == [("preallocate", "true", 1), ("log.preallocate", "false", 5)]
        assert sources(configs["max.message.bytes"]) == [
            ("message.max.bytes", "9", 4),
            ("message.max.bytes", "1048588", 5),
        ]
        assert configs["segment.ms"].value == "10800000"
        assert sources(configs["segment.ms"]) == []
        assert sources(configs["remote.storage.enable"]) == []


async def test_documentation_comes_on_request(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t")
        for kind, name in ((TOPIC, "t"), (BROKER, "0")):
            configs = await configs_of(broker, kind, name, documentation=True)
            assert configs
            assert all(config.documentation for config in configs.values())


async def test_a_brokers_configs_come_with_their_sources(tmp_path: Path) -> None:
    async with running(tmp_path, 0, num_partitions="3", queued_max_requests="5") as cluster:
        configs = await configs_of(cluster.brokers[0], BROKER, "0", synonyms=True)
        told = {name for name, key in BROKER_CONFIG.items() if not key.is_internal}
        assert configs.keys() == {*told, "queued.max.requests"} < {*BROKER_CONFIG, "queued.max.requests"}
        assert (configs["num.partitions"].value, configs["num.partitions"].config_source) == ("3", 4)
        assert sources(configs["num.partitions"]) == [("num.partitions", "3", 4), ("num.partitions", "1", 5)]
        assert (configs["log.retention.ms"].value, configs["log.retention.ms"].config_source) == (None, 5)
        ignored = configs["queued.max.requests"]
        assert (ignored.value, ignored.is_sensitive, ignored.config_type) == (None, True, 0)
        assert sources(ignored) == [("queued.max.requests", None, 4)]
        changeable = {name for name, config in configs.items() if not config.read_only}
        assert {"log.retention.ms", "log.cleaner.threads", "num.io.threads", "min.insync.replicas"} <= changeable
        assert not {"num.partitions", "log.retention.hours", "queued.max.requests", "listeners"} & changeable


async def test_a_dynamic_config_takes_precedence_over_the_file(tmp_path: Path) -> None:
    async with running(tmp_path, 0, log_retention_ms="77", log_retention_hours="3") as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t")
        await broker.dynamic.update({"log.retention.ms": "66", "custom": "c"}, {"log.retention.ms": "55"})
        levels = [
            ("log.retention.ms", "55", 2),
            ("log.retention.ms", "66", 3),
            ("log.retention.ms", "77", 4),
            ("log.retention.hours", "3", 4),
            ("log.retention.hours", "168", 5),
        ]
        of_topic = (await configs_of(broker, TOPIC, "t", synonyms=True))["retention.ms"]
        assert (of_topic.value, of_topic.config_source, sources(of_topic)) == ("55", 2, levels)
        of_broker = (await configs_of(broker, BROKER, "0", synonyms=True))["log.retention.ms"]
        assert (of_broker.value, of_broker.config_source, sources(of_broker)) == ("55", 2, levels)
        for_all = await configs_of(broker, BROKER, "", synonyms=True)
        assert for_all.keys() == {"log.retention.ms", "custom"}
        assert (for_all["log.retention.ms"].value, sources(for_all["log.retention.ms"])) == ("66", levels[1:2])
        assert (for_all["custom"].value, for_all["custom"].is_sensitive, for_all["custom"].read_only) == (
            None,
            True,
            True,
        )


async def test_nothing_is_set_for_all_brokers_at_first(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        assert await configs_of(cluster.brokers[0], BROKER, "") == {}


async def test_the_loggers_of_the_process_come_with_their_levels(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        logging.getLogger("ottla.test.described").setLevel(logging.CRITICAL)
        configs = await configs_of(cluster.brokers[0], LOGGERS, "0", synonyms=True, documentation=True)
        found = configs["ottla.test.described"]
        told = (found.value, found.config_source, found.read_only, found.is_sensitive, found.config_type)
        assert told == ("FATAL", 6, False, False, 0)
        assert (list(found.synonyms), found.documentation) == ([], "")
        assert "root" in configs


@pytest.mark.parametrize("version", range(1, LATEST + 1))
async def test_the_response_has_only_the_requested_keys_in_every_version(tmp_path: Path, version: int) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t")
        wanted = [resource(TOPIC, "t", ["retention.ms", "nonsense"]), resource(BROKER, "0", ["broker.id"])]
        results = await describe(broker, *wanted, version=version, synonyms=True)
        assert [[config.name for config in result.configs] for result in results] == [["retention.ms"], ["broker.id"]]
        assert [result.resource_name for result in results] == ["t", "0"]
        assert results[0].configs[0].config_source == 5


async def test_each_resource_that_cannot_be_described_has_its_error(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        results = await describe(
            broker,
            resource(TOPIC, "gone"),
            resource(TOPIC, "bad name"),
            resource(BROKER, "1"),
            resource(BROKER, "x"),
            resource(METRICS, "0"),
            resource(LOGGERS, ""),
            resource(LOGGERS, "1"),
            resource(BROKER, "0"),
        )
        assert [(ErrorCode(result.error_code), result.error_message) for result in results] == [
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
            (
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                "Topic name is invalid: 'bad name' contains one or more characters other than ASCII alphanumerics, "
                "'.', '_' and '-'",
            ),
            (ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 0 or empty string, but received 1"),
            (ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
            (ErrorCode.INVALID_REQUEST, "Unsupported resource type: CLIENT_METRICS"),
            (ErrorCode.INVALID_REQUEST, "Broker id must not be empty"),
            (ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 0 but received 1"),
            (ErrorCode.NONE, ""),
        ]
        assert [bool(result.configs) for result in results] == [False] * 7 + [True]


@pytest.mark.parametrize("kind", [GROUP, 3, 0, -1])
async def test_a_kind_of_resource_that_has_no_configs_here_fails_the_whole_request(tmp_path: Path, kind: int) -> None:
    async with running(tmp_path, 0) as cluster:
        with pytest.raises(KafkaError) as caught:
            await describe(cluster.brokers[0], resource(BROKER, "0"), resource(kind, "0"))
        assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_an_error_of_the_whole_request_is_returned_for_each_resource_with_a_message() -> None:
    request = DescribeConfigsRequest(resources=[resource(TOPIC, "a"), resource(BROKER, "0")])
    response = describe_configs.error_response(request, LATEST, ErrorCode.INVALID_REQUEST)
    assert [(each.error_code, bool(each.error_message)) for each in response.results] == [(42, True)] * 2


async def test_the_configs_of_a_topic_that_is_hosted_elsewhere_are_read(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        await create(cluster.brokers[0], "t", retention_ms="5")
        others = [broker for broker in cluster.brokers.values() if broker.topic_configs.missing(["t"])]
        assert others
        for broker in others:
            configs = await configs_of(broker, TOPIC, "t")
            assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5", 1)
            assert broker.topic_configs.missing(["t"]), "who is not told of changes must not remember"
