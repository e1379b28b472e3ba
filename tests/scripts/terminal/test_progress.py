"""The progress of a long operation."""

import contextlib
import os
import pty
import subprocess
import sys

import pytest

from ottla.scripts.terminal.progress import Progress, sized

PROGRAM = """
import sys
from ottla.scripts.terminal.progress import Progress
with Progress("copying", counts_bytes=True) as progress:
    progress.update(1_000_000, 4_000_000)
print("rich.progress" in sys.modules)
"""


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1_234_567, "1.2 MB"), (5e9, "5.0 GB"), (2e18, "2000.0 PB")],
)
def test_a_size_is_shown_in_decimal_units(count: float, text: str) -> None:
    assert sized(count) == text


def test_without_a_terminal_on_stderr_nothing_is_shown_and_rich_is_not_imported() -> None:
    done = subprocess.run([sys.executable, "-P", "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_a_bar_ends_even_if_nothing_was_done() -> None:
    with Progress("copying"):
        pass


def test_a_terminal_shows_the_amount_done_and_the_total() -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-P", "-c", PROGRAM], stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while data := os.read(ours, 65536):
                shown += data
        assert process.stdout is not None
        assert process.stdout.read() == b"True\n"
    os.close(ours)
    assert b"copying" in shown
    assert b"1.0/4.0 MB" in shown
