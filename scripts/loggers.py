"""`ottla loggers`: the levels of a broker's loggers, while it runs.

Counterpart in Kafka: kafka-configs.sh --entity-type broker-loggers.
"""

from collections.abc import Sequence
from typing import Final

import click

from ottla.client.admin.configs import Change, Operation, Resource, ResourceType, describe_configs
from ottla.client.cluster import Client
from ottla.scripts.terminal.config_changes import change_configs
from ottla.scripts.terminal.options import DRY_RUN, asks_cluster, pairs
from ottla.scripts.terminal.patterns import chosen
from ottla.scripts.terminal.session import Session
from ottla.wire.errors import KafkaError

_BROKER: Final = click.argument("broker", metavar="BROKER", type=click.IntRange(min=0))


@click.group()
def loggers() -> None:
    """List and set the levels of a broker's loggers, while it runs."""


@loggers.command("list")
@_BROKER
@click.argument("patterns", nargs=-1, metavar="[LOGGER]...")
@asks_cluster
def list_command(session: Session, broker: int, patterns: Sequence[str]) -> None:
    """List the loggers of the broker with this id, or those that match a pattern such as 'kafka.server.*'."""
    session.run(_list, broker, patterns)


async def _list(client: Client, session: Session, broker: int, patterns: Sequence[str]) -> None:
    resource = _resource(broker)
    entries = (await describe_configs(client, [resource]))[resource]
    if isinstance(entries, KafkaError):
        raise entries
    levels = {each.name: each.value for each in entries}
    session.out.begin("broker", "logger", "level")
    for name in chosen(levels, patterns):
        session.out.row(broker=broker, logger=name, level=levels[name])


def _resource(broker: int) -> Resource:
    return Resource(ResourceType.BROKER_LOGGER, str(broker))


@loggers.command("set")
@_BROKER
@click.argument("levels", nargs=-1, required=True, metavar="LOGGER=LEVEL...")
@DRY_RUN
@asks_cluster
def set_command(session: Session, broker: int, levels: tuple[str, ...], is_dry_run: bool) -> None:
    """Set the levels of loggers, until the broker ends: TRACE, DEBUG, INFO, WARN, ERROR or FATAL."""
    changes = [Change(name, Operation.SET, level.upper()) for name, level in pairs(levels, "set").items()]
    session.run(_change, broker, changes, is_dry_run)


@loggers.command()
@_BROKER
@click.argument("names", nargs=-1, required=True, metavar="LOGGER...")
@DRY_RUN
@asks_cluster
def unset(session: Session, broker: int, names: Sequence[str], is_dry_run: bool) -> None:
    """Unset the levels of loggers, so that the root logger's level applies."""
    session.run(_change, broker, [Change(name, Operation.DELETE) for name in names], is_dry_run)


async def _change(client: Client, session: Session, broker: int, changes: Sequence[Change], is_dry_run: bool) -> None:
    await change_configs(
        client, session, _resource(broker), changes, is_dry_run=is_dry_run, label={"broker": broker}, key="logger"
    )
