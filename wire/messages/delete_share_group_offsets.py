"""DeleteShareGroupOffsets: make a share group without members forget topics.

0   the first form
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Int16, Int32, String, Uuid


class DeleteShareGroupOffsetsRequestTopic(Struct):
    """A topic to forget."""

    topic_name: String


class DeleteShareGroupOffsetsRequest(Request, api_key=ApiKey.DELETE_SHARE_GROUP_OFFSETS, versions="0", flexible="0+"):
    """Delete offsets of a share group."""

    group_id: String
    topics: Sequence[DeleteShareGroupOffsetsRequestTopic]


class DeleteShareGroupOffsetsResponseTopic(Struct):
    """The result for one topic."""

    topic_name: String
    topic_id: Uuid
    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")] = None


class DeleteShareGroupOffsetsResponse(Response, api_key=ApiKey.DELETE_SHARE_GROUP_OFFSETS, versions="0", flexible="0+"):
    """The results for the topics; an error of the group holds for all of them."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")] = None
    responses: Sequence[DeleteShareGroupOffsetsResponseTopic]
