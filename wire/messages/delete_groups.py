"""DeleteGroups: delete groups that have no members.

0   the first form
1   the client waits out the throttle time itself
2   flexible
3   error message
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Int16, Int32, String


class DeleteGroupsRequest(Request, api_key=ApiKey.DELETE_GROUPS, versions="0-3", flexible="2+"):
    """Delete groups with their offsets."""

    groups_names: Sequence[String]


class DeletableGroupResult(Struct):
    """The result for one group."""

    group_id: String
    error_code: Int16
    error_message: Annotated[String | None, V("3+", nullable="3+")] = None


class DeleteGroupsResponse(Response, api_key=ApiKey.DELETE_GROUPS, versions="0-3", flexible="2+"):
    """The results for the groups."""

    throttle_time_ms: Int32 = 0
    results: Sequence[DeletableGroupResult]
