"""Envelope: a broker forwards a client's request to the controller.

0   the first form
"""

from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, V
from ottla.wire.types import Bytes, Int16


class EnvelopeRequest(Request, api_key=ApiKey.ENVELOPE, versions="0", flexible="0+"):
    """A request with its header, its principal and its client's address (4 or 16 bytes)."""

    request_data: Bytes
    request_principal: Annotated[Bytes | None, V(nullable="0+")]
    client_host_address: Bytes


class EnvelopeResponse(Response, api_key=ApiKey.ENVELOPE, versions="0", flexible="0+"):
    """The response with its header, or an error of the envelope itself."""

    response_data: Annotated[Bytes | None, V(nullable="0+")] = None
    error_code: Int16
