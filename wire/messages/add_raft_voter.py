"""AddRaftVoter: let a controller of a KRaft cluster vote.

0   the first form
1   whether the answer waits until the new voters are committed
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Bool, Int16, Int32, String, UInt16, Uuid


class Listener(Struct):
    """An address of the controller."""

    name: String
    host: String
    port: UInt16


class AddRaftVoterRequest(Request, api_key=ApiKey.ADD_RAFT_VOTER, versions="0-1", flexible="0+"):
    """Add a voter."""

    cluster_id: Annotated[String | None, V(nullable="0+")]
    timeout_ms: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: Sequence[Listener]
    ack_when_committed: Annotated[Bool, V("1+")] = True


class AddRaftVoterResponse(Response, api_key=ApiKey.ADD_RAFT_VOTER, versions="0-1", flexible="0+"):
    """Whether the controller votes."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")]
