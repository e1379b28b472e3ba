"""ShareGroupDescribe: state and members of share groups.

0   an early form, which Kafka 3.9 knows and Kafka 4.1 no more
1   the first stable form
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.messages.metadata import OPERATIONS_OMITTED
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Bool, Int16, Int32, String, Uuid


class ShareGroupDescribeRequest(Request, api_key=ApiKey.SHARE_GROUP_DESCRIBE, versions="0-1", flexible="0+"):
    """Describe share groups."""

    group_ids: Sequence[String]
    include_authorized_operations: Bool = False


class TopicPartitions(Struct):
    """Partitions of a topic."""

    topic_id: Uuid
    topic_name: String
    partitions: Sequence[Int32]


class Assignment(Struct):
    """The partitions of a member; other members may fetch from the same ones."""

    topic_partitions: Sequence[TopicPartitions]


class Member(Struct):
    """A member of a share group."""

    member_id: String
    rack_id: Annotated[String | None, V(nullable="0+")] = None
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: Sequence[String]
    assignment: Assignment


class DescribedGroup(Struct):
    """One group."""

    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")] = None
    group_id: String
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    assignor_name: String
    members: Sequence[Member]
    authorized_operations: Int32 = OPERATIONS_OMITTED


class ShareGroupDescribeResponse(Response, api_key=ApiKey.SHARE_GROUP_DESCRIBE, versions="0-1", flexible="0+"):
    """The groups."""

    throttle_time_ms: Int32 = 0
    groups: Sequence[DescribedGroup]
