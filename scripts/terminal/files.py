"""Text files on the command line.

Owns the errors of files that cannot be read. Must not know the format of a text.
"""

import sys
from pathlib import Path
from typing import Final

import click

_STDIN: Final = Path("-")


def read_text(path: Path) -> str:
    """Return the text of a file, or of stdin for `-`. UsageError if it cannot be read, or is not UTF-8."""
    try:
        return (sys.stdin.buffer.read() if path == _STDIN else path.read_bytes()).decode("utf-8")
    except UnicodeDecodeError:
        raise click.UsageError(f"{path}: the file is not UTF-8") from None
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror or error}") from None
