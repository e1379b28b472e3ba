"""IncrementalAlterConfigs, versions 0 to 1: change single configs of topics, or only say whether that could be done.

Counterparts in Kafka: KafkaApis.handleIncrementalAlterConfigsRequest, ConfigAdminManager.prepareIncrementalConfigs.
"""

from collections.abc import Mapping
from enum import IntEnum

from ottla.broker.config import BROKER_CONFIG
from ottla.broker.controller.config_admin import BROKER, Alteration, ConfigAdmin, Outcomes
from ottla.broker.request_context import Deferred, RequestContext
from ottla.log.config import TOPIC_CONFIG
from ottla.wire.config_def import ConfigDef, ConfigType, render
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


class _Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def handle(
    request: IncrementalAlterConfigsRequest, context: RequestContext, *, config_admin: ConfigAdmin
) -> Deferred[IncrementalAlterConfigsResponse]:
    """Change configs."""

    def respond(outcomes: Outcomes) -> IncrementalAlterConfigsResponse:
        pairs = zip(request.resources, outcomes, strict=True)
        return IncrementalAlterConfigsResponse(responses=[_response(resource, error) for resource, error in pairs])

    altered = config_admin.alter([_alteration(each) for each in request.resources], validate_only=request.validate_only)
    reply: Deferred[IncrementalAlterConfigsResponse] = Deferred(applied=False)
    altered.then(lambda outcomes: reply.complete(respond(outcomes)))
    return reply


def _alteration(resource: AlterConfigsResource) -> Alteration:
    known = BROKER_CONFIG if resource.resource_type == BROKER else TOPIC_CONFIG

    def change(old: Mapping[str, str]) -> Mapping[str, str]:
        new = dict(old)
        for config in resource.configs:
            _apply(config, new, known)
        return new

    keys = [config.name for config in resource.configs]
    nulls = [
        each.name for each in resource.configs if each.value is None and each.config_operation != _Operation.DELETE
    ]
    return Alteration(resource.resource_type, resource.resource_name, keys, nulls, change)


def _apply(config: AlterableConfig, configs: dict[str, str], known: ConfigDef) -> None:
    name, value = config.name, config.value or ""
    match config.config_operation:
        case _Operation.SET:
            configs[name] = value
        case _Operation.DELETE:
            configs.pop(name, None)
        case _Operation.APPEND:
            old = _items(name, configs, known, "append")
            configs[name] = ",".join(old + [item for item in value.split(",") if item not in old])
        case _Operation.SUBTRACT:
            old = _items(name, configs, known, "subtract")
            for item in value.split(","):
                if item in old:
                    old.remove(item)
            configs[name] = ",".join(old)
        case operation:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {operation}")


def _items(name: str, configs: Mapping[str, str], known: ConfigDef, operation: str) -> list[str]:
    """Return the items of a list as it is set, or else as it is by default."""
    key = known.get(name)
    if key is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown config name: {name}")
    if key.type is not ConfigType.LIST:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Config value {operation} is not allowed for config key: {name}")
    text = configs[name] if name in configs else render(key.default)
    return text.split(",") if text else []


def _response(resource: AlterConfigsResource, error: KafkaError | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=(error.detail if error else "") or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def error_response(
    request: IncrementalAlterConfigsRequest, version: int, code: ErrorCode
) -> IncrementalAlterConfigsResponse:
    """Nothing is changed."""
    return IncrementalAlterConfigsResponse(responses=[_response(each, KafkaError(code)) for each in request.resources])
