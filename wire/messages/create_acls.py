"""CreateAcls: create access control entries.

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


class AclCreation(Struct):
    """An entry: principal, host, operation and permission on resources."""

    resource_type: Int8
    resource_name: String
    resource_pattern_type: Annotated[Int8, V("1+")] = 3
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class CreateAclsRequest(Request, api_key=ApiKey.CREATE_ACLS, versions="0-3", flexible="2+"):
    """Create entries."""

    creations: Sequence[AclCreation]


class AclCreationResult(Struct):
    """The result for one entry, in the order of the request."""

    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")]


class CreateAclsResponse(Response, api_key=ApiKey.CREATE_ACLS, versions="0-3", flexible="2+"):
    """The results for the entries."""

    throttle_time_ms: Int32 = 0
    results: Sequence[AclCreationResult]
