"""ListGroups: the consumer groups that this broker coordinates.

Behaviour:
- A client that may not describe the cluster gets only the groups that it may describe.
- While groups are loaded, the response has COORDINATOR_LOAD_IN_PROGRESS and the groups that are known.
Versions: 0 to 5. From 4 states, and a filter for them; from 5 types, and a filter for them: all groups are classic.
Counterpart in Kafka: KafkaApis.handleListGroupsRequest.
"""

from ottla.broker.net.session import RequestContext
from ottla.broker.requests.authorizer import EVERYBODY, Access, Operation, ResourceType
from ottla.coordinator.group_coordinator import GroupCoordinator
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


def handle(
    request: ListGroupsRequest, context: RequestContext, *, groups: GroupCoordinator, access: Access = EVERYBODY
) -> ListGroupsResponse:
    """Call the group coordinator, and leave out groups that the client may not describe."""
    response = groups.list_groups(request)
    if not access.allows(context, Operation.DESCRIBE, ResourceType.CLUSTER, log_denial=False):
        names = [group.group_id for group in response.groups]
        shown = access.allowed(context, Operation.DESCRIBE, ResourceType.GROUP, names, log_denial=False)
        response.groups = [group for group in response.groups if group.group_id in shown]
    return response


def error_response(request: ListGroupsRequest, version: int, code: ErrorCode) -> ListGroupsResponse:
    """Return the error without groups."""
    return ListGroupsResponse(error_code=code, groups=())
