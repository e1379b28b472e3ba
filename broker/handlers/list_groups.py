"""ListGroups, versions 0 to 5: the groups that this broker coordinates, by state and type if so asked.

Who may not describe the cluster is told of those groups alone that it may describe.
Counterpart in Kafka: KafkaApis.handleListGroupsRequest.
"""

from ottla.broker.groups.group_requests import ask
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.broker.requests.authorizer import EVERYBODY, Access, Operation, ResourceType
from ottla.coordinator.runtime import GroupCoordinator
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


def handle(
    request: ListGroupsRequest, context: RequestContext, *, groups: GroupCoordinator, access: Access = EVERYBODY
) -> Deferred[ListGroupsResponse]:
    """List groups."""
    reply: Deferred[ListGroupsResponse] = ask(groups.list_groups, request, context)
    if access.allows(context, Operation.DESCRIBE, ResourceType.CLUSTER, log_denial=False):
        return reply

    def visible(response: ListGroupsResponse) -> ListGroupsResponse:
        names = [group.group_id for group in response.groups]
        shown = access.allowed(context, Operation.DESCRIBE, ResourceType.GROUP, names, log_denial=False)
        response.groups = [group for group in response.groups if group.group_id in shown]
        return response

    return reply.map(visible)


def error_response(request: ListGroupsRequest, version: int, code: ErrorCode) -> ListGroupsResponse:
    """No group is told of."""
    return ListGroupsResponse(error_code=code, groups=())
