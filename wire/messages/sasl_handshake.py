"""SaslHandshake: agree on a SASL mechanism.

0   the SASL exchange follows as bare, size-prefixed tokens
1   the SASL exchange follows as SaslAuthenticate
"""

from collections.abc import Sequence

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response
from ottla.wire.types import Int16, String


class SaslHandshakeRequest(Request, api_key=ApiKey.SASL_HANDSHAKE, versions="0-1"):
    """Authenticate by this mechanism."""

    mechanism: String


class SaslHandshakeResponse(Response, api_key=ApiKey.SASL_HANDSHAKE, versions="0-1"):
    """Whether the mechanism is enabled, and which are."""

    error_code: Int16
    mechanisms: Sequence[String]
