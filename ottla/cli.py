"""The command `ottla`: reads its arguments and hands them on.

Knows no broker: whatever is heavy is imported by the subcommand that needs it. Counterpart: kafka-server-start.sh.
"""

import os
import sys
from pathlib import Path

import click


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ottla", message="%(prog)s %(version)s")
def main() -> None:
    """Run Ottla, a Kafka broker in Python."""


@main.command()
@click.argument("properties", required=False, type=click.Path(path_type=Path), metavar="[SERVER.PROPERTIES]")
@click.option(
    "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Set a key over file and environment."
)
def serve(properties: Path | None, overrides: tuple[str, ...]) -> None:
    """Serve Kafka clients until SIGTERM or SIGINT.

    Keys are Kafka's. They are read from the file, then from KAFKA_* environment variables as Kafka's container image
    maps them, then from --override; the last one counts.
    """
    pairs = dict(_pair(override) for override in overrides)
    from ottla.serving import run

    sys.exit(run(properties, pairs, os.environ))


def _pair(override: str) -> tuple[str, str]:
    name, equals, value = override.partition("=")
    if not equals or not name.strip():
        click.echo(f"ottla: --override takes KEY=VALUE, not {override!r}", err=True)
        sys.exit(1)
    return name.strip(), value
