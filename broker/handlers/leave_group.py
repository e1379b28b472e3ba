"""LeaveGroup, versions 0 to 5: members leave a group, one, or from version 3 on many.

Counterpart in Kafka: KafkaApis.handleLeaveGroupRequest.
"""

from ottla.broker.groups.group_requests import ask
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.coordinator.group_coordinator import GroupCoordinator
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


def handle(
    request: LeaveGroupRequest, context: RequestContext, *, groups: GroupCoordinator
) -> Deferred[LeaveGroupResponse]:
    """Let them go."""
    return ask(groups.leave_group, request, context)


def error_response(request: LeaveGroupRequest, version: int, code: ErrorCode) -> LeaveGroupResponse:
    """Nobody has left."""
    return LeaveGroupResponse(error_code=code)
