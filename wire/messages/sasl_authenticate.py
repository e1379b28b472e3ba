"""SaslAuthenticate: one step of a SASL exchange.

0   the first form
1   how long the session lives before the client has to authenticate again
2   flexible
"""

from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, V
from ottla.wire.types import Bytes, Int16, Int64, String


class SaslAuthenticateRequest(Request, api_key=ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+"):
    """The client's token."""

    auth_bytes: Bytes


class SaslAuthenticateResponse(Response, api_key=ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+"):
    """The broker's token; a session lifetime of 0 has no end."""

    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")]
    auth_bytes: Bytes
    session_lifetime_ms: Annotated[Int64, V("1+")] = 0
