"""`ottla tokens`: list, create, renew and expire delegation tokens.

The HMAC of a token is its password: only `create` prints it. Counterpart in Kafka: kafka-delegation-tokens.sh.
"""

import base64
import binascii
from collections.abc import Sequence
from typing import Any, Final

import click

from ottla.client.admin.tokens import (
    DEFAULT,
    Principal,
    Token,
    create_token,
    describe_tokens,
    expire_token,
    renew_token,
)
from ottla.client.cluster import Client
from ottla.scripts.terminal.durations import duration_ms
from ottla.scripts.terminal.options import DRY_RUN, YES, asks_cluster
from ottla.scripts.terminal.principals import read_principal
from ottla.scripts.terminal.secrets import takes_secret
from ottla.scripts.terminal.session import Session
from ottla.wire.errors import ErrorCode, KafkaError

_COLUMNS: Final = (
    "token_id", "owner", "requester", "renewers", "issue_timestamp", "expiry_timestamp", "max_timestamp",
)  # fmt: skip
_HMAC: Final = takes_secret("hmac", "the HMAC of the token")


@click.group()
def tokens() -> None:
    """List, create, renew and expire delegation tokens."""


@tokens.command("list")
@click.option(
    "--owner", "owners", multiple=True, type=read_principal, metavar="TYPE:NAME", help="Only tokens of this principal."
)
@asks_cluster
def list_command(session: Session, owners: Sequence[str]) -> None:
    """List the tokens that you may see: your own, those that you may renew, and those that ACLs let you describe."""
    session.run(_list, [_principal(each) for each in owners] or None)


async def _list(client: Client, session: Session, owners: Sequence[Principal] | None) -> None:
    session.out.begin(*_COLUMNS)
    for token in sorted(await describe_tokens(client, owners), key=lambda it: (it.owner, it.issue_timestamp)):
        session.out.row(**_as_row(token))


def _as_row(token: Token) -> dict[str, Any]:
    return {
        "token_id": token.token_id,
        "owner": str(token.owner),
        "requester": str(token.requester) if token.requester.type else None,
        "renewers": list(map(str, token.renewers)),
        "issue_timestamp": token.issue_timestamp,
        "expiry_timestamp": token.expiry_timestamp,
        "max_timestamp": token.max_timestamp,
    }


@tokens.command()
@click.option(
    "--owner", type=read_principal, metavar="TYPE:NAME", help="Create it for this principal. The default is you."
)
@click.option(
    "--renewer",
    "renewers",
    multiple=True,
    type=read_principal,
    metavar="TYPE:NAME",
    help="Allow this principal to renew it. The owner always may.",
)
@click.option(
    "--lifetime",
    type=duration_ms,
    default=DEFAULT,
    metavar="DURATION",
    help="The time for which it can be renewed, such as 7d. The default is the broker's.",
)
@asks_cluster
def create(session: Session, owner: str | None, renewers: Sequence[str], lifetime: int) -> None:
    """Create a token, and print it with its HMAC.

    No other command prints the HMAC. A client uses it with a SCRAM mechanism: the token's id is the user, the HMAC is
    the password, and the login module has tokenauth=true.
    """
    principal = None if owner is None else _principal(owner)
    session.run(_create, principal, [_principal(each) for each in renewers], lifetime)


async def _create(
    client: Client, session: Session, owner: Principal | None, renewers: Sequence[Principal], lifetime_ms: int
) -> None:
    token = await create_token(client, owner=owner, renewers=renewers, max_lifetime_ms=lifetime_ms)
    session.out.begin(_COLUMNS[0], "hmac", *_COLUMNS[1:])
    session.out.row(**_as_row(token), hmac=base64.b64encode(token.hmac).decode())


@tokens.command()
@click.option(
    "--for",
    "period",
    type=duration_ms,
    default=DEFAULT,
    metavar="DURATION",
    help="Expire it after this time, such as 24h. The default is the broker's.",
)
@_HMAC
@asks_cluster
def renew(session: Session, period: int, hmac: str) -> None:
    """Renew a token, by its HMAC."""
    session.run(_renew, _bytes(hmac), period)


async def _renew(client: Client, session: Session, hmac: bytes, period_ms: int) -> None:
    expiry = await renew_token(client, hmac, period_ms)
    session.out.begin("expiry_timestamp")
    session.out.row(expiry_timestamp=expiry)


@tokens.command()
@click.option(
    "--in",
    "period",
    type=duration_ms,
    default=DEFAULT,
    metavar="DURATION",
    help="Expire it after this time, such as 1h. The default is now.",
)
@_HMAC
@DRY_RUN
@YES
@asks_cluster
def expire(session: Session, period: int, is_dry_run: bool, yes: bool, hmac: str) -> None:
    """Expire a token, by its HMAC: nobody can authenticate with it any more.

    A dry run prints the token's current expiry.
    """
    session.run(_expire, _bytes(hmac), period, is_dry_run, yes)


async def _expire(client: Client, session: Session, hmac: bytes, period_ms: int, is_dry_run: bool, yes: bool) -> None:
    if session.dry_run(is_dry_run):
        expiry = await _expiry(client, hmac)
    else:
        session.confirm("Expire the token for all its users?", yes=yes)
        expiry = await expire_token(client, hmac, period_ms)
    session.out.begin("expiry_timestamp")
    session.out.row(expiry_timestamp=expiry)


async def _expiry(client: Client, hmac: bytes) -> int:
    """Return the current expiry of a token. KafkaError if you may not see such a token."""
    for each in await describe_tokens(client):
        if each.hmac == hmac:
            return each.expiry_timestamp
    raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)


def _principal(text: str) -> Principal:
    kind, _, name = text.partition(":")
    return Principal(kind, name)


def _bytes(hmac: str) -> bytes:
    try:
        return base64.b64decode(hmac.strip(), validate=True)
    except binascii.Error:
        raise click.UsageError("the HMAC must be in base64, as `ottla tokens create` prints it") from None
