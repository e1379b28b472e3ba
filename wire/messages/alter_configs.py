"""AlterConfigs: replace all configs of topics, brokers and other resources.

0   the first form
1   the client waits out the throttle time itself
2   flexible
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Bool, Int8, Int16, Int32, String


class AlterableConfig(Struct):
    """A config to set."""

    name: String
    value: Annotated[String | None, V(nullable="0+")]


class AlterConfigsResource(Struct):
    """A resource (type 2 a topic, 4 a broker) and all configs that it is to have."""

    resource_type: Int8
    resource_name: String
    configs: Sequence[AlterableConfig]


class AlterConfigsRequest(Request, api_key=ApiKey.ALTER_CONFIGS, versions="0-2", flexible="2+"):
    """Replace configs, or only say whether they could be replaced."""

    resources: Sequence[AlterConfigsResource]
    validate_only: Bool


class AlterConfigsResourceResponse(Struct):
    """The result for one resource."""

    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")]
    resource_type: Int8
    resource_name: String


class AlterConfigsResponse(Response, api_key=ApiKey.ALTER_CONFIGS, versions="0-2", flexible="2+"):
    """The results for the resources."""

    throttle_time_ms: Int32 = 0
    responses: Sequence[AlterConfigsResourceResponse]
