"""Parsers of options: pairs, levels, addresses, and the defaults without a properties file.

Owns the one line that refuses a text. Must not know what a command does with the values. Counterpart in Kafka: none.
"""

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn

import click

from ottla.loggers import LEVELS

_ADDRESS = re.compile(r"(?:\[(?P<bracketed>[0-9a-fA-F.:]+)\]|(?P<host>[\w.-]+))(?::(?P<port>[0-9]{1,9}))?", re.ASCII)
# Each of these means every address of this machine; in `listeners` an empty host means it.
_EVERY_ADDRESS = ("0.0.0.0", "::")


def refuse(reason: str) -> NoReturn:
    """Print the reason as one line and exit with 1."""
    click.echo(f"ottla: {reason}", err=True)
    sys.exit(1)


def pair(text: str, option: str = "--override") -> tuple[str, str]:
    """Return the two sides of KEY=VALUE."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        refuse(f"{option} takes KEY=VALUE, not {text!r}")
    return name.strip(), value


def level(text: str) -> tuple[str, int]:
    """Return the logger (empty: the root) and the level of [LOGGER=]LEVEL."""
    logger, _, name = text.rpartition("=")
    if name.strip().upper() not in LEVELS:
        refuse(f"--log-level takes one of {', '.join(LEVELS)}, or LOGGER= and one of them, not {text!r}")
    return logger.strip(), LEVELS[name.strip().upper()]


def address(listen: str | None, port: int | None) -> tuple[str | None, int | None]:
    """Return host and port of --listen HOST[:PORT] and --port; None for a part that is not given."""
    if listen is None:
        return None, port
    match = _ADDRESS.fullmatch(listen)
    if not match or int(match["port"] or 0) > 65535:
        refuse(f"--listen takes HOST or HOST:PORT, not {listen!r}")
    if match["port"] and port is not None:
        refuse("--listen and --port both name a port")
    host = match["bracketed"] or match["host"]
    return "" if host in _EVERY_ADDRESS else host, int(match["port"]) if match["port"] else port


def settings(overrides: Iterable[str], data: Path | None, zookeeper: str | None = None) -> dict[str, str]:
    """Return the keys of --override, overridden by --data and --zookeeper."""
    pairs = dict(map(pair, overrides))
    if data is not None:
        pairs["log.dirs"] = str(data)
    if zookeeper is not None:
        pairs["zookeeper.connect"] = zookeeper
    return pairs


def defaults_without_file(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the defaults of a broker for this machine alone, with its data in the user's data folder."""
    base = Path(environ.get("XDG_DATA_HOME", ""))
    try:
        # The XDG specification ignores a relative path.
        folder = str((base if base.is_absolute() else Path.home() / ".local" / "share") / "ottla")
    except RuntimeError:
        folder = ""  # A user without a home directory has to set log.dirs.
    return {"listeners": "PLAINTEXT://localhost:9092", "log.dir": folder}
