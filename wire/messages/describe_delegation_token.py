"""DescribeDelegationToken: the delegation tokens of some or all owners.

0   the first form
1   the client waits out the throttle time itself
2   flexible
3   the requester of a token
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Bytes, Int16, Int32, Int64, String


class DescribeDelegationTokenOwner(Struct):
    """A principal whose tokens to describe."""

    principal_type: String
    principal_name: String


class DescribeDelegationTokenRequest(Request, api_key=ApiKey.DESCRIBE_DELEGATION_TOKEN, versions="0-3", flexible="2+"):
    """Describe tokens; `owners` null: the tokens of all owners."""

    owners: Annotated[Sequence[DescribeDelegationTokenOwner] | None, V(nullable="0+")]


class DescribedDelegationTokenRenewer(Struct):
    """A principal that may renew the token."""

    principal_type: String
    principal_name: String


class DescribedDelegationToken(Struct):
    """A token; `max_timestamp` is as far as it can be renewed."""

    principal_type: String
    principal_name: String
    token_requester_principal_type: Annotated[String, V("3+")] = ""
    token_requester_principal_name: Annotated[String, V("3+")] = ""
    issue_timestamp: Int64
    expiry_timestamp: Int64
    max_timestamp: Int64
    token_id: String
    hmac: Bytes
    renewers: Sequence[DescribedDelegationTokenRenewer]


class DescribeDelegationTokenResponse(
    Response, api_key=ApiKey.DESCRIBE_DELEGATION_TOKEN, versions="0-3", flexible="2+"
):
    """The tokens that the asker may see."""

    error_code: Int16
    tokens: Sequence[DescribedDelegationToken]
    throttle_time_ms: Int32 = 0
