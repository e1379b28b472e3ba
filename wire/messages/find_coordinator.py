"""FindCoordinator: the broker that coordinates a group or a transactional id.

0   a group
1   key type (0 group, 1 transaction); throttle time and error message
2   the client waits out the throttle time itself
3   flexible
4   many keys at once
5   may answer TRANSACTION_ABORTABLE
6   key type 2: a share group's partition
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Int8, Int16, Int32, String


class FindCoordinatorRequest(Request, api_key=ApiKey.FIND_COORDINATOR, versions="0-6", flexible="3+"):
    """Find coordinators."""

    key: Annotated[String, V("0-3")] = ""
    key_type: Annotated[Int8, V("1+")] = 0
    coordinator_keys: Annotated[Sequence[String], V("4+")] = ()


class Coordinator(Struct):
    """The coordinator of one key."""

    key: String
    node_id: Int32
    host: String
    port: Int32
    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")]


class FindCoordinatorResponse(Response, api_key=ApiKey.FIND_COORDINATOR, versions="0-6", flexible="3+"):
    """The coordinators found."""

    throttle_time_ms: Annotated[Int32, V("1+")] = 0
    error_code: Annotated[Int16, V("0-3")] = 0
    error_message: Annotated[String | None, V("1-3", nullable="1-3")] = ""
    node_id: Annotated[Int32, V("0-3")] = 0
    host: Annotated[String, V("0-3")] = ""
    port: Annotated[Int32, V("0-3")] = 0
    coordinators: Annotated[Sequence[Coordinator], V("4+")] = ()
