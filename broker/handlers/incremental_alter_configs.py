"""IncrementalAlterConfigs: change single configs, or check whether they could be changed.

Behaviour:
- The reply comes when the changes are kept by the store and in effect on this broker. Each resource has its own error,
  and the others are changed nevertheless.
- The resources are topics, brokers and the loggers of this process, whose levels end with the process.
- APPEND and SUBTRACT change a list as it is set, or else its default. Loggers have SET and DELETE only.
- A broker's own configs and loggers are changed by that broker only.
Versions: 0 and 1, both alike.
Counterparts in Kafka: KafkaApis.handleIncrementalAlterConfigsRequest, ConfigAdminManager.prepareIncrementalConfigs.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final

from ottla.broker.cluster.config_alteration import Alteration, Altered, ConfigAdmin, altered
from ottla.broker.cluster.config_description import Resource
from ottla.broker.config.broker_config import BROKER_CONFIG
from ottla.broker.config.log_levels import check_level
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.log.config import TOPIC_CONFIG
from ottla.wire.config_def import ConfigType, render
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


_OPERATIONS: Final = frozenset(_Operation)


def handle(
    request: IncrementalAlterConfigsRequest, context: RequestContext, *, config_admin: ConfigAdmin
) -> Deferred[IncrementalAlterConfigsResponse]:
    """Change the configs of each resource."""
    wanted = [_alteration(each) for each in request.resources]
    return config_admin.alter(wanted, validate_only=request.validate_only).map(_response)


def _alteration(resource: AlterConfigsResource) -> Alteration:
    def change(old: Mapping[str, str]) -> Mapping[str, str]:
        new = dict(old)
        if resource.resource_type == Resource.BROKER:
            # As in Kafka, all operations are checked before the first one is applied.
            for config in resource.configs:
                _check_operation(config.config_operation)
        for config in resource.configs:
            _apply(config, new, resource.resource_type)
            if resource.resource_type == Resource.BROKER_LOGGER:
                # As in Kafka, the first wrong operation is the error.
                check_level(config.name, new.get(config.name))
        return new

    keys = [config.name for config in resource.configs]
    nulls = [
        each.name for each in resource.configs if each.value is None and each.config_operation != _Operation.DELETE
    ]
    return Alteration(resource.resource_type, resource.resource_name, keys, nulls, change)


def _check_operation(operation: int) -> None:
    if operation not in _OPERATIONS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {operation}")


def _apply(config: AlterableConfig, configs: dict[str, str], kind: int) -> None:
    name, value = config.name, config.value or ""
    match config.config_operation:
        case _Operation.SET:
            configs[name] = value
        case _Operation.DELETE:
            configs.pop(name, None)
        case _Operation.APPEND:
            old = _items(name, configs, kind, _Operation.APPEND)
            configs[name] = ",".join(old + [item for item in value.split(",") if item not in old])
        case _Operation.SUBTRACT:
            old = _items(name, configs, kind, _Operation.SUBTRACT)
            for item in value.split(","):
                if item in old:
                    old.remove(item)
            configs[name] = ",".join(old)
        case operation:
            _check_operation(operation)


def _items(name: str, configs: Mapping[str, str], kind: int, operation: _Operation) -> list[str]:
    """Return the items of a list that is set, or else of its default."""
    if kind == Resource.BROKER_LOGGER:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{operation.name} operation is not allowed for the BROKER_LOGGER resource"
        )
    key = (BROKER_CONFIG if kind == Resource.BROKER else TOPIC_CONFIG).get(name)
    if key is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown config name: {name}")
    if key.type is not ConfigType.LIST:
        fault = f"Config value {operation.name.lower()} is not allowed for config key: {name}"
        raise KafkaError(ErrorCode.INVALID_CONFIG, fault)
    text = configs[name] if name in configs else render(key.default)
    return text.split(",") if text else []


def _response(outcomes: Sequence[Altered]) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[AlterConfigsResourceResponse(**each._asdict()) for each in outcomes]
    )


def error_response(
    request: IncrementalAlterConfigsRequest, version: int, code: ErrorCode
) -> IncrementalAlterConfigsResponse:
    """Return the error for each resource."""
    return _response([altered(each.resource_type, each.resource_name, KafkaError(code)) for each in request.resources])
