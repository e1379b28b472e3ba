"""JoinGroup: become a member of a consumer group, or stay one.

Behaviour:
- The reply comes when all members have joined the rebalance, or after its timeout. It may take minutes.
- Only the leader's response has the members, because the leader assigns partitions.
- A static member that comes back gets its old place, without a rebalance if the group is stable and keeps its protocol.
Versions: 0 to 9. From 1 a rebalance timeout (in 0 the session timeout); from 4 a new member first gets its id, with
MEMBER_ID_REQUIRED; from 5 group instance ids; from 7 the protocol type, and null instead of "" for no protocol; from 8
the client's reason, for the log; from 9 a leader that comes back may skip the assignment.
Counterpart in Kafka: KafkaApis.handleJoinGroupRequest.
"""

from functools import partial
from typing import Final

from ottla.broker.groups.group_requests import ask, caller
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.coordinator.group_coordinator import GroupCoordinator
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

_NULL_PROTOCOL_FROM_VERSION: Final = 7
_NO_GENERATION: Final = -1


def handle(
    request: JoinGroupRequest, context: RequestContext, *, groups: GroupCoordinator
) -> Deferred[JoinGroupResponse]:
    """Call the group coordinator."""
    return ask(partial(groups.join_group, caller(context)), request)


def error_response(request: JoinGroupRequest, version: int, code: ErrorCode) -> JoinGroupResponse:
    """Return the error without a member id."""
    return JoinGroupResponse(
        error_code=code,
        generation_id=_NO_GENERATION,
        protocol_name=None if version >= _NULL_PROTOCOL_FROM_VERSION else "",
        leader="",
        member_id="",
        members=(),
    )
