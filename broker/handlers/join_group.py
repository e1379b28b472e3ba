"""JoinGroup, versions 0 to 9: become, or stay, a member of a group; answered when its rebalance has gathered all.

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
    """Join a group."""
    return ask(partial(groups.join_group, caller(context)), request)


def error_response(request: JoinGroupRequest, version: int, code: ErrorCode) -> JoinGroupResponse:
    """Who asks is no member."""
    return JoinGroupResponse(
        error_code=code,
        generation_id=_NO_GENERATION,
        protocol_name=None if version >= _NULL_PROTOCOL_FROM_VERSION else "",
        leader="",
        member_id="",
        members=(),
    )
