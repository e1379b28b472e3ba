"""DescribeGroups: state and members of classic groups.

0   the first form
1   throttle time
2   the client waits out the throttle time itself
3   authorized operations
4   group instance ids, of static members
5   flexible
6   error message; a group that is not there is GROUP_ID_NOT_FOUND, no longer a dead one
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.messages.metadata import OPERATIONS_OMITTED
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Bool, Bytes, Int16, Int32, String


class DescribeGroupsRequest(Request, api_key=ApiKey.DESCRIBE_GROUPS, versions="0-6", flexible="5+"):
    """Describe groups."""

    groups: Sequence[String]
    include_authorized_operations: Annotated[Bool, V("3+")] = False


class DescribedGroupMember(Struct):
    """A member; metadata and assignment are the protocol's own bytes, and empty unless the group is stable."""

    member_id: String
    group_instance_id: Annotated[String | None, V("4+", nullable="4+")] = None
    client_id: String
    client_host: String
    member_metadata: Bytes
    member_assignment: Bytes


class DescribedGroup(Struct):
    """One group; `protocol_data` is the chosen protocol's name while the group is stable, else empty."""

    error_code: Int16
    error_message: Annotated[String | None, V("6+", nullable="6+")] = None
    group_id: String
    group_state: String
    protocol_type: String
    protocol_data: String
    members: Sequence[DescribedGroupMember]
    authorized_operations: Annotated[Int32, V("3+")] = OPERATIONS_OMITTED


class DescribeGroupsResponse(Response, api_key=ApiKey.DESCRIBE_GROUPS, versions="0-6", flexible="5+"):
    """The groups."""

    throttle_time_ms: Annotated[Int32, V("1+")] = 0
    groups: Sequence[DescribedGroup]
