"""DescribeConfigs: the configs of topics, brokers and other resources.

0   the first form
1   synonyms; the source of a config instead of whether it is a default
2   the client waits out the throttle time itself
3   types and documentation
4   flexible
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Bool, Int8, Int16, Int32, String


class DescribeConfigsResource(Struct):
    """A resource (type 2 a topic, 4 a broker, 8 a broker's loggers); null keys ask for all configs."""

    resource_type: Int8
    resource_name: String
    configuration_keys: Annotated[Sequence[String] | None, V(nullable="0+")]


class DescribeConfigsRequest(Request, api_key=ApiKey.DESCRIBE_CONFIGS, versions="0-4", flexible="4+"):
    """Describe configs."""

    resources: Sequence[DescribeConfigsResource]
    include_synonyms: Annotated[Bool, V("1+")] = False
    include_documentation: Annotated[Bool, V("3+")] = False


class DescribeConfigsSynonym(Struct):
    """A config that would be used if those before it were not set."""

    name: String
    value: Annotated[String | None, V(nullable="0+")]
    source: Int8


class DescribeConfigsResourceResult(Struct):
    """A config; `value` is null where it is unset or sensitive."""

    name: String
    value: Annotated[String | None, V(nullable="0+")]
    read_only: Bool
    is_default: Annotated[Bool, V("0")] = False
    config_source: Annotated[Int8, V("1+")] = -1
    is_sensitive: Bool
    synonyms: Annotated[Sequence[DescribeConfigsSynonym], V("1+")] = ()
    config_type: Annotated[Int8, V("3+")] = 0
    documentation: Annotated[String | None, V("3+", nullable="3+")] = ""


class DescribeConfigsResult(Struct):
    """The configs of one resource."""

    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")]
    resource_type: Int8
    resource_name: String
    configs: Sequence[DescribeConfigsResourceResult]


class DescribeConfigsResponse(Response, api_key=ApiKey.DESCRIBE_CONFIGS, versions="0-4", flexible="4+"):
    """The configs."""

    throttle_time_ms: Int32 = 0
    results: Sequence[DescribeConfigsResult]
