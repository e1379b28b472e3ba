"""LeaveGroup, versions 0 to 5: members leave a group, one, or from version 3 on many.

Counterpart in Kafka: KafkaApis.handleLeaveGroupRequest.
"""

from ottla.broker.net.session import RequestContext
from ottla.coordinator.group_coordinator import GroupCoordinator
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


def handle(request: LeaveGroupRequest, context: RequestContext, *, groups: GroupCoordinator) -> LeaveGroupResponse:
    """Let them go."""
    return groups.leave_group(request, context.api_version)


def error_response(request: LeaveGroupRequest, version: int, code: ErrorCode) -> LeaveGroupResponse:
    """Nobody has left."""
    return LeaveGroupResponse(error_code=code)
