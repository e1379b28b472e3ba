"""DescribeAcls: the access control entries that match a filter.

0   the first form
1   pattern type (3 literal, 4 prefix); the client waits out the throttle time itself
2   flexible
3   users as resources
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Int8, Int16, Int32, String


class DescribeAclsRequest(Request, api_key=ApiKey.DESCRIBE_ACLS, versions="0-3", flexible="2+"):
    """Describe entries; null, or the number 1, matches anything."""

    resource_type_filter: Int8
    resource_name_filter: Annotated[String | None, V(nullable="0+")]
    pattern_type_filter: Annotated[Int8, V("1+")] = 3
    principal_filter: Annotated[String | None, V(nullable="0+")]
    host_filter: Annotated[String | None, V(nullable="0+")]
    operation: Int8
    permission_type: Int8


class AclDescription(Struct):
    """Principal, host, operation and permission of an entry."""

    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class DescribeAclsResource(Struct):
    """A resource, or a pattern of names, and its entries."""

    resource_type: Int8
    resource_name: String
    pattern_type: Annotated[Int8, V("1+")] = 3
    acls: Sequence[AclDescription]


class DescribeAclsResponse(Response, api_key=ApiKey.DESCRIBE_ACLS, versions="0-3", flexible="2+"):
    """The entries."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")]
    resources: Sequence[DescribeAclsResource]
