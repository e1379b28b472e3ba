"""IncrementalAlterConfigs: change single configs of topics, brokers and other resources.

0   the first form
1   flexible
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Bool, Int8, Int16, Int32, String


class AlterableConfig(Struct):
    """A change of one config: 0 sets it, 1 deletes it, 2 appends to its list, 3 takes away from its list."""

    name: String
    config_operation: Int8
    value: Annotated[String | None, V(nullable="0+")]


class AlterConfigsResource(Struct):
    """A resource (type 2 a topic, 4 a broker, 8 a broker's loggers) and the changes to its configs."""

    resource_type: Int8
    resource_name: String
    configs: Sequence[AlterableConfig]


class IncrementalAlterConfigsRequest(Request, api_key=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions="0-1", flexible="1+"):
    """Change configs, or only say whether they could be changed."""

    resources: Sequence[AlterConfigsResource]
    validate_only: Bool


class AlterConfigsResourceResponse(Struct):
    """The result for one resource."""

    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")]
    resource_type: Int8
    resource_name: String


class IncrementalAlterConfigsResponse(
    Response, api_key=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions="0-1", flexible="1+"
):
    """The results for the resources."""

    throttle_time_ms: Int32 = 0
    responses: Sequence[AlterConfigsResourceResponse]
