"""DeleteAcls: delete the access control entries that match filters.

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


class DeleteAclsFilter(Struct):
    """Which entries to delete; null, or the number 1, matches anything."""

    resource_type_filter: Int8
    resource_name_filter: Annotated[String | None, V(nullable="0+")]
    pattern_type_filter: Annotated[Int8, V("1+")] = 3
    principal_filter: Annotated[String | None, V(nullable="0+")]
    host_filter: Annotated[String | None, V(nullable="0+")]
    operation: Int8
    permission_type: Int8


class DeleteAclsRequest(Request, api_key=ApiKey.DELETE_ACLS, versions="0-3", flexible="2+"):
    """Delete entries."""

    filters: Sequence[DeleteAclsFilter]


class DeleteAclsMatchingAcl(Struct):
    """An entry that matched, and whether it was deleted."""

    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")]
    resource_type: Int8
    resource_name: String
    pattern_type: Annotated[Int8, V("1+")] = 3
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class DeleteAclsFilterResult(Struct):
    """The result for one filter, in the order of the request."""

    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")]
    matching_acls: Sequence[DeleteAclsMatchingAcl]


class DeleteAclsResponse(Response, api_key=ApiKey.DELETE_ACLS, versions="0-3", flexible="2+"):
    """The results for the filters."""

    throttle_time_ms: Int32 = 0
    filter_results: Sequence[DeleteAclsFilterResult]
