"""kafka-delegation-tokens: create, renew, expire or describe delegation tokens.

Counterpart: org.apache.kafka.tools.DelegationTokenCommand.
"""

import base64
import re
import time
from collections.abc import Sequence
from typing import Final

from ottla.client.admin.tokens import Principal, Token, create_token, describe_tokens, expire_token, renew_token
from ottla.client.cluster import Client
from ottla.scripts.kafka.calls import client_config, reached
from ottla.scripts.kafka.face import Face, JavaError, illegal_argument
from ottla.scripts.kafka.flags import (
    HELP,
    VERSION,
    Flag,
    Parsed,
    check_invalid,
    check_required,
    flag,
    maybe_print_help_or_version,
    parse,
    print_usage_and_exit,
)
from ottla.scripts.kafka.java.numbers import LONG


def _period(name: str, help: str) -> Flag:
    return flag(name, argument="Long", help=help, type=LONG.convert, is_optional_argument=True)


def _text(name: str, help: str) -> Flag:
    return flag(name, argument="String", help=help, is_optional_argument=True)


_FLAGS: Final[Sequence[Flag]] = (
    HELP,
    VERSION,
    flag("bootstrap-server", argument="String", help="The brokers to ask (required)."),
    flag("command-config", argument="String", help="A file of client properties (required)."),
    flag("create", help="Create a token."),
    flag("renew", help="Put off the expiry of a token."),
    flag("expire", help="Let a token expire."),
    flag("describe", help="Describe tokens."),
    _text("owner-principal", "Whose tokens are meant, such as User:alice."),
    _text("renewer-principal", "Who may renew the new token, such as User:alice; may be repeated."),
    _period("max-life-time-period", "Milliseconds for which the token can be renewed; -1: the broker's default."),
    _period("renew-time-period", "Milliseconds until the token expires; -1: the broker's default."),
    _period("expiry-time-period", "Milliseconds until the token expires; -1: at once."),
    _text("hmac", "The HMAC of the token."),
)
_ABOUT: Final = "This tool helps to create, renew, expire, or describe delegation tokens."
_ACTIONS: Final = ("create", "renew", "expire", "describe")
_REQUIRED: Final = {
    "create": ("max-life-time-period",),
    "renew": ("hmac", "renew-time-period"),
    "expire": ("hmac", "expiry-time-period"),
}
_INVALID: Final = {
    "create": ("hmac", "renew-time-period", "expiry-time-period"),
    "renew": ("renewer-principal", "max-life-time-period", "expiry-time-period", "owner-principal"),
    "expire": ("renew", "max-life-time-period", "renew-time-period", "owner-principal"),
    "describe": ("renew-time-period", "max-life-time-period", "hmac", "expiry-time-period"),
}
_ROW: Final = "\n{:<15} {:<30} {:<15} {:<15} {:<25} {:<15} {:<15} {:<15}"
_HEADINGS: Final = ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")
_NO_BASE64: Final = re.compile(r"[^A-Za-z0-9+/=]")


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    try:
        parsed = _parsed(arguments, face)
        action = next(each for each in _ACTIONS if parsed.has(each))
        call, work = _WORK[action]
        config = client_config(face, parsed.value("bootstrap-server"), parsed.value("command-config"))
        reached(face, config, call, work, parsed, face)
    except JavaError as error:
        face.complain(str(error.message))
        face.complain_trace(error)
        return 1
    return 0


def _parsed(arguments: Sequence[str], face: Face) -> Parsed:
    parsed = parse(_FLAGS, arguments)
    maybe_print_help_or_version(face, _FLAGS, parsed, arguments, _ABOUT)
    if sum(map(parsed.has, _ACTIONS)) != 1:
        actions = "--create, --renew, --expire or --describe"
        raise print_usage_and_exit(face, _FLAGS, f"Command must include exactly one action: {actions}")
    check_required(face, _FLAGS, parsed, "bootstrap-server", "command-config")
    for action, names in _REQUIRED.items():
        if parsed.has(action):
            check_required(face, _FLAGS, parsed, *names)
    for action, names in _INVALID.items():
        check_invalid(face, _FLAGS, parsed, action, names)
    return parsed


def _principals(parsed: Parsed, name: str) -> list[Principal]:
    found = []
    for text in parsed.values(name):
        kind, colon, rest = text.strip().partition(":")
        if not colon:
            raise illegal_argument(f"expected a string in format principalType:principalName but got {text.strip()}")
        found.append(Principal(kind, rest))
    return found


def _number(parsed: Parsed, name: str) -> int:
    found: int | None = parsed.value(name)
    if found is None:
        raise JavaError(
            "java.lang.NullPointerException",
            'Cannot invoke "java.lang.Long.longValue()" because the return value of '
            '"joptsimple.OptionSet.valueOf(joptsimple.OptionSpec)" is null',
        )
    return found


def _listed(principals: Sequence[Principal]) -> str:
    return f"[{', '.join(map(str, principals))}]"


async def _create(client: Client, parsed: Parsed, face: Face) -> None:
    renewers = _principals(parsed, "renewer-principal")
    lifetime_ms = _number(parsed, "max-life-time-period")
    face.print(
        f"Calling create token operation with renewers :{_listed(renewers)} , max-life-time-period :{lifetime_ms}"
    )
    owners = _principals(parsed, "owner-principal")
    owner = owners[0] if owners else None
    token = await create_token(client, owner=owner, renewers=renewers, max_lifetime_ms=lifetime_ms)
    face.print(f"Created delegation token with tokenId : {token.token_id}")
    _print_tokens([token], face)


async def _renew(client: Client, parsed: Parsed, face: Face) -> None:
    hmac, period_ms = parsed.value("hmac"), _number(parsed, "renew-time-period")
    face.print(f"Calling renew token operation with hmac :{hmac} , renew-time-period :{period_ms}")
    expiry = await renew_token(client, _decoded(hmac), period_ms)
    face.print(f"Completed renew operation. New expiry date : {_date(expiry)}", end="")


async def _expire(client: Client, parsed: Parsed, face: Face) -> None:
    hmac, period_ms = parsed.value("hmac"), _number(parsed, "expiry-time-period")
    face.print(f"Calling expire token operation with hmac :{hmac} , expire-time-period :{period_ms}")
    expiry = await expire_token(client, _decoded(hmac), period_ms)
    face.print(f"Completed expire operation. New expiry date : {_date(expiry)}", end="")


async def _describe(client: Client, parsed: Parsed, face: Face) -> None:
    owners = _principals(parsed, "owner-principal")
    if owners:
        face.print(f"Calling describe token operation for owners: {_listed(owners)}")
    else:
        face.print("Calling describe token operation for current user.")
    tokens = await describe_tokens(client, owners)
    face.print(f"Total number of tokens : {len(tokens)}", end="")
    _print_tokens(tokens, face)


def _print_tokens(tokens: Sequence[Token], face: Face) -> None:
    face.print(_ROW.format(*_HEADINGS))
    for each in tokens:
        times = (each.issue_timestamp, each.expiry_timestamp, each.max_timestamp)
        face.print(
            _ROW.format(
                each.token_id,
                base64.b64encode(each.hmac).decode(),
                str(each.owner),
                str(each.requester),
                _listed(each.renewers),
                *map(_date, times),
            )
        )


def _date(milliseconds: int) -> str:
    """Return a time in this machine's zone, to the minute."""
    return time.strftime("%Y-%m-%dT%H:%M", time.localtime(milliseconds // 1000))


def _decoded(text: str) -> bytes:
    """Return the bytes of base64. JavaError, in the words of Java's decoder, for invalid text."""
    wrong = _NO_BASE64.search(text)
    if wrong:
        raise illegal_argument(f"Illegal base64 character {ord(wrong[0]):x}")
    digits = text.rstrip("=")
    if len(text) == 1:
        raise illegal_argument("Input byte[] should at least have 2 bytes for base64 bytes")
    if len(digits) % 4 == 1:
        raise illegal_argument("Last unit does not have enough valid bits")
    return base64.b64decode(digits + "=" * (-len(digits) % 4))


_WORK: Final = {
    "create": ("createDelegationToken", _create),
    "renew": ("renewDelegationToken", _renew),
    "expire": ("expireDelegationToken", _expire),
    "describe": ("describeDelegationToken", _describe),
}
