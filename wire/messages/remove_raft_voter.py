"""RemoveRaftVoter: let a controller of a KRaft cluster vote no more.

0   the first form
"""

from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, V
from ottla.wire.types import Int16, Int32, String, Uuid


class RemoveRaftVoterRequest(Request, api_key=ApiKey.REMOVE_RAFT_VOTER, versions="0", flexible="0+"):
    """Remove a voter."""

    cluster_id: Annotated[String | None, V(nullable="0+")]
    voter_id: Int32
    voter_directory_id: Uuid


class RemoveRaftVoterResponse(Response, api_key=ApiKey.REMOVE_RAFT_VOTER, versions="0", flexible="0+"):
    """Whether the controller votes no more."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")]
