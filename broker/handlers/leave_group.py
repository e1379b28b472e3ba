"""LeaveGroup: members leave a consumer group.

Behaviour:
- The response comes at once. A rebalance begins for the members that stay.
- A static member may be named by its group instance id alone.
Versions: 0 to 5. From 3 many members, each with its own error; from 5 their reasons, for the log.
Counterpart in Kafka: KafkaApis.handleLeaveGroupRequest.
"""

from ottla.broker.net.session import RequestContext
from ottla.coordinator.group_coordinator import GroupCoordinator
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


def handle(request: LeaveGroupRequest, context: RequestContext, *, groups: GroupCoordinator) -> LeaveGroupResponse:
    """Call the group coordinator."""
    return groups.leave_group(request, context.api_version)


def error_response(request: LeaveGroupRequest, version: int, code: ErrorCode) -> LeaveGroupResponse:
    """Return the error for the whole request."""
    return LeaveGroupResponse(error_code=code)
