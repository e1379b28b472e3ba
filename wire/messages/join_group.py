"""JoinGroup: become, or stay, a member of a classic group; answered when its rebalance has gathered all members.

0   the first form
1   rebalance timeout, for which the session timeout had to serve before
2   throttle time
3   the client waits out the throttle time itself
4   a new member is given its id first, by MEMBER_ID_REQUIRED, and then joins again
5   group instance id, of a static member
6   flexible
7   protocol type in the response
8   the member says why it joins
9   the leader may skip the assignment
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Bool, Bytes, Int16, Int32, String


class JoinGroupRequestProtocol(Struct):
    """An assignment protocol that the member supports, best first, and the member's metadata for it."""

    name: String
    metadata: Bytes


class JoinGroupRequest(Request, api_key=ApiKey.JOIN_GROUP, versions="0-9", flexible="6+"):
    """Join a group; `member_id` is empty for a new member."""

    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Annotated[Int32, V("1+")] = -1
    member_id: String
    group_instance_id: Annotated[String | None, V("5+", nullable="5+")] = None
    protocol_type: String
    protocols: Sequence[JoinGroupRequestProtocol]
    reason: Annotated[String | None, V("8+", nullable="8+")] = None


class JoinGroupResponseMember(Struct):
    """A member, and its metadata for the chosen protocol."""

    member_id: String
    group_instance_id: Annotated[String | None, V("5+", nullable="5+")] = None
    metadata: Bytes


class JoinGroupResponse(Response, api_key=ApiKey.JOIN_GROUP, versions="0-9", flexible="6+"):
    """The new generation; only the leader gets the members."""

    throttle_time_ms: Annotated[Int32, V("2+")] = 0
    error_code: Int16
    generation_id: Int32 = -1
    protocol_type: Annotated[String | None, V("7+", nullable="7+")] = None
    protocol_name: Annotated[String | None, V(nullable="7+")]
    leader: String
    skip_assignment: Annotated[Bool, V("9+")] = False
    member_id: String
    members: Sequence[JoinGroupResponseMember]
