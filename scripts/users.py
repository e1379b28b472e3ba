"""`ottla users`: list, add and delete the SCRAM credentials of users.

Counterpart in Kafka: kafka-configs.sh.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import click

from ottla.client.admin.users import (
    ITERATIONS,
    MECHANISMS,
    MOST_ITERATIONS,
    Credential,
    Deletion,
    Upsertion,
    alter_users,
    describe_users,
)
from ottla.client.cluster import Client
from ottla.scripts.terminal.options import DRY_RUN, YES, asks_cluster
from ottla.scripts.terminal.output import ERROR
from ottla.scripts.terminal.patterns import chosen, is_pattern
from ottla.scripts.terminal.secrets import takes_secret
from ottla.scripts.terminal.session import Session
from ottla.wire.errors import ErrorCode, KafkaError

_DEFAULT_MECHANISM: Final = "SCRAM-SHA-512"


@click.group()
def users() -> None:
    """List, add and delete the SCRAM credentials of users."""


@users.command("list")
@click.argument("patterns", nargs=-1, metavar="[USER]...")
@asks_cluster
def list_command(session: Session, patterns: Sequence[str]) -> None:
    """List the credentials of users: all, or those that match a pattern such as 'team-*'."""
    session.run(_list, patterns)


async def _list(client: Client, session: Session, patterns: Sequence[str]) -> None:
    session.out.begin("user", "mechanism", "iterations", *ERROR)
    for user, credentials in (await _matching(client, patterns)).items():
        if isinstance(credentials, KafkaError):
            session.out.item(credentials, user=user)
            continue
        for each in sorted(credentials):
            session.out.row(user=user, mechanism=each.mechanism.mechanism_name, iterations=each.iterations)


async def _matching(client: Client, patterns: Sequence[str]) -> dict[str, list[Credential] | KafkaError]:
    """Return the credentials of the matching users, and an error for each plain name without any."""
    if patterns and not any(map(is_pattern, patterns)):
        described = await describe_users(client, dict.fromkeys(patterns))
        return {name: described[name] for name in patterns}
    found = await describe_users(client)
    missing = [each for each in patterns if not is_pattern(each) and each not in found]
    matching = {name: found[name] for name in chosen(found, patterns)}
    return matching | dict.fromkeys(missing, KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "there is no such user"))


@users.command()
@click.argument("user")
@click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    default=[_DEFAULT_MECHANISM],
    show_default=True,
    type=click.Choice(list(MECHANISMS)),
    help="The credential's mechanism. May be given several times.",
)
@click.option(
    "--iterations",
    default=ITERATIONS,
    show_default=True,
    type=click.IntRange(ITERATIONS, MOST_ITERATIONS),
    metavar="COUNT",
    help="The number of hash iterations.",
)
@takes_secret("password", "the password", is_new=True)
@asks_cluster
def add(session: Session, user: str, mechanisms: tuple[str, ...], iterations: int, password: str) -> None:
    """Add credentials for USER, or replace existing ones.

    The password does not leave this machine: the broker gets a salted hash.
    """
    if not password:
        raise click.UsageError("the password is empty")
    upsertions = [
        Upsertion(user, MECHANISMS[each], password.encode(), iterations) for each in dict.fromkeys(mechanisms)
    ]
    session.run(_add, upsertions)


async def _add(client: Client, session: Session, upsertions: Sequence[Upsertion]) -> None:
    session.out.begin("user", "mechanism", "iterations", *ERROR)
    for each in upsertions:
        # One by one, because a broker refuses two changes of a user in one request.
        error = (await alter_users(client, upsertions=[each]))[each.user]
        name = each.mechanism.mechanism_name
        session.out.item(error, user=each.user, mechanism=name, iterations=each.iterations)


@users.command()
@click.argument("patterns", nargs=-1, required=True, metavar="USER...")
@click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice(list(MECHANISMS)),
    help="Delete only credentials of this mechanism. May be given several times.",
)
@DRY_RUN
@YES
@asks_cluster
def delete(session: Session, patterns: Sequence[str], mechanisms: tuple[str, ...], is_dry_run: bool, yes: bool) -> None:
    """Delete the credentials of users, so that the users cannot authenticate any more."""
    session.run(_delete, patterns, mechanisms, is_dry_run, yes)


async def _delete(
    client: Client,
    session: Session,
    patterns: Sequence[str],
    mechanisms: Sequence[str],
    is_dry_run: bool,
    yes: bool,
) -> None:
    found = await _matching(client, patterns)
    missing = {user: each for user, each in found.items() if isinstance(each, KafkaError)}
    deletions = _deletions({user: each for user, each in found.items() if not isinstance(each, KafkaError)}, mechanisms)
    if not session.dry_run(is_dry_run) and deletions:
        whom = ", ".join(dict.fromkeys(each.user for each in deletions))
        session.confirm(f"Delete {len(deletions)} credentials of {whom}?", yes=yes)
    session.out.begin("user", "mechanism", "deleted", *ERROR)
    for user, error in missing.items():
        session.out.item(error, user=user, deleted=False)
    for each in deletions:
        failed = None if is_dry_run else (await alter_users(client, [each]))[each.user]
        deleted = failed is None and not is_dry_run
        session.out.item(failed, user=each.user, mechanism=each.mechanism.mechanism_name, deleted=deleted)


def _deletions(found: Mapping[str, Sequence[Credential]], mechanisms: Sequence[str]) -> list[Deletion]:
    return [
        Deletion(user, each.mechanism)
        for user, credentials in found.items()
        for each in sorted(credentials)
        if not mechanisms or each.mechanism.mechanism_name in mechanisms
    ]
