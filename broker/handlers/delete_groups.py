"""DeleteGroups, versions 0 to 2: delete groups that have no members; answered when that is committed.

Counterpart in Kafka: KafkaApis.handleDeleteGroupsRequest.
"""

from ottla.broker.groups.group_requests import ask
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.coordinator.group_coordinator import GroupCoordinator
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def handle(
    request: DeleteGroupsRequest, context: RequestContext, *, groups: GroupCoordinator
) -> Deferred[DeleteGroupsResponse]:
    """Delete groups."""
    return ask(groups.delete_groups, request)


def error_response(request: DeleteGroupsRequest, version: int, code: ErrorCode) -> DeleteGroupsResponse:
    """No group is deleted; one that is named twice is answered once."""
    results = [DeletableGroupResult(group_id=name, error_code=code) for name in dict.fromkeys(request.groups_names)]
    return DeleteGroupsResponse(results=results)
