"""The headers that stand before every request and response.

Request header:

0   only before ControlledShutdown version 0
1   client id
2   flexible, before requests of flexible versions; the client id keeps its old form, so that a broker can read the
    header of an ApiVersions request that is newer than itself

Response header:

0   the first form; before ApiVersions at any version, for a client that does not know the broker's versions yet
1   flexible, before responses of flexible versions
"""

from typing import Annotated

from ottla.wire.schema import Message, V
from ottla.wire.types import Int16, Int32, String


class RequestHeader(Message, versions="0-2", flexible="2+"):
    """API, version, correlation id and client id of a request."""

    request_api_key: Int16
    request_api_version: Int16
    correlation_id: Int32
    client_id: Annotated[String | None, V("1+", nullable="1+", flexible="none")] = ""


class ResponseHeader(Message, versions="0-1", flexible="1+"):
    """Which request is answered."""

    correlation_id: Int32
