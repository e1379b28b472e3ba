"""AlterConfigs: replace all configs of topics or brokers, or check whether they could be replaced.

Behaviour:
- A key that the request leaves out has its default again.
- The reply comes when the new configs are kept by the store and in effect on this broker. Each resource has its own
  error, and the others are changed nevertheless.
- A broker's own configs are changed by that broker only. Loggers have no levels to replace: INVALID_REQUEST.
Versions: 0 to 2, all alike.
Counterpart in Kafka: KafkaApis.handleAlterConfigsRequest.
"""

from collections.abc import Mapping, Sequence

from ottla.broker.cluster.config_alteration import Alteration, Altered, ConfigAdmin, altered
from ottla.broker.cluster.config_description import Resource
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(
    request: AlterConfigsRequest, context: RequestContext, *, config_admin: ConfigAdmin
) -> Deferred[AlterConfigsResponse]:
    """Replace the configs of each resource."""
    wanted = [_alteration(each) for each in request.resources]
    return config_admin.alter(wanted, validate_only=request.validate_only).map(_response)


def _alteration(resource: AlterConfigsResource) -> Alteration:
    new = {config.name: config.value for config in resource.configs if config.value is not None}

    def replace(old: Mapping[str, str]) -> Mapping[str, str]:
        if resource.resource_type == Resource.BROKER_LOGGER:
            # As in Kafka, this API does not know the type of loggers.
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")
        return new

    keys = [config.name for config in resource.configs]
    nulls = [config.name for config in resource.configs if config.value is None]
    return Alteration(resource.resource_type, resource.resource_name, keys, nulls, replace)


def _response(outcomes: Sequence[Altered]) -> AlterConfigsResponse:
    return AlterConfigsResponse(responses=[AlterConfigsResourceResponse(**each._asdict()) for each in outcomes])


def error_response(request: AlterConfigsRequest, version: int, code: ErrorCode) -> AlterConfigsResponse:
    """Return the error for each resource."""
    return _response([altered(each.resource_type, each.resource_name, KafkaError(code)) for each in request.resources])
