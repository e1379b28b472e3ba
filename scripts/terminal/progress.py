"""The progress of a long operation: a bar with its rate and its expected end, on stderr.

Owns the bar. Must not know the operation. Without a terminal on stderr nothing is shown, and rich is not imported.
"""

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")
_STEP: Final = 1000


def sized(count: float) -> str:
    """Return a number of bytes for people: 1.2 GB."""
    number, unit = float(count), 0
    while number >= _STEP and unit < len(_UNITS) - 1:
        number, unit = number / _STEP, unit + 1
    return f"{number:.1f} {_UNITS[unit]}" if unit else f"{int(number)} B"


class Progress:
    """A bar for as long as a `with` block lasts."""

    def __init__(self, what: str, *, counts_bytes: bool = False) -> None:
        self._what = what
        self._counts_bytes = counts_bytes
        self._bar: Bar | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._bar = _bar(self._counts_bytes)
            self._bar.add_task(self._what, total=None)
            self._bar.start()
        return self

    def update(self, done: float, total: float | None = None, what: str | None = None) -> None:
        """Show the amount that is done; with None the total, or the text, stays as it was."""
        if self._bar is None:
            return
        task = self._bar.tasks[0]
        self._bar.update(
            task.id,
            completed=done,
            total=task.total if total is None else total,
            description=task.description if what is None else what,
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


def _bar(counts_bytes: bool) -> "Bar":
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        ProgressColumn,
        Task,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bar
    from rich.text import Text

    class RateColumn(ProgressColumn):
        """The amount done in a second."""

        def render(self, task: Task) -> Text:
            """Return the rate; an empty text until it is known."""
            return Text("" if task.speed is None else f"{task.speed:,.0f}/s", style="progress.data.speed")

    columns: list[ProgressColumn] = [TextColumn("{task.description}"), BarColumn(), TaskProgressColumn()]
    if counts_bytes:
        columns += [DownloadColumn(), TransferSpeedColumn()]
    else:
        columns += [MofNCompleteColumn(), RateColumn()]
    return Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
