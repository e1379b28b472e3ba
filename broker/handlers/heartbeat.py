"""Heartbeat, versions 0 to 4: a member of a group is alive.

Counterpart in Kafka: KafkaApis.handleHeartbeatRequest.
"""

from ottla.broker.net.session import RequestContext
from ottla.coordinator.group_coordinator import GroupCoordinator
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(request: HeartbeatRequest, context: RequestContext, *, groups: GroupCoordinator) -> HeartbeatResponse:
    """Say whether it still belongs to the group's generation."""
    return groups.heartbeat(request)


def error_response(request: HeartbeatRequest, version: int, code: ErrorCode) -> HeartbeatResponse:
    """It does not."""
    return HeartbeatResponse(error_code=code)
