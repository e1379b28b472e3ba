"""CreatePartitions: add partitions to topics.

0   the first form
1   the client waits out the throttle time itself
2   flexible
3   may answer THROTTLING_QUOTA_EXCEEDED
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Bool, Int16, Int32, String


class CreatePartitionsAssignment(Struct):
    """The brokers that are to hold one new partition."""

    broker_ids: Sequence[Int32]


class CreatePartitionsTopic(Struct):
    """A topic and how many partitions it is to have; null `assignments` leave the brokers to the controller."""

    name: String
    count: Int32
    assignments: Annotated[Sequence[CreatePartitionsAssignment] | None, V(nullable="0+")]


class CreatePartitionsRequest(Request, api_key=ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+"):
    """Add partitions, or only say whether they could be added."""

    topics: Sequence[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: Bool


class CreatePartitionsTopicResult(Struct):
    """The result for one topic."""

    name: String
    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")] = None


class CreatePartitionsResponse(Response, api_key=ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+"):
    """The results for the topics."""

    throttle_time_ms: Int32 = 0
    results: Sequence[CreatePartitionsTopicResult]
