"""`ottla diff`: the differences between the topics of two clusters, or of a cluster and a file.

Counterpart in Kafka: none.
"""

from collections.abc import Sequence
from pathlib import Path

import click

from ottla.client.admin.actual_topics import actual_topics
from ottla.client.admin.desired_topics import Action, Change, DesiredError, Topic, differences, read_topics
from ottla.client.cluster import Client, open_client
from ottla.scripts.terminal.files import read_text
from ottla.scripts.terminal.names import TOPIC_NAME
from ottla.scripts.terminal.options import asks_cluster
from ottla.scripts.terminal.patterns import chosen
from ottla.scripts.terminal.session import Reach, Session

_WHAT = {
    Action.CREATE: "topic",
    Action.DELETE: "topic",
    Action.ADD_PARTITIONS: "partitions",
    Action.CHANGE_REPLICAS: "replication_factor",
}


@click.command("diff")
@click.argument("patterns", nargs=-1, metavar="[TOPIC]...", type=TOPIC_NAME)
@click.option(
    "--with-bootstrap-server", "other_bootstrap", metavar="HOST:PORT[,...]", help="Compare with this cluster."
)
@click.option("--with-profile", "other_profile", metavar="NAME", help="Compare with this cluster of profiles.toml.")
@click.option(
    "--with-file",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Compare with the topics of this file, in the form that `ottla topics export` writes.",
)
@asks_cluster
def diff(
    session: Session, patterns: Sequence[str], other_bootstrap: str | None, other_profile: str | None, file: Path | None
) -> None:
    """Compare topics of two clusters, or of a cluster and a file.

    It compares partitions, replication factors and configs that were set, of all topics or of those that match. The
    exit code is 1 if anything differs.
    """
    if sum(each is not None for each in (other_bootstrap or other_profile, file)) != 1:
        raise click.UsageError("name the other side: --with-bootstrap-server, --with-profile or --with-file")
    if file is not None:
        try:
            wanted = read_topics(read_text(file))
        except DesiredError as error:
            raise click.UsageError(f"{file}: {error}") from None
        session.run(_diff_with_file, wanted, patterns)
    session.run(_diff_with_cluster, Reach(other_bootstrap, other_profile), patterns)


async def _diff_with_file(client: Client, session: Session, file: dict[str, Topic], patterns: Sequence[str]) -> None:
    # The file is on the left, because a value that it does not name is no difference.
    _print(session, _compared(file, await actual_topics(client), patterns), wanted_is_left=False)


async def _diff_with_cluster(client: Client, session: Session, reach: Reach, patterns: Sequence[str]) -> None:
    async with open_client(reach.config()) as other:
        right = await actual_topics(other)
    _print(session, _compared(await actual_topics(client), right, patterns), wanted_is_left=True)


def _compared(wanted: dict[str, Topic], actual: dict[str, Topic], patterns: Sequence[str]) -> list[Change]:
    names = set(chosen({*wanted, *actual}, patterns))
    here, there = ({name: side[name] for name in sorted(side) if name in names} for side in (wanted, actual))
    return sorted(differences(here, there), key=lambda change: change.topic)


def _print(session: Session, changes: Sequence[Change], *, wanted_is_left: bool) -> None:
    """Print a row for each difference; the first cluster is on the left."""
    session.out.begin("topic", "what", "left", "right")
    for change in changes:
        wanted, actual = _values(change)
        left, right = (wanted, actual) if wanted_is_left else (actual, wanted)
        session.out.row(topic=change.topic, what=change.key or _WHAT[change.action], left=left, right=right)
        session.out.has_failed = True


def _values(change: Change) -> tuple[int | str | None, int | str | None]:
    match change.action:
        case Action.CREATE:
            return "there", None
        case Action.DELETE:
            return None, "there"
        case _:
            return change.after, change.before
