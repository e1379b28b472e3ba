"""Heartbeat: a member of a classic group is alive.

0   the first form
1   throttle time
2   the client waits out the throttle time itself
3   group instance id, of a static member
4   flexible
"""

from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, V
from ottla.wire.types import Int16, Int32, String


class HeartbeatRequest(Request, api_key=ApiKey.HEARTBEAT, versions="0-4", flexible="4+"):
    """I am alive."""

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: Annotated[String | None, V("3+", nullable="3+")] = None


class HeartbeatResponse(Response, api_key=ApiKey.HEARTBEAT, versions="0-4", flexible="4+"):
    """Whether the member still belongs to the generation; REBALANCE_IN_PROGRESS asks it to join again."""

    throttle_time_ms: Annotated[Int32, V("1+")] = 0
    error_code: Int16
