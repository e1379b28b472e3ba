"""`ottla apply`: create and change topics as a file describes them.

Counterpart in Kafka: none.
"""

from collections.abc import Sequence
from pathlib import Path

import click

from ottla.client.admin.actual_topics import actual_topics, carry_out
from ottla.client.admin.desired_topics import Action, Change, DesiredError, Topic, names_of, plan, read_topics
from ottla.client.cluster import Client
from ottla.scripts.terminal.files import read_text
from ottla.scripts.terminal.options import DRY_RUN, YES, asks_cluster
from ottla.scripts.terminal.output import ERROR
from ottla.scripts.terminal.session import Session


@click.command("apply")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path), metavar="FILE")
@click.option("--prune", is_flag=True, help="Delete topics and unset configs that FILE does not name.")
@DRY_RUN
@YES
@asks_cluster
def apply(session: Session, file: Path, prune: bool, is_dry_run: bool, yes: bool) -> None:
    """Create and change topics as FILE describes them.

    FILE is TOML; `ottla topics export` writes a cluster's topics as such a file. Values that FILE does not name stay as
    they are. Only --prune removes topics and configs.

    \b
    [topics.orders]
    partitions = 6
    replication_factor = 3
    [topics.orders.configs]
    "retention.ms" = 604800000

    The changes are listed before they are made. With --dry-run the cluster only checks them.
    """
    try:
        wanted = read_topics(read_text(file))
    except DesiredError as error:
        raise click.UsageError(f"{file}: {error}") from None
    session.run(_apply, wanted, prune, is_dry_run, yes)


async def _apply(
    client: Client, session: Session, wanted: dict[str, Topic], prune: bool, is_dry_run: bool, yes: bool
) -> None:
    changes = plan(wanted, await actual_topics(client), prune=prune)
    _confirm(session, changes, yes=yes or session.dry_run(is_dry_run))
    results = await carry_out(client, changes, wanted, validate_only=is_dry_run)
    session.out.begin("topic", "action", "key", "before", "after", *ERROR)
    for change, error in results.items():
        session.out.item(
            error,
            topic=change.topic,
            action=change.action.value,
            key=change.key,
            before=change.before,
            after=change.after,
        )
    if not changes:
        session.say("all topics are as the file describes them: nothing is changed")


def _confirm(session: Session, changes: Sequence[Change], *, yes: bool) -> None:
    """List the changes on stderr, and ask if topics are deleted."""
    deleted = names_of(changes, Action.DELETE)
    if not deleted or yes:
        return
    for change in changes:
        session.say(described(change))
    session.confirm(f"Delete {len(deleted)} topics with all records, and make the other changes?", yes=yes)


def described(change: Change) -> str:
    """Return a change as one line."""
    key = f" {change.key}" if change.key else ""
    values = (
        "" if change.after is None else f": {'unset' if change.before is None else change.before} -> {change.after}"
    )
    return f"{change.topic}: {change.action.value}{key}{values}"
