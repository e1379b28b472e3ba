"""Delegation tokens: credentials that a principal creates for others, and that expire.

A token's HMAC is its password. Requests for tokens need a connection that authenticated without a token.
Counterparts in Kafka: DelegationToken, TokenInformation.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.client.cluster import ANY, Client, check
from ottla.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

DEFAULT: Final = -1
"""As a lifetime or renewal: the broker's default. As an expiry period: at once."""
_OWNERS_FROM: Final = 3
"""The first version of CreateDelegationToken with an owner."""


class Principal(NamedTuple):
    """A principal, such as User:alice."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


class Token(NamedTuple):
    """A token. Timestamps are in milliseconds; it can be renewed up to `max_timestamp`."""

    token_id: str
    hmac: bytes
    owner: Principal
    requester: Principal
    """The creator; empty if the broker is too old to return it."""
    renewers: Sequence[Principal]
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int


async def describe_tokens(client: Client, owners: Sequence[Principal] | None = None) -> list[Token]:
    """Return the tokens that the client may see, of some owners or of all."""
    request = DescribeDelegationTokenRequest(
        owners=None
        if owners is None
        else [DescribeDelegationTokenOwner(principal_type=each.type, principal_name=each.name) for each in owners]
    )
    response = await client.ask(request, ANY, DescribeDelegationTokenResponse)
    check(response.error_code)
    return [
        Token(
            each.token_id,
            bytes(each.hmac),
            Principal(each.principal_type, each.principal_name),
            Principal(each.token_requester_principal_type, each.token_requester_principal_name),
            [Principal(renewer.principal_type, renewer.principal_name) for renewer in each.renewers],
            each.issue_timestamp,
            each.expiry_timestamp,
            each.max_timestamp,
        )
        for each in response.tokens
    ]


async def create_token(
    client: Client,
    *,
    owner: Principal | None = None,
    renewers: Sequence[Principal] = (),
    max_lifetime_ms: int = DEFAULT,
) -> Token:
    """Create a token for the client's principal, or for another owner, and return it with its HMAC."""
    request = CreateDelegationTokenRequest(
        owner_principal_type=owner.type if owner else "",
        owner_principal_name=owner.name if owner else "",
        renewers=[CreatableRenewers(principal_type=each.type, principal_name=each.name) for each in renewers],
        max_lifetime_ms=max_lifetime_ms,
    )
    response = await client.ask(request, ANY, CreateDelegationTokenResponse, lowest=_OWNERS_FROM if owner else 0)
    check(response.error_code)
    return Token(
        response.token_id,
        bytes(response.hmac),
        Principal(response.principal_type, response.principal_name),
        Principal(response.token_requester_principal_type, response.token_requester_principal_name),
        list(renewers),
        response.issue_timestamp_ms,
        response.expiry_timestamp_ms,
        response.max_timestamp_ms,
    )


async def renew_token(client: Client, hmac: bytes, period_ms: int = DEFAULT) -> int:
    """Renew a token, and return its new expiry time in milliseconds."""
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    response = await client.ask(request, ANY, RenewDelegationTokenResponse)
    check(response.error_code)
    return response.expiry_timestamp_ms


async def expire_token(client: Client, hmac: bytes, period_ms: int = DEFAULT) -> int:
    """Set a token to expire after a period, or at once, and return its expiry time in milliseconds."""
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    response = await client.ask(request, ANY, ExpireDelegationTokenResponse)
    check(response.error_code)
    return response.expiry_timestamp_ms
