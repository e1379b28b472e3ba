"""CreateDelegationToken: a token by which others can authenticate in a principal's name.

0   the first form
1   the client waits out the throttle time itself
2   flexible
3   a token for another principal; the requester
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Bytes, Int16, Int32, Int64, String


class CreatableRenewers(Struct):
    """A principal that may renew the token."""

    principal_type: String
    principal_name: String


class CreateDelegationTokenRequest(Request, api_key=ApiKey.CREATE_DELEGATION_TOKEN, versions="0-3", flexible="2+"):
    """Create a token, for the asker if no owner is given; a lifetime of -1 is the broker's default."""

    owner_principal_type: Annotated[String | None, V("3+", nullable="3+")] = ""
    owner_principal_name: Annotated[String | None, V("3+", nullable="3+")] = ""
    renewers: Sequence[CreatableRenewers]
    max_lifetime_ms: Int64


class CreateDelegationTokenResponse(Response, api_key=ApiKey.CREATE_DELEGATION_TOKEN, versions="0-3", flexible="2+"):
    """The token. Its bearer authenticates with id and HMAC."""

    error_code: Int16
    principal_type: String
    principal_name: String
    token_requester_principal_type: Annotated[String, V("3+")] = ""
    token_requester_principal_name: Annotated[String, V("3+")] = ""
    issue_timestamp_ms: Int64
    expiry_timestamp_ms: Int64
    max_timestamp_ms: Int64
    token_id: String
    hmac: Bytes
    throttle_time_ms: Int32 = 0
