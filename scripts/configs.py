"""`ottla configs`: describe, change and compare the configs of topics, brokers, groups and client metrics.

Owns the notation of resources: TYPE/NAME. Counterpart in Kafka: kafka-configs.sh.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from ottla.client.admin.configs import (
    Change,
    ConfigEntry,
    Operation,
    Resource,
    ResourceType,
    describe_with_defaults,
    list_config_resources,
)
from ottla.client.cluster import Client, open_client
from ottla.client.config import read_properties
from ottla.scripts.terminal.config_changes import change_configs, is_secret
from ottla.scripts.terminal.names import RESOURCE_NAME
from ottla.scripts.terminal.options import DRY_RUN, asks_cluster, pairs
from ottla.scripts.terminal.output import ERROR
from ottla.scripts.terminal.patterns import chosen, is_pattern
from ottla.scripts.terminal.session import Reach, Session
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import KafkaError

_TYPES: Final = {
    "topic": ResourceType.TOPIC,
    "broker": ResourceType.BROKER,
    "group": ResourceType.GROUP,
    "client-metrics": ResourceType.CLIENT_METRICS,
}
_NAMES: Final = {number: name for name, number in _TYPES.items()}
_BROKER_DEFAULTS: Final = "broker-defaults"
_DEFAULTS: Final = "defaults"
_FORMS: Final = "topic/NAME, broker/ID, broker-defaults, group/NAME or client-metrics/NAME"
_RESOURCE: Final = click.argument("resource", metavar="RESOURCE", type=RESOURCE_NAME)


@click.group()
def configs() -> None:
    """Describe, change and compare configs of topics, brokers and groups.

    A RESOURCE is topic/NAME, broker/ID, broker-defaults (of all brokers), group/NAME or client-metrics/NAME.
    """


def _resource(text: str) -> Resource:
    """Return the resource of a TYPE/NAME. UsageError for any other text."""
    if text == _BROKER_DEFAULTS:
        return Resource(ResourceType.BROKER, "")
    kind, slash, name = text.partition("/")
    if not slash or not name or kind not in _TYPES:
        raise click.UsageError(f"{text}: a resource is {_FORMS}")
    if kind == "broker" and not name.isdigit() and not is_pattern(name):
        raise click.UsageError(f"{text}: a broker's id is a number")
    return Resource(_TYPES[kind], name)


def _text(resource: Resource) -> str:
    if resource == Resource(ResourceType.BROKER, ""):
        return _BROKER_DEFAULTS
    return f"{_NAMES[resource.type]}/{resource.name}"


# Describe


@configs.command()
@click.argument("resources", nargs=-1, required=True, metavar="RESOURCE...", type=RESOURCE_NAME)
@click.option("--changed", is_flag=True, help="Only values that were set and differ from the default.")
@click.option("--synonyms", is_flag=True, help="Add the values that apply if those before them are not set.")
@click.option("--doc", is_flag=True, help="Add the broker's documentation of each key.")
@asks_cluster
def describe(session: Session, resources: Sequence[str], changed: bool, synonyms: bool, doc: bool) -> None:
    """Describe the configs of resources; NAME may be a pattern, such as 'topic/orders-*'.

    The default is the value that applies if none is set for the resource: for a topic the brokers' value, for a broker
    Kafka's default.
    """
    session.run(_describe, list(map(_resource, resources)), changed, synonyms, doc)


async def _describe(
    client: Client, session: Session, wanted: Sequence[Resource], changed: bool, synonyms: bool, doc: bool
) -> None:
    more = [*(["synonyms"] if synonyms else []), *(["documentation"] if doc else [])]
    session.out.begin("resource", "key", "value", "source", "default", "sensitive", "read_only", *more, *ERROR)
    resources = await _expanded(client, wanted)
    results = await describe_with_defaults(client, resources, documentation=doc)
    for resource in resources:
        entries = results[resource]
        if isinstance(entries, KafkaError):
            session.out.item(entries, resource=_text(resource))
            continue
        for entry in sorted(entries, key=lambda each: each.name):
            if not changed or entry.is_changed(resource.type):
                session.out.row(resource=_text(resource), **_as_row(entry, resource))


def _as_row(entry: ConfigEntry, resource: Resource) -> dict[str, Any]:
    return {
        "key": entry.name,
        "value": entry.value,
        "source": entry.source.name,
        "default": entry.default(resource.type),
        "sensitive": entry.is_sensitive,
        "read_only": entry.is_read_only,
        "synonyms": [f"{each.source.name}:{each.name}={each.value or ''}" for each in entry.synonyms],
        "documentation": entry.documentation,
    }


async def _expanded(client: Client, resources: Iterable[Resource]) -> list[Resource]:
    """Return resources with each pattern replaced by the matching names."""
    found: dict[Resource, None] = {}
    for each in resources:
        if is_pattern(each.name):
            names = chosen(await _all_names(client, each.type), [each.name])
            found |= dict.fromkeys(Resource(each.type, name) for name in names)
        else:
            found[each] = None
    return list(found)


async def _all_names(client: Client, type: ResourceType) -> list[str]:
    if type in (ResourceType.GROUP, ResourceType.CLIENT_METRICS):
        return [each.name for each in await list_config_resources(client, type)]
    metadata = await client.metadata(None if type == ResourceType.TOPIC else ())
    if type == ResourceType.TOPIC:
        return [each.name for each in metadata.topics if each.name]
    return [str(each.node_id) for each in metadata.brokers]


# Change


@configs.command("set")
@_RESOURCE
@click.argument("values", nargs=-1, metavar="[KEY=VALUE]...")
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Read keys and values from this properties file. Secrets must be in a file.",
)
@DRY_RUN
@asks_cluster
def set_command(session: Session, resource: str, values: tuple[str, ...], file: Path | None, is_dry_run: bool) -> None:
    """Set configs of a resource."""
    given = pairs(values, "set")
    secret = next(filter(is_secret, given), None)
    if secret is not None:
        raise click.UsageError(f"{secret} is a secret, but other users can see command lines: give it by --file")
    if file is not None:
        try:
            given = {**read_properties(file), **given}
        except ConfigError as error:
            raise click.UsageError(str(error)) from None
    _change(session, resource, [Change(key, Operation.SET, value) for key, value in given.items()], is_dry_run)


@configs.command()
@_RESOURCE
@click.argument("keys", nargs=-1, metavar="KEY...")
@DRY_RUN
@asks_cluster
def unset(session: Session, resource: str, keys: Sequence[str], is_dry_run: bool) -> None:
    """Unset configs of a resource, so that their defaults apply."""
    _change(session, resource, [Change(key, Operation.DELETE) for key in keys], is_dry_run)


@configs.command()
@_RESOURCE
@click.argument("items", nargs=-1, metavar="KEY=ITEM[,ITEM]...")
@DRY_RUN
@asks_cluster
def append(session: Session, resource: str, items: tuple[str, ...], is_dry_run: bool) -> None:
    """Append items to configs that are lists."""
    given = pairs(items, "append")
    _change(session, resource, [Change(key, Operation.APPEND, value) for key, value in given.items()], is_dry_run)


@configs.command()
@_RESOURCE
@click.argument("items", nargs=-1, metavar="KEY=ITEM[,ITEM]...")
@DRY_RUN
@asks_cluster
def subtract(session: Session, resource: str, items: tuple[str, ...], is_dry_run: bool) -> None:
    """Remove items from configs that are lists."""
    given = pairs(items, "subtract")
    _change(session, resource, [Change(key, Operation.SUBTRACT, value) for key, value in given.items()], is_dry_run)


def _change(session: Session, text: str, changes: Sequence[Change], is_dry_run: bool) -> None:
    resource = _resource(text)
    if is_pattern(resource.name):
        raise click.UsageError(f"{text}: only one resource can be changed, not a pattern")
    if not changes:
        raise click.UsageError("name at least one key")
    session.run(_carry_out, resource, changes, is_dry_run)


async def _carry_out(
    client: Client, session: Session, resource: Resource, changes: Sequence[Change], is_dry_run: bool
) -> None:
    await change_configs(client, session, resource, changes, is_dry_run=is_dry_run, label={"resource": _text(resource)})


# Compare


@configs.command()
@click.argument("left", metavar="RESOURCE", type=RESOURCE_NAME)
@click.argument("right", required=False, metavar="[RESOURCE|defaults]", type=RESOURCE_NAME)
@click.option(
    "--with-bootstrap-server", "other_bootstrap", metavar="HOST:PORT[,...]", help="Compare with this cluster."
)
@click.option("--with-profile", "other_profile", metavar="NAME", help="Compare with this cluster of profiles.toml.")
@asks_cluster
def diff(
    session: Session, left: str, right: str | None, other_bootstrap: str | None, other_profile: str | None
) -> None:
    """Compare the configs of two resources, or of one resource on two clusters.

    In place of the second resource, `defaults` stands for the values that apply if none is set for the first one.
    Secrets are not compared. The exit code is 0 if all values are equal, and 1 if any differ.
    """
    other = Reach(other_bootstrap, other_profile) if other_bootstrap or other_profile else None
    if right is None and other is None:
        raise click.UsageError("name a second resource, defaults, or another cluster by --with-...")
    if right == _DEFAULTS and other is not None:
        raise click.UsageError("defaults and --with-... exclude each other")
    first = _resource(left)
    second = None if right == _DEFAULTS else first if right is None else _resource(right)
    session.run(_diff, first, second, other)


async def _diff(client: Client, session: Session, left: Resource, right: Resource | None, other: Reach | None) -> None:
    session.out.begin("key", "left", "right")
    entries = await _entries(client, left)
    before = {name: each.value for name, each in entries.items()}
    if right is None:
        after = {name: each.default(left.type) for name, each in entries.items()}
    elif other is None:
        after = _values(await _entries(client, right))
    else:
        async with open_client(other.config()) as target:
            after = _values(await _entries(target, right))
    for key in sorted({*before, *after}):
        if key in entries and entries[key].is_sensitive:
            continue
        if before.get(key) != after.get(key):
            session.out.row(key=key, left=before.get(key), right=after.get(key))
            session.out.has_failed = True


def _values(entries: Mapping[str, ConfigEntry]) -> dict[str, str | None]:
    return {name: each.value for name, each in entries.items() if not each.is_sensitive}


async def _entries(client: Client, resource: Resource) -> dict[str, ConfigEntry]:
    """Return the configs of a resource by key. KafkaError if it cannot be described."""
    found = (await describe_with_defaults(client, [resource]))[resource]
    if isinstance(found, KafkaError):
        raise KafkaError(found.code, f"{_text(resource)}: {found.detail}".removesuffix(": "))
    return {each.name: each for each in found}
