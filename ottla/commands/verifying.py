"""Runs `ottla verify`: the lines that it prints, and a bar where somebody looks.

Must not know what is checked. Counterpart: none.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

from ottla.log.state.directory_failures import NoLogDirectoryError
from ottla.log.state.meta_properties import DirectoryInUse
from ottla.log.verify.verify import NotALogDirectoryError, size_of, verify


def run(directories: Sequence[Path], repair: bool) -> int:
    """Say what is wrong, and how much; return the exit code."""
    try:
        with _progress(size_of(directories)) as progress:
            summary = verify(directories, _say, repair=repair, progress=progress)
    except (DirectoryInUse, NoLogDirectoryError, NotALogDirectoryError, OSError) as error:
        sys.stderr.write(f"ottla: {error}\n")
        return 1
    _say(str(summary))
    return 0 if summary.is_sound else 1


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """A bar of bytes on a terminal; elsewhere nothing."""
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("", total=total)
        yield lambda size: progress.advance(task, size)
