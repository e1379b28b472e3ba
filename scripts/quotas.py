"""`ottla quotas`: list, set and apply quotas of users, client ids and addresses.

Owns the form of an entity in rows: a name, `<default>` for all without quotas of their own, or nothing.
Counterpart in Kafka: kafka-configs.sh for users, clients and ips.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from ottla.client.admin.quotas import (
    CLIENT_ID,
    IP,
    IP_QUOTAS,
    USER,
    USER_QUOTAS,
    Entity,
    Part,
    Wanted,
    alter_quotas,
    describe_quotas,
)
from ottla.client.cluster import Client
from ottla.scripts.terminal.files import read_text
from ottla.scripts.terminal.options import DRY_RUN, asks_cluster, pairs
from ottla.scripts.terminal.output import ERROR, SCHEMA
from ottla.scripts.terminal.session import Session

F = TypeVar("F", bound=Callable[..., Any])
_TYPES: Final = {"user": USER, "client_id": CLIENT_ID, "ip": IP}
"""The column of each part of an entity."""
_QUOTAS: Final = (*USER_QUOTAS, *IP_QUOTAS)
_DEFAULT: Final = "<default>"
Quotas = Mapping[str, float | None]


def _of_entity(command: F) -> F:
    """Add the options that name an entity; the command gets it as `entity`."""

    @wraps(command)
    def with_entity(**given: Any) -> None:
        parts = []
        for column, type in _TYPES.items():
            name, is_default = given.pop(column), given.pop(f"{column}_default")
            flag = column.replace("_", "-")
            if name is not None and is_default:
                raise click.UsageError(f"--{flag} and --{flag}-default exclude each other")
            if name is not None or is_default:
                parts.append(Part(type, name))
        if not parts:
            raise click.UsageError("name an entity: --user, --client-id or --ip, or one of these with -default")
        if len(parts) > 1 and any(each.type == IP for each in parts):
            raise click.UsageError("--ip excludes --user and --client-id")
        command(entity=frozenset(parts), **given)

    wrapped: Any = with_entity
    for column in reversed(_TYPES):
        flag, what = column.replace("_", "-"), {"ip": "address"}.get(column, column.replace("_", " "))
        wrapped = click.option(f"--{flag}-default", is_flag=True, help=f"Every {what} without quotas of its own.")(
            wrapped
        )
        wrapped = click.option(f"--{flag}", metavar="NAME", help=f"This {what}.")(wrapped)
    return wrapped  # type: ignore[no-any-return]


@click.group()
def quotas() -> None:
    """List, set and apply quotas of users, client ids and addresses.

    Quotas of users and client ids are producer_byte_rate, consumer_byte_rate, request_percentage and
    controller_mutation_rate; the quota of an address is connection_creation_rate.
    """


@quotas.command("list")
@click.option("--user", metavar="NAME", help="Only quotas of this user, with any client id.")
@click.option("--client-id", metavar="NAME", help="Only quotas of this client id, with any user.")
@click.option("--ip", metavar="ADDRESS", help="Only the quota of this address.")
@asks_cluster
def list_command(session: Session, **names: str | None) -> None:
    """List all quotas. `ottla quotas apply` reads the output of --output json."""
    session.run(_list, [Wanted(_TYPES[column], name) for column, name in names.items() if name is not None])


async def _list(client: Client, session: Session, wanted: Sequence[Wanted]) -> None:
    session.out.begin(*_TYPES, *_QUOTAS)
    found = await describe_quotas(client, wanted)
    for entity in sorted(found, key=_order):
        session.out.row(**_columns(entity), **found[entity])


def _columns(entity: Entity) -> dict[str, str]:
    names = {part.type: _DEFAULT if part.name is None else part.name for part in entity}
    return {column: names[type] for column, type in _TYPES.items() if type in names}


def _order(entity: Entity) -> list[str]:
    columns = _columns(entity)
    return [columns.get(column, "") for column in _TYPES]


# Change


@quotas.command("set")
@_of_entity
@click.argument("values", nargs=-1, required=True, metavar="QUOTA=VALUE...")
@DRY_RUN
@asks_cluster
def set_command(session: Session, entity: Entity, values: tuple[str, ...], is_dry_run: bool) -> None:
    """Set quotas of an entity: a user, a client id, both, an address, or their defaults."""
    wanted = {_quota(key): _number(key, text) for key, text in pairs(values, "set").items()}
    session.run(_change, entity, wanted, is_dry_run)


@quotas.command()
@_of_entity
@click.argument("names", nargs=-1, metavar="[QUOTA]...")
@DRY_RUN
@asks_cluster
def unset(session: Session, entity: Entity, names: Sequence[str], is_dry_run: bool) -> None:
    """Remove quotas of an entity: those named, or all."""
    wanted = dict.fromkeys(map(_quota, names))
    session.run(_change, entity, wanted or None, is_dry_run)


def _quota(name: str) -> str:
    if name not in _QUOTAS:
        raise click.UsageError(f"there is no quota {name}: use one of {', '.join(_QUOTAS)}")
    return name


def _number(key: str, text: object) -> float:
    try:
        return float(str(text))
    except ValueError:
        raise click.UsageError(f"{key}={text}: a quota is a number") from None


async def _change(client: Client, session: Session, entity: Entity, wanted: Quotas | None, is_dry_run: bool) -> None:
    """Set or remove (None) quotas; without any, remove all."""
    found = await describe_quotas(client, [Wanted(*part) for part in entity], strict=True)
    before = found.get(entity, {})
    changes = {entity: dict.fromkeys(before) if wanted is None else wanted}
    await _carry_out(client, session, changes, {entity: before}, is_dry_run)


async def _carry_out(
    client: Client,
    session: Session,
    changes: Mapping[Entity, Quotas],
    current: Mapping[Entity, Quotas],
    is_dry_run: bool,
) -> None:
    """Change quotas, and add a row with the values before and after for each."""
    session.dry_run(is_dry_run)
    session.out.begin(*_TYPES, "quota", "before", "after", *ERROR)
    changes = {entity: values for entity, values in changes.items() if values}
    results = await alter_quotas(client, changes, validate_only=is_dry_run) if changes else {}
    for entity, values in changes.items():
        error = results.get(entity)
        for quota, value in values.items():
            before = current.get(entity, {}).get(quota)
            after = before if error else value
            session.out.item(error, **_columns(entity), quota=quota, before=before, after=after)


# All at once


@quotas.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path, allow_dash=True), metavar="FILE")
@DRY_RUN
@asks_cluster
def apply(session: Session, file: Path, is_dry_run: bool) -> None:
    """Set the quotas in FILE, in the form of `ottla quotas list --output json`; '-' is stdin.

    Afterwards each entity in FILE has exactly the quotas in FILE. Entities that are not in FILE keep their quotas. Only
    quotas that differ are changed and printed.
    """
    session.run(_apply, read_quotas(read_text(file)), is_dry_run)


def read_quotas(text: str) -> dict[Entity, dict[str, float]]:
    """Return the quotas of a document. UsageError for an invalid document."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"the file is not JSON: {error}") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA or "items" not in document:
        raise click.UsageError("the file is not the output of `ottla quotas list --output json`")
    found: dict[Entity, dict[str, float]] = {}
    for item in document["items"]:
        parts = [
            Part(type, None if item[column] == _DEFAULT else item[column])
            for column, type in _TYPES.items()
            if item.get(column) is not None
        ]
        if not parts:
            raise click.UsageError(f"an item lacks {', '.join(_TYPES)}: {json.dumps(item)}")
        values = {key: value for key, value in item.items() if key not in _TYPES and value is not None}
        found[frozenset(parts)] = {_quota(key): _number(key, value) for key, value in values.items()}
    return found


async def _apply(
    client: Client, session: Session, wanted: Mapping[Entity, Mapping[str, float]], is_dry_run: bool
) -> None:
    current = await describe_quotas(client)
    await _carry_out(client, session, differences(current, wanted), current, is_dry_run)


def differences(
    current: Mapping[Entity, Mapping[str, float]], wanted: Mapping[Entity, Mapping[str, float]]
) -> dict[Entity, dict[str, float | None]]:
    """Return the changes: values to set, and None for quotas to remove."""
    found = {}
    for entity, values in wanted.items():
        now = current.get(entity, {})
        keys = dict.fromkeys([*values, *now])
        found[entity] = {key: values.get(key) for key in keys if values.get(key) != now.get(key)}
    return found
