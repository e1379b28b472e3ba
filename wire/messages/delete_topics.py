"""DeleteTopics: delete topics with all their records.

0   the first form
1   throttle time
2   the client waits out the throttle time itself
3   may answer TOPIC_DELETION_DISABLED
4   flexible
5   error message; may answer THROTTLING_QUOTA_EXCEEDED
6   topics by name or by id
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import ZERO_UUID, Int16, Int32, String, Uuid


class DeleteTopicState(Struct):
    """A topic to delete, by name or by id."""

    name: Annotated[String | None, V(nullable="0+")] = None
    topic_id: Uuid = ZERO_UUID


class DeleteTopicsRequest(Request, api_key=ApiKey.DELETE_TOPICS, versions="0-6", flexible="4+"):
    """Delete topics."""

    topics: Annotated[Sequence[DeleteTopicState], V("6+")] = ()
    topic_names: Annotated[Sequence[String], V("0-5")] = ()
    timeout_ms: Int32


class DeletableTopicResult(Struct):
    """The result for one topic."""

    name: Annotated[String | None, V(nullable="6+")]
    topic_id: Annotated[Uuid, V("6+")] = ZERO_UUID
    error_code: Int16
    error_message: Annotated[String | None, V("5+", nullable="5+")] = None


class DeleteTopicsResponse(Response, api_key=ApiKey.DELETE_TOPICS, versions="0-6", flexible="4+"):
    """The results for the topics."""

    throttle_time_ms: Annotated[Int32, V("1+")] = 0
    responses: Sequence[DeletableTopicResult]
