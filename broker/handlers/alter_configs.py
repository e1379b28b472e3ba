"""AlterConfigs, versions 0 to 2: replace all configs of topics, or only say whether they could be replaced.

Counterpart in Kafka: KafkaApis.handleAlterConfigsRequest.
"""

from collections.abc import Mapping

from ottla.broker.controller.config_admin import Alteration, ConfigAdmin, Outcomes
from ottla.broker.request_context import Deferred, RequestContext
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
    """Replace configs."""

    def respond(outcomes: Outcomes) -> AlterConfigsResponse:
        pairs = zip(request.resources, outcomes, strict=True)
        return AlterConfigsResponse(responses=[_response(resource, error) for resource, error in pairs])

    altered = config_admin.alter([_alteration(each) for each in request.resources], validate_only=request.validate_only)
    reply: Deferred[AlterConfigsResponse] = Deferred(applied=False)
    altered.then(lambda outcomes: reply.complete(respond(outcomes)))
    return reply


def _alteration(resource: AlterConfigsResource) -> Alteration:
    new = {config.name: config.value for config in resource.configs if config.value is not None}

    def replace(old: Mapping[str, str]) -> Mapping[str, str]:
        return new

    keys = [config.name for config in resource.configs]
    nulls = [config.name for config in resource.configs if config.value is None]
    return Alteration(resource.resource_type, resource.resource_name, keys, nulls, replace)


def _response(resource: AlterConfigsResource, error: KafkaError | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=(error.detail if error else "") or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def error_response(request: AlterConfigsRequest, version: int, code: ErrorCode) -> AlterConfigsResponse:
    """Nothing is changed."""
    return AlterConfigsResponse(responses=[_response(each, KafkaError(code)) for each in request.resources])
