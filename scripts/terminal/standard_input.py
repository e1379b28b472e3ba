"""A command's input in pieces, read while other tasks run.

Owns the reading. Must not know what the bytes are.
"""

import os
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Final

import trio

_PIECE: Final = 1 << 18
_STDIN: Final = Path("-")


async def pieces(files: Sequence[Path] = ()) -> AsyncGenerator[bytes | None, None]:
    """Yield pieces of the files one after the other, with None after each file; of stdin if there are no files."""
    for path in files or (_STDIN,):
        descriptor = sys.stdin.fileno() if path == _STDIN else os.open(path, os.O_RDONLY)
        try:
            # In a thread, because reading a terminal or a pipe blocks.
            while piece := await trio.to_thread.run_sync(os.read, descriptor, _PIECE, abandon_on_cancel=True):
                yield piece
        finally:
            if path != _STDIN:
                os.close(descriptor)
        yield None
