"""DeleteGroups: delete consumer groups with all their offsets.

Behaviour:
- The reply comes when the deletions are committed to __consumer_offsets.
- A group with members gets NON_EMPTY_GROUP, an unknown one GROUP_ID_NOT_FOUND.
- A group that is named twice is answered once.
Versions: 0 to 2, all alike.
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
    """Call the group coordinator."""
    return ask(groups.delete_groups, request)


def error_response(request: DeleteGroupsRequest, version: int, code: ErrorCode) -> DeleteGroupsResponse:
    """Return the error once for each group."""
    results = [DeletableGroupResult(group_id=name, error_code=code) for name in dict.fromkeys(request.groups_names)]
    return DeleteGroupsResponse(results=results)
