"""Repeated rows for `--watch`: a live screen on a terminal, elsewhere new rows every interval.

Must not know the rows. Ctrl-C ends it.
"""

import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from io import StringIO
from typing import NoReturn

import click
import trio

from ottla.scripts.terminal.output import NDJSON, TABLE, TSV, Output
from ottla.scripts.terminal.session import Session

WATCH = click.option("--watch", is_flag=True, help="Repeat the output until Ctrl-C.")
INTERVAL = click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="With --watch, the pause between two outputs.",
)
Collect = Callable[[Output, str | None], Awaitable[None]]
"""Adds columns and rows to an output. The text is the time, for the first column of each row."""


async def show(session: Session, collect: Collect, interval: float | None) -> None:
    """Show rows once (None), or every so many seconds until the command is interrupted."""
    if interval is None:
        await collect(session.out, None)
    elif session.out.form == TABLE and sys.stdout.isatty():
        await _live(collect, interval)
    elif session.out.form not in (TABLE, TSV, NDJSON):
        raise click.UsageError(f"--watch has no end, and --output {session.out.form} is one document: use ndjson")
    else:
        while True:
            await collect(session.out, datetime.now(UTC).isoformat(timespec="milliseconds"))
            session.out.end()
            await trio.sleep(interval)


async def _live(collect: Collect, interval: float) -> NoReturn:
    from rich.live import Live
    from rich.text import Text

    with Live(Text(""), screen=True, auto_refresh=False) as screen:
        while True:
            text = StringIO()
            out = Output("", TABLE, text)
            await collect(out, None)
            out.end()
            title = f"{datetime.now().astimezone():%H:%M:%S}  every {interval:g} s, until Ctrl-C\n\n"
            screen.update(Text(title + text.getvalue(), no_wrap=True, overflow="ellipsis"), refresh=True)
            await trio.sleep(interval)


def time_column(time: str | None) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the first cell of a row and the first column: the time, or none."""
    return ({}, ()) if time is None else ({"time": time}, ("time",))
