"""SyncGroup: the leader of a consumer group sends the assignment, and each member gets its part.

Behaviour:
- The reply comes when the leader's assignment is committed to __consumer_offsets, at once if the group is stable.
- A member without an assignment from the leader gets an empty one.
- While the groups of the coordinator are loaded, the error is REBALANCE_IN_PROGRESS, because old clients know no other.
Versions: 0 to 5. From 3 the group instance id, which fences an earlier member of that id; from 5 the protocol type and
name, which a member must name.
Counterpart in Kafka: KafkaApis.handleSyncGroupRequest.
"""

from typing import Final

from ottla.broker.groups.group_requests import ask
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.coordinator.group_coordinator import GroupCoordinator
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_PROTOCOL_FROM_VERSION: Final = 5


def handle(
    request: SyncGroupRequest, context: RequestContext, *, groups: GroupCoordinator
) -> Deferred[SyncGroupResponse]:
    """Call the group coordinator."""
    names_protocol = request.protocol_type is not None and request.protocol_name is not None
    if context.api_version >= _PROTOCOL_FROM_VERSION and not names_protocol:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The request names no protocol")
    return ask(groups.sync_group, request)


def error_response(request: SyncGroupRequest, version: int, code: ErrorCode) -> SyncGroupResponse:
    """Return the error with an empty assignment."""
    return SyncGroupResponse(error_code=code, assignment=b"")
