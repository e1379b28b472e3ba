"""The options that commands share.

Owns flags and their help. Must not know a command.
"""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from ottla.scripts.terminal.output import FORMATS
from ottla.scripts.terminal.session import Reach, Session
from ottla.wire.config_def import ConfigError

F = TypeVar("F", bound=Callable[..., Any])

_SHARED = (
    click.option(
        "-b",
        "--bootstrap-server",
        "bootstrap",
        metavar="HOST:PORT[,...]",
        help="Connect to the cluster at these addresses. The default is the profile's, or localhost:9092.",
    ),
    click.option("--profile", metavar="NAME", help="Use this cluster of profiles.toml. The default is its `default`."),
    click.option(
        "--command-config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Read Kafka's client properties from this file.",
    ),
    click.option(
        "--timeout",
        "timeout_seconds",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="Give up after this time. The default is 30 seconds for a response, and 60 for an operation.",
    ),
    click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(FORMATS),
        help="Print in this format. The default is a table on a terminal, and tab-separated rows in a pipe.",
    ),
)
_FORMAT = _SHARED[-1]


def asks_cluster(command: F) -> F:
    """Add the shared options; the command gets a `Session` as its first argument in their place."""

    @wraps(command)
    def with_session(
        bootstrap: str | None,
        profile: str | None,
        command_config: Path | None,
        timeout_seconds: float | None,
        form: str | None,
        **options: Any,
    ) -> None:
        session = Session(_command_name(), Reach(bootstrap, profile, command_config, timeout_seconds), form)
        # Set first, because the document of an error has it, too.
        session.out.is_dry_run = options.get("is_dry_run")
        try:
            command(session, **options)
        except ConfigError as error:
            # The error of a file that the command line names.
            raise click.UsageError(str(error)) from None

    wrapped: Any = with_session
    for option in reversed(_SHARED):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]


def prints_rows(command: F) -> F:
    """Add `--output` to a command without a cluster; it gets a `Session` as its first argument."""

    @wraps(command)
    def with_session(form: str | None, **options: Any) -> None:
        command(Session(_command_name(), Reach(), form), **options)

    return _FORMAT(with_session)  # type: ignore[return-value]


def _command_name() -> str:
    """Return the command's words, without the program's name."""
    return click.get_current_context().command_path.partition(" ")[2]


DRY_RUN = click.option("--dry-run", "is_dry_run", is_flag=True, help="Print what would happen, and change nothing.")
YES = click.option("-y", "--yes", is_flag=True, help="Do not ask first.")


def pairs(values: tuple[str, ...], flag: str) -> dict[str, str]:
    """Return KEY=VALUE options as a dictionary."""
    found = {}
    for each in values:
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{flag} {each}: use KEY=VALUE")
        found[key.strip()] = value
    return found
