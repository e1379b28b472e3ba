"""SyncGroup, versions 0 to 5: a group's leader hands in what each member is assigned, and each member gets its part.

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
    """Tell what is assigned."""
    names_protocol = request.protocol_type is not None and request.protocol_name is not None
    if context.api_version >= _PROTOCOL_FROM_VERSION and not names_protocol:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "A member names no protocol")
    return ask(groups.sync_group, request)


def error_response(request: SyncGroupRequest, version: int, code: ErrorCode) -> SyncGroupResponse:
    """Nothing is assigned."""
    return SyncGroupResponse(error_code=code, assignment=b"")
