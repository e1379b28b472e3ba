from pathlib import Path

import pytest

from ottla.broker.handlers import alter_configs
from ottla.broker.net.session import RequestContext
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from tests.broker.controller.cluster import LONG_MS, Broker, running, topic, wait_for

LATEST = 2
TOPIC, BROKER, LOGGERS = 2, 4, 8


async def alter(
    broker: Broker,
    name: str,
    configs: dict[str, str | None],
    *,
    kind: int = TOPIC,
    version: int = LATEST,
    validate_only: bool = False,
) -> tuple[ErrorCode, str | None]:
    wanted = [AlterableConfig(name=key, value=value) for key, value in configs.items()]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=wanted)
    request = AlterConfigsRequest(resources=[resource], validate_only=validate_only)
    request = AlterConfigsRequest.decode(request.encode(version), version)
    context = RequestContext(ApiKey.ALTER_CONFIGS, version)
    response: AlterConfigsResponse = await wait_for(
        alter_configs.handle(request, context, config_admin=broker.config_admin)
    )
    (result,) = AlterConfigsResponse.decode(response.encode(version), version).responses
    return ErrorCode(result.error_code), result.error_message


@pytest.mark.parametrize("version", range(LATEST + 1))
async def test_all_configs_are_replaced_in_every_version(tmp_path: Path, version: int) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        request = [topic("t", retention_ms="5", segment_ms="6")]
        await wait_for(broker.controller.create_topics(request, LONG_MS, validate_only=False))
        assert await alter(broker, "t", {"segment.ms": "7"}, version=version) == (ErrorCode.NONE, None)
        assert broker.topic_configs.get("t") == {"segment.ms": "7"}
        config = broker.replicas.partition("t", 0).log.config
        assert (config.segment_ms, config.values["retention.ms"]) == (7, 604_800_000)


async def test_invalid_or_only_validated_configs_change_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await wait_for(broker.controller.create_topics([topic("t")], LONG_MS, validate_only=False))
        refused = ErrorCode.INVALID_REQUEST, "Null value not supported for : retention.ms"
        assert await alter(broker, "t", {"retention.ms": None}) == refused
        assert (await alter(broker, "t", {"segment.bytes": "1"}))[0] == ErrorCode.INVALID_CONFIG
        assert await alter(broker, "t", {"segment.ms": "7"}, validate_only=True) == (ErrorCode.NONE, None)
        assert broker.topic_configs.get("t") == {}


async def test_all_configs_of_a_broker_are_replaced(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        for name in ("0", ""):
            assert await alter(broker, name, {"log.retention.ms": "7"}, kind=BROKER) == (ErrorCode.NONE, None)
        assert await alter(broker, "0", {"message.max.bytes": "9"}, kind=BROKER) == (ErrorCode.NONE, None)
        assert (broker.dynamic.own, broker.dynamic.default) == ({"message.max.bytes": "9"}, {"log.retention.ms": "7"})
        refused = ErrorCode.INVALID_REQUEST, "Cannot update these configs dynamically: [broker.id]"
        assert await alter(broker, "0", {"broker.id": "9"}, kind=BROKER) == refused
        assert broker.dynamic.own == {"message.max.bytes": "9"}


async def test_the_levels_of_loggers_cannot_be_replaced(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        answer = await alter(cluster.brokers[0], "0", {"root": "INFO"}, kind=LOGGERS)
        assert answer == (ErrorCode.INVALID_REQUEST, "Unknown resource type 8")
