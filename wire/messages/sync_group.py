"""SyncGroup: the leader of a classic group sends all assignments, and each member gets its own.

0   the first form
1   throttle time
2   the client waits out the throttle time itself
3   group instance id, of a static member
4   flexible
5   protocol type and name, which both sides check
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Bytes, Int16, Int32, String


class SyncGroupRequestAssignment(Struct):
    """One member's assignment."""

    member_id: String
    assignment: Bytes


class SyncGroupRequest(Request, api_key=ApiKey.SYNC_GROUP, versions="0-5", flexible="4+"):
    """Get my assignment; only the leader sends `assignments`."""

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: Annotated[String | None, V("3+", nullable="3+")] = None
    protocol_type: Annotated[String | None, V("5+", nullable="5+")] = None
    protocol_name: Annotated[String | None, V("5+", nullable="5+")] = None
    assignments: Sequence[SyncGroupRequestAssignment]


class SyncGroupResponse(Response, api_key=ApiKey.SYNC_GROUP, versions="0-5", flexible="4+"):
    """The member's assignment."""

    throttle_time_ms: Annotated[Int32, V("1+")] = 0
    error_code: Int16
    protocol_type: Annotated[String | None, V("5+", nullable="5+")] = None
    protocol_name: Annotated[String | None, V("5+", nullable="5+")] = None
    assignment: Bytes
