"""`ottla install-shims`: scripts with the names of Kafka's tools, so that scripts that call those run unchanged.

Counterpart in Kafka: bin/*.sh.
"""

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from ottla.scripts.kafka import TOOLS
from ottla.scripts.kafka.absent import ABSENT
from ottla.scripts.terminal.options import prints_rows
from ottla.scripts.terminal.session import Session

_MARK: Final = "# Written by `ottla install-shims`."
_SHIM: Final = """\
#!/bin/sh
{mark}
exec {python} -P -m ottla.scripts.kafka --as {release} {tool} "$@"
"""


@click.command("install-shims")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@click.option(
    "--as",
    "release",
    type=click.Choice(["4.3", "3.9"]),
    default="4.3",
    show_default=True,
    help="Imitate the tools of this release of Kafka.",
)
@click.option("--overwrite", is_flag=True, help="Replace scripts of these names that another program wrote.")
@prints_rows
def install_shims(session: Session, directory: Path, release: str, overwrite: bool) -> None:
    """Write kafka-topics.sh and its sisters to DIR.

    Each script takes the flags of Kafka's tool, prints its lines and ends with its exit codes, without Java. Put DIR
    first on the PATH, and scripts that call Kafka's tools run unchanged. Each tool has a script under both of its
    names, kafka-topics and kafka-topics.sh. The script of a tool that is not imitated prints an error and ends with 1.
    """
    session.run_local(_install, directory, release, overwrite)


def _install(session: Session, directory: Path, release: str, overwrite: bool) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    foreign = [path for path in _paths(directory) if path.exists() and not _is_ours(path)]
    if foreign and not overwrite:
        names = ", ".join(path.name for path in foreign[:3])
        raise click.UsageError(
            f"{directory} holds {names} of another program: choose another directory, or --overwrite"
        )
    session.out.begin("tool", "script")
    for path in _paths(directory):
        tool = path.name.removesuffix(".sh")
        text = _SHIM.format(mark=_MARK, python=shlex.quote(sys.executable), release=release, tool=tool)
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(path)
        session.out.row(tool=tool, script=str(path))


def _paths(directory: Path) -> Iterator[Path]:
    for tool in (*TOOLS, *ABSENT):
        yield directory / f"{tool}.sh"
        yield directory / tool


def _is_ours(path: Path) -> bool:
    try:
        return _MARK in path.read_text(errors="replace")
    except OSError:
        return False
