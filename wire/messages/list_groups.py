"""ListGroups: the groups that a broker coordinates.

0   the first form
1   throttle time
2   the client waits out the throttle time itself
3   flexible
4   filter by state; states
5   filter by type; types (classic, consumer and so on)
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Int16, Int32, String


class ListGroupsRequest(Request, api_key=ApiKey.LIST_GROUPS, versions="0-5", flexible="3+"):
    """List groups; an empty filter lets all pass."""

    states_filter: Annotated[Sequence[String], V("4+")] = ()
    types_filter: Annotated[Sequence[String], V("5+")] = ()


class ListedGroup(Struct):
    """A group; `protocol_type` is its use, for example consumer."""

    group_id: String
    protocol_type: String
    group_state: Annotated[String, V("4+")] = ""
    group_type: Annotated[String, V("5+")] = ""


class ListGroupsResponse(Response, api_key=ApiKey.LIST_GROUPS, versions="0-5", flexible="3+"):
    """The groups."""

    throttle_time_ms: Annotated[Int32, V("1+")] = 0
    error_code: Int16
    groups: Sequence[ListedGroup]
