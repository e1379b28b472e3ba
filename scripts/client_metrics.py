"""`ottla client-metrics`: the subscriptions by which brokers request metrics from clients.

Counterpart in Kafka: kafka-client-metrics.sh.
"""

from collections.abc import Sequence
from typing import Final

import click

from ottla.client.admin.configs import (
    Change,
    ConfigEntry,
    Operation,
    Resource,
    ResourceType,
    alter_configs,
    describe_configs,
    list_config_resources,
)
from ottla.client.cluster import Client
from ottla.scripts.terminal.config_changes import change_configs
from ottla.scripts.terminal.options import DRY_RUN, YES, asks_cluster, pairs
from ottla.scripts.terminal.output import ERROR
from ottla.scripts.terminal.patterns import chosen, is_pattern
from ottla.scripts.terminal.session import Session
from ottla.wire.errors import ErrorCode, KafkaError

_INTERVAL: Final = "interval.ms"
_METRICS: Final = "metrics"
_MATCH: Final = "match"


@click.group()
def client_metrics() -> None:
    """List, describe, set and delete subscriptions to clients' metrics."""


@client_metrics.command("list")
@asks_cluster
def list_command(session: Session) -> None:
    """List the names of subscriptions."""
    session.run(_list)


async def _list(client: Client, session: Session) -> None:
    session.out.begin("name")
    for name in sorted(await _all_names(client)):
        session.out.row(name=name)


async def _all_names(client: Client) -> list[str]:
    return [each.name for each in await list_config_resources(client, ResourceType.CLIENT_METRICS)]


@client_metrics.command()
@click.argument("patterns", nargs=-1, metavar="[NAME]...")
@asks_cluster
def describe(session: Session, patterns: Sequence[str]) -> None:
    """Describe subscriptions: all, or those that match."""
    session.run(_describe, patterns)


async def _describe(client: Client, session: Session, patterns: Sequence[str]) -> None:
    session.out.begin("name", "interval_ms", "metrics", "match", *ERROR)
    for name, entries in (await _subscriptions(client, patterns)).items():
        if isinstance(entries, KafkaError):
            session.out.item(entries, name=name)
            continue
        values = {each.name: each.value or "" for each in entries}
        interval = values.get(_INTERVAL)
        session.out.row(
            name=name,
            interval_ms=int(interval) if interval else None,
            metrics=_items(values.get(_METRICS)),
            match=dict(each.split("=", 1) for each in _items(values.get(_MATCH))),
        )


async def _subscriptions(client: Client, patterns: Sequence[str]) -> dict[str, list[ConfigEntry] | KafkaError]:
    """Return the configs of the subscriptions that match, and an error for a name that does not exist."""
    there = await _all_names(client)
    resources = [Resource(ResourceType.CLIENT_METRICS, name) for name in chosen(there, patterns)]
    described = await describe_configs(client, resources)
    found = {resource.name: described[resource] for resource in resources}
    missing = [each for each in patterns if not is_pattern(each) and each not in found]
    return found | dict.fromkeys(missing, KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "there is no such subscription"))


def _items(text: str | None) -> list[str]:
    return text.split(",") if text else []


@client_metrics.command("set")
@click.argument("name")
@click.option(
    "--interval-ms", type=click.IntRange(min=1), metavar="MILLISECONDS", help="The time between two pushes of a client."
)
@click.option(
    "--metric", "metrics", multiple=True, metavar="PREFIX", help="Metrics whose names begin with this; '*' is all."
)
@click.option(
    "--match",
    "matches",
    multiple=True,
    metavar="SELECTOR=REGEX",
    help="Only clients that match, such as client_id=app.",
)
@DRY_RUN
@asks_cluster
def set_command(
    session: Session,
    name: str,
    interval_ms: int | None,
    metrics: tuple[str, ...],
    matches: tuple[str, ...],
    is_dry_run: bool,
) -> None:
    """Change the subscription NAME, or create it. Without its option a value stays as it is."""
    pairs(matches, "--match")
    wanted = {
        _INTERVAL: "" if interval_ms is None else str(interval_ms),
        _METRICS: ",".join(metrics),
        _MATCH: ",".join(matches),
    }
    changes = [Change(key, Operation.SET, value) for key, value in wanted.items() if value]
    if not changes:
        raise click.UsageError("name at least one of --interval-ms, --metric and --match")
    session.run(_set, name, changes, is_dry_run)


async def _set(client: Client, session: Session, name: str, changes: Sequence[Change], is_dry_run: bool) -> None:
    resource = Resource(ResourceType.CLIENT_METRICS, name)
    await change_configs(client, session, resource, changes, is_dry_run=is_dry_run, label={"name": name})


@client_metrics.command()
@click.argument("patterns", nargs=-1, required=True, metavar="NAME...")
@DRY_RUN
@YES
@asks_cluster
def delete(session: Session, patterns: Sequence[str], is_dry_run: bool, yes: bool) -> None:
    """Delete subscriptions, by name or by pattern."""
    session.run(_delete, patterns, is_dry_run, yes)


async def _delete(client: Client, session: Session, patterns: Sequence[str], is_dry_run: bool, yes: bool) -> None:
    found = await _subscriptions(client, patterns)
    changes = {
        Resource(ResourceType.CLIENT_METRICS, name): [Change(each.name, Operation.DELETE) for each in entries]
        for name, entries in found.items()
        if not isinstance(entries, KafkaError)
    }
    if not session.dry_run(is_dry_run) and changes:
        session.confirm(f"Delete {', '.join(each.name for each in changes)}?", yes=yes)
    results = await alter_configs(client, changes, validate_only=is_dry_run)
    session.out.begin("name", "deleted", *ERROR)
    for name, entries in found.items():
        failed = entries if isinstance(entries, KafkaError) else None
        error = failed or results.get(Resource(ResourceType.CLIENT_METRICS, name))
        session.out.item(error, name=name, deleted=error is None and not is_dry_run)
