"""ConsumerGroupDescribe: state, members and assignments of groups of the consumer protocol (KIP-848).

0   the first form
1   the type of a member, in a group that moves from one protocol to the other
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.messages.metadata import OPERATIONS_OMITTED
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Bool, Int8, Int16, Int32, String, Uuid


class ConsumerGroupDescribeRequest(Request, api_key=ApiKey.CONSUMER_GROUP_DESCRIBE, versions="0-1", flexible="0+"):
    """Describe groups of the consumer protocol."""

    group_ids: Sequence[String]
    include_authorized_operations: Bool = False


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    topic_name: String
    partitions: Sequence[Int32]


class Assignment(Struct):
    """The partitions of a member, now or in the target."""

    topic_partitions: Sequence[TopicPartitions]


class Member(Struct):
    """One member; `member_type` is 0 for the classic protocol, 1 for the consumer protocol and -1 if unknown."""

    member_id: String
    instance_id: Annotated[String | None, V(nullable="0+")] = None
    rack_id: Annotated[String | None, V(nullable="0+")] = None
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: Sequence[String]
    subscribed_topic_regex: Annotated[String | None, V(nullable="0+")] = None
    assignment: Assignment
    target_assignment: Assignment
    member_type: Annotated[Int8, V("1+")] = -1


class DescribedGroup(Struct):
    """One group; a group of another protocol is GROUP_ID_NOT_FOUND."""

    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")] = None
    group_id: String
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    assignor_name: String
    members: Sequence[Member]
    authorized_operations: Int32 = OPERATIONS_OMITTED


class ConsumerGroupDescribeResponse(Response, api_key=ApiKey.CONSUMER_GROUP_DESCRIBE, versions="0-1", flexible="0+"):
    """The groups."""

    throttle_time_ms: Int32
    groups: Sequence[DescribedGroup]
