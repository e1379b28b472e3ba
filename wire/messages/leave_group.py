"""LeaveGroup: members leave a classic group.

0   the first form
1   throttle time
2   the client waits out the throttle time itself
3   many members at once, by member id or by group instance id
4   flexible
5   each member says why it leaves
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Int16, Int32, String


class MemberIdentity(Struct):
    """A member that leaves, by its id, by its instance id or by both."""

    member_id: String
    group_instance_id: Annotated[String | None, V(nullable="0+")] = None
    reason: Annotated[String | None, V("5+", nullable="5+")] = None


class LeaveGroupRequest(Request, api_key=ApiKey.LEAVE_GROUP, versions="0-5", flexible="4+"):
    """Leave a group."""

    group_id: String
    member_id: Annotated[String, V("0-2")] = ""
    members: Annotated[Sequence[MemberIdentity], V("3+")] = ()


class MemberResponse(Struct):
    """Whether one member has left."""

    member_id: String
    group_instance_id: Annotated[String | None, V(nullable="0+")]
    error_code: Int16


class LeaveGroupResponse(Response, api_key=ApiKey.LEAVE_GROUP, versions="0-5", flexible="4+"):
    """Whether the members have left."""

    throttle_time_ms: Annotated[Int32, V("1+")] = 0
    error_code: Int16
    members: Annotated[Sequence[MemberResponse], V("3+")] = ()
