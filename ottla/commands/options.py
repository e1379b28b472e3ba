"""What the texts of options mean: pairs, levels, addresses, and what stands where no properties file is given.

Owns the one line that refuses a text. Must not know what a command does with the values.
"""

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn

import click

from ottla.loggers import LEVELS

_ADDRESS = re.compile(r"(?:\[(?P<bracketed>[0-9a-fA-F.:]+)\]|(?P<host>[\w.-]+))(?::(?P<port>[0-9]{1,9}))?", re.ASCII)
# What stands for every address of this machine; in `listeners` that is no host at all.
_EVERY_ADDRESS = ("0.0.0.0", "::")


def refuse(reason: str) -> NoReturn:
    """End the command with one line that says why."""
    click.echo(f"ottla: {reason}", err=True)
    sys.exit(1)


def pair(text: str, option: str = "--override") -> tuple[str, str]:
    """Return the two sides of KEY=VALUE."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        refuse(f"{option} takes KEY=VALUE, not {text!r}")
    return name.strip(), value


def level(text: str) -> tuple[str, int]:
    """Return the logger, an empty name for all, and the level of [LOGGER=]LEVEL."""
    logger, _, name = text.rpartition("=")
    if name.strip().upper() not in LEVELS:
        refuse(f"--log-level takes one of {', '.join(LEVELS)}, or LOGGER= and one of them, not {text!r}")
    return logger.strip(), LEVELS[name.strip().upper()]


def address(listen: str | None, port: int | None) -> tuple[str | None, int | None]:
    """Return the host and the port of --listen HOST[:PORT] and --port, None for one that neither says."""
    if listen is None:
        return None, port
    match = _ADDRESS.fullmatch(listen)
    if not match or int(match["port"] or 0) > 65535:
        refuse(f"--listen takes HOST or HOST:PORT, not {listen!r}")
    if match["port"] and port is not None:
        refuse("--listen and --port both say a port")
    host = match["bracketed"] or match["host"]
    return "" if host in _EVERY_ADDRESS else host, int(match["port"]) if match["port"] else port


def settings(overrides: Iterable[str], data: Path | None, zookeeper: str | None = None) -> dict[str, str]:
    """Return the keys that --override sets, and over them those of --data and --zookeeper."""
    pairs = dict(map(pair, overrides))
    if data is not None:
        pairs["log.dirs"] = str(data)
    if zookeeper is not None:
        pairs["zookeeper.connect"] = zookeeper
    return pairs


def defaults_without_file(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the defaults of a broker for this machine alone, which keeps its data where the user's data is."""
    base = Path(environ.get("XDG_DATA_HOME", ""))
    try:
        # The specification of that variable says that a relative path is ignored.
        folder = str((base if base.is_absolute() else Path.home() / ".local" / "share") / "ottla")
    except RuntimeError:
        folder = ""  # A user without a home directory has to set log.dirs.
    return {"listeners": "PLAINTEXT://localhost:9092", "log.dir": folder}
