"""ListConfigResources: the names of resources that have configs.

0   only client metrics
1   every type; none asks for all types
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Int8, Int16, Int32, String


class ListConfigResourcesRequest(Request, api_key=ApiKey.LIST_CONFIG_RESOURCES, versions="0-1", flexible="0+"):
    """List resources (type 2 topics, 4 brokers, 8 their loggers, 16 client metrics, 32 groups)."""

    resource_types: Annotated[Sequence[Int8], V("1+")] = ()


class ConfigResource(Struct):
    """A resource."""

    resource_name: String
    resource_type: Annotated[Int8, V("1+")] = 16


class ListConfigResourcesResponse(Response, api_key=ApiKey.LIST_CONFIG_RESOURCES, versions="0-1", flexible="0+"):
    """The resources."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    config_resources: Sequence[ConfigResource]
