"""Heartbeat: a member of a consumer group stays in its group.

Behaviour:
- The response comes at once. REBALANCE_IN_PROGRESS tells the member to join again.
- A member that is unknown or of another generation gets an error, and its session is not renewed.
- While the groups of the coordinator are loaded, there is no error, because sessions do not end meanwhile.
Versions: 0 to 4. From 3 the group instance id, which fences an earlier member of that id.
Counterpart in Kafka: KafkaApis.handleHeartbeatRequest.
"""

from ottla.broker.net.session import RequestContext
from ottla.coordinator.group_coordinator import GroupCoordinator
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(request: HeartbeatRequest, context: RequestContext, *, groups: GroupCoordinator) -> HeartbeatResponse:
    """Call the group coordinator."""
    return groups.heartbeat(request)


def error_response(request: HeartbeatRequest, version: int, code: ErrorCode) -> HeartbeatResponse:
    """Return the error."""
    return HeartbeatResponse(error_code=code)
