"""RenewDelegationToken: put off the expiry of a delegation token.

0   the first form
1   the client waits out the throttle time itself
2   flexible
"""

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response
from ottla.wire.types import Bytes, Int16, Int32, Int64


class RenewDelegationTokenRequest(Request, api_key=ApiKey.RENEW_DELEGATION_TOKEN, versions="0-2", flexible="2+"):
    """Renew the token with this HMAC; a negative period is the broker's default."""

    hmac: Bytes
    renew_period_ms: Int64


class RenewDelegationTokenResponse(Response, api_key=ApiKey.RENEW_DELEGATION_TOKEN, versions="0-2", flexible="2+"):
    """When the token expires now."""

    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = 0
