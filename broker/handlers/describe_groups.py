"""DescribeGroups, versions 0 to 5: state and members of groups, and what may be done to them.

Counterpart in Kafka: KafkaApis.handleDescribeGroupsRequest.
"""

from ottla.broker.net.session import RequestContext
from ottla.broker.requests.authorizer import EVERYBODY, Access, ResourceType
from ottla.coordinator.group_coordinator import GroupCoordinator
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse


def handle(
    request: DescribeGroupsRequest, context: RequestContext, *, groups: GroupCoordinator, access: Access = EVERYBODY
) -> DescribeGroupsResponse:
    """Describe groups."""
    response = groups.describe_groups(request)
    if request.include_authorized_operations:
        for group in response.groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = access.operations(context, ResourceType.GROUP, group.group_id)
    return response


def error_response(request: DescribeGroupsRequest, version: int, code: ErrorCode) -> DescribeGroupsResponse:
    """Every group with one error."""
    return DescribeGroupsResponse(
        groups=[
            DescribedGroup(
                error_code=code, group_id=group_id, group_state="", protocol_type="", protocol_data="", members=()
            )
            for group_id in request.groups
        ]
    )
