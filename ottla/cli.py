"""The command `ottla`: reads its arguments and hands them on.

Knows no broker: whatever is heavy is imported by the subcommand that needs it. Counterpart: kafka-server-start.sh.
"""

import os
import sys
from pathlib import Path
from typing import NoReturn

import click

from ottla.loggers import FORMATS, LEVELS


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ottla", message="%(prog)s %(version)s")
def main() -> None:
    """Run Ottla, a Kafka broker in Python."""


@main.command()
@click.argument("properties", required=False, type=click.Path(path_type=Path), metavar="[SERVER.PROPERTIES]")
@click.option(
    "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Set a key over file and environment."
)
@click.option(
    "--log-format",
    type=click.Choice(list(FORMATS)),
    default="text",
    help="How the lines on stderr look: as Kafka's, or one JSON object each.",
)
@click.option(
    "--log-level",
    "levels",
    multiple=True,
    metavar="[LOGGER=]LEVEL",
    help=f"The least level to tell of, one of {', '.join(LEVELS)}; with a logger's name, for that one. Default: INFO.",
)
def serve(properties: Path | None, overrides: tuple[str, ...], log_format: str, levels: tuple[str, ...]) -> None:
    """Serve Kafka clients until SIGTERM or SIGINT.

    Keys are Kafka's. They are read from the file, then from KAFKA_* environment variables as Kafka's container image
    maps them, then from --override; the last one counts.
    """
    pairs = dict(_pair(override) for override in overrides)
    by_logger = dict(_level(level) for level in levels)
    from ottla.serving import run

    sys.exit(run(properties, pairs, os.environ, log_format, by_logger))


def _pair(override: str) -> tuple[str, str]:
    name, equals, value = override.partition("=")
    if not equals or not name.strip():
        _refuse(f"--override takes KEY=VALUE, not {override!r}")
    return name.strip(), value


def _level(text: str) -> tuple[str, int]:
    logger, _, level = text.rpartition("=")
    if level.strip().upper() not in LEVELS:
        _refuse(f"--log-level takes one of {', '.join(LEVELS)}, or LOGGER= and one of them, not {text!r}")
    return logger.strip(), LEVELS[level.strip().upper()]


def _refuse(reason: str) -> NoReturn:
    click.echo(f"ottla: {reason}", err=True)
    sys.exit(1)
