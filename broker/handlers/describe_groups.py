"""DescribeGroups: the state and the members of consumer groups.

Behaviour:
- An unknown group is a Dead one without an error.
- The protocol, and the metadata and assignments of members, are in the response only while the group is Stable.
Versions: 0 to 5. From 3 authorized operations, if the client asks for them; from 4 group instance ids.
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
    """Call the group coordinator, and add the authorized operations."""
    response = groups.describe_groups(request)
    if request.include_authorized_operations:
        for group in response.groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = access.operations(context, ResourceType.GROUP, group.group_id)
    return response


def error_response(request: DescribeGroupsRequest, version: int, code: ErrorCode) -> DescribeGroupsResponse:
    """Return the error for each group."""
    return DescribeGroupsResponse(
        groups=[
            DescribedGroup(
                error_code=code, group_id=group_id, group_state="", protocol_type="", protocol_data="", members=()
            )
            for group_id in request.groups
        ]
    )
