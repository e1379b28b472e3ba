"""`ottla features`: the levels that a cluster's brokers support, and the finalized levels.

Counterpart in Kafka: kafka-features.sh.
"""

from collections.abc import Mapping

import click

from ottla.client.admin.features import UpgradeType, describe_features, update_features
from ottla.client.cluster import Client
from ottla.scripts.terminal.options import DRY_RUN, YES, asks_cluster
from ottla.scripts.terminal.output import ERROR
from ottla.scripts.terminal.session import Session

_LEVELS = click.argument("levels", nargs=-1, required=True, metavar="FEATURE=LEVEL...")


@click.group()
def features() -> None:
    """List, upgrade and downgrade the features of a cluster."""


@features.command("list")
@asks_cluster
def list_command(session: Session) -> None:
    """List features: the levels that the broker supports, and the cluster's level. Level 0 is off."""
    session.run(_list)


async def _list(client: Client, session: Session) -> None:
    found = await describe_features(client)
    session.out.begin("feature", "lowest", "highest", "level")
    for each in found.features.values():
        session.out.row(feature=each.name, lowest=each.lowest, highest=each.highest, level=each.finalized)


@features.command()
@_LEVELS
@DRY_RUN
@asks_cluster
def upgrade(session: Session, levels: tuple[str, ...], is_dry_run: bool) -> None:
    """Raise levels, such as group.version=1. Some can never be lowered again."""
    session.run(_update, _parsed(levels), UpgradeType.UPGRADE, is_dry_run, True)


@features.command()
@_LEVELS
@click.option("--unsafe", is_flag=True, help="Lower a level even if metadata is lost.")
@DRY_RUN
@YES
@asks_cluster
def downgrade(session: Session, levels: tuple[str, ...], unsafe: bool, is_dry_run: bool, yes: bool) -> None:
    """Lower levels; level 0 turns a feature off."""
    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    session.run(_update, _parsed(levels), kind, is_dry_run, yes or not unsafe)


def _parsed(levels: tuple[str, ...]) -> dict[str, int]:
    found = {}
    for each in levels:
        name, _, level = each.partition("=")
        if not name or not level.isdecimal():
            raise click.UsageError(f"{each}: a level is FEATURE=LEVEL, such as group.version=1")
        found[name] = int(level)
    return found


async def _update(
    client: Client, session: Session, levels: Mapping[str, int], kind: UpgradeType, is_dry_run: bool, yes: bool
) -> None:
    if not session.dry_run(is_dry_run):
        session.confirm("Downgrade although metadata may be lost?", yes=yes)
    before = (await describe_features(client)).features
    results = await update_features(client, levels, kind, validate_only=is_dry_run)
    session.out.begin("feature", "from", "to", "changed", *ERROR)
    for name, error in results.items():
        old = before[name].finalized if name in before else None
        changed = error is None and not is_dry_run
        session.out.item(error, feature=name, **{"from": old}, to=levels[name], changed=changed)
