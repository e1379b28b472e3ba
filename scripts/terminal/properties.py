"""Client properties on the command line, for commands that measure or test: `--property linger.ms=50`.

Owns the option and its check. Must not know the use of a property.
"""

from collections.abc import Mapping

import click

from ottla.client.config import KEYS
from ottla.scripts.terminal.options import pairs
from ottla.wire.config_def import ConfigType, nearest

PROPERTIES = click.option(
    "-X",
    "--property",
    "properties",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set one of Kafka's client properties, such as linger.ms=50. May be given several times.",
)


def read_properties(given: tuple[str, ...], own: Mapping[str, str | None]) -> dict[str, str]:
    """Return the properties; the command's own options (None: not given) override `--property`.

    UsageError for an unknown property, and for a secret.
    """
    found = pairs(given, "--property")
    for name in found:
        if name not in KEYS:
            guess = nearest(name, KEYS)
            raise click.UsageError(f"--property {name}: there is none{f'; did you mean {guess}?' if guess else ''}")
        if KEYS[name].type is ConfigType.PASSWORD:
            text = "is a secret, but other users can see command lines: give it by --command-config"
            raise click.UsageError(f"--property {name}: it {text}")
    return {**found, **{name: value for name, value in own.items() if value is not None}}
