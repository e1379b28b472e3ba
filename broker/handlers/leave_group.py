"""LeaveGroup: members leave a consumer group.

Behaviour:
- The response comes at once. A rebalance begins for the members that stay.
- A static member may be named by its group instance id alone.
Versions: 0 to 5. From 3 many members, each with its own error; from 5 their reasons, for the log.
Counterpart in Kafka: KafkaApis.handleLeaveGroupRequest.
"""

from ottla.broker.groups.group_requests import ask
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.coordinator.runtime import GroupCoordinator
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


def handle(
    request: LeaveGroupRequest, context: RequestContext, *, groups: GroupCoordinator
) -> Deferred[LeaveGroupResponse]:
    """Call the group coordinator."""
    return ask(groups.leave_group, request, context)


def error_response(request: LeaveGroupRequest, version: int, code: ErrorCode) -> LeaveGroupResponse:
    """Return the error for the whole request."""
    return LeaveGroupResponse(error_code=code)
