"""`ottla verify`: prints the defects, and a bar on a terminal.

Must not know what is checked. Counterpart in Kafka: none.
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
    """Print each defect and a summary; return the exit code."""
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
    """Yield a function that advances a bar of bytes on a terminal; elsewhere it shows nothing."""
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("", total=total)
        yield lambda size: progress.advance(task, size)
