"""Lines of files that are still appended to: which are whole, which are new, and reading them.

Owns what a position in such files is: for each path, the offset behind the last line that was read. A file is known by
its path alone. One that is shorter than its position was replaced, and is read from its beginning; one that was
replaced by a longer one cannot be told from one that grew. Must not know Spark. Counterpart in Kafka:
FileStreamSourceTask.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from glob import escape, iglob
from pathlib import Path
from typing import BinaryIO, Final

_BLOCK_BYTES: Final = 1 << 16
_PART_BYTES: Final = 1 << 20
_RANGE_BYTES: Final = 64 << 20


@dataclass(frozen=True)
class Range:
    """The lines of a file that begin in a range of it; `end` is exclusive."""

    path: str
    begin: int
    end: int


def find(pattern: str) -> list[str]:
    """The files that a path names: itself, all in a folder, or what a pattern matches; not those that are hidden."""
    path = Path(pattern)
    found = iglob(f"{escape(pattern)}/*") if path.is_dir() else iglob(pattern, recursive=True)  # noqa: PTH207
    return sorted(each for each in found if not each.rpartition("/")[2].startswith(("_", ".")) and Path(each).is_file())


class Ends:
    """Where the whole lines of files end; looks into a file only when its size has changed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int]] = {}

    def of(self, paths: list[str]) -> dict[str, int]:
        """The offset behind the last newline of each file that is there."""
        known = {}
        for path in paths:
            try:
                size = Path(path).stat().st_size
                earlier_size, end = self._known.get(path, (0, 0))
                if size != earlier_size:
                    end = _end_of_lines(path, end if size > earlier_size else 0, size)
                known[path] = (size, end)
            except FileNotFoundError:
                continue
        self._known = known
        return {path: end for path, (_, end) in known.items()}


def _end_of_lines(path: str, earlier: int, end: int) -> int:
    with open(path, "rb") as file:
        while end > earlier:
            begin = max(earlier, end - _BLOCK_BYTES)
            file.seek(begin)
            newline = file.read(end - begin).rfind(b"\n")
            if newline >= 0:
                return begin + newline + 1
            end = begin
    return earlier


def new_ranges(start: Mapping[str, int], end: Mapping[str, int]) -> list[Range]:
    """What was added between two positions, in ranges that a task each can read."""
    found = []
    for path, last in sorted(end.items()):
        first = start.get(path, 0)
        if last < first:
            first = 0
        found += [Range(path, begin, min(begin + _RANGE_BYTES, last)) for begin in range(first, last, _RANGE_BYTES)]
    return found


def read_lines(part: Range, *, skip_header: bool = False) -> Iterator[list[str]]:
    """The lines of a range without what ends them, some at a time; `skip_header` leaves out the first line of a file.

    A file that has become shorter since it was looked at raises EOFError.
    """
    with open(part.path, "rb") as file:
        end = _line_start(file, part.end)
        at = _line_start(file, max(part.begin, 1) if skip_header else part.begin)
        file.seek(at)
        rest = b""
        while at < end and (part_of_it := file.read(min(_PART_BYTES, end - at))):
            at += len(part_of_it)
            *whole, rest = (rest + part_of_it).split(b"\n")
            if whole:
                yield [line.removesuffix(b"\r").decode(errors="replace") for line in whole]
        if at < end or os.fstat(file.fileno()).st_size < part.end:
            raise EOFError(f"{part.path} has become shorter before all of it was read")


def _line_start(file: BinaryIO, offset: int) -> int:
    """The first offset, from some offset on, at which a line begins."""
    if offset == 0:
        return 0
    file.seek(offset - 1)
    file.readline()
    return file.tell()
