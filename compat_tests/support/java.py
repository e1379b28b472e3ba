"""Java: the fastest start of a JVM, and programs of ours that answer many lines.

A JVM that is not measured (`jars.QUICK`) starts with an archive of classes, if `class_archives` has made one for its
class path. A JVM that cannot use the archive, because another Java made it or a jar has changed, starts without it and
prints nothing. A program is compiled once.
"""

import contextlib
import hashlib
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from compat_tests.support import jars

ARCHIVES = Path(sys.prefix) / "classes"
"""Each Python environment has its own, because Spark's jars are in the environment."""
PROGRAMS = jars.CACHE / "programs"

_counts = itertools.count()
_listing: list[tuple[Path, set[str]]] = []


def java_command(path: str, *options: str) -> list[str]:
    """Return the begin of a command line: Java with a class path; if `options` are QUICK, also an archive."""
    is_quick = set(jars.QUICK) <= set(options)
    return [jars.require("java"), *options, *(_archive_options(path) if is_quick else ()), "-cp", path]


def archive_of(path: str) -> Path:
    """Return the archive for a class path, which may not exist."""
    return ARCHIVES / f"{_digest(path.encode())}.jsa"


def _archive_options(path: str) -> tuple[str, ...]:
    for folder, paths in _listing:
        paths.add(path)
        return (f"-XX:DumpLoadedClassList={folder / str(next(_counts))}",)
    archive = archive_of(path)
    # Without this, Java prints to stdout why it does not use an archive.
    return (f"-XX:SharedArchiveFile={archive}", "-Xlog:disable") if archive.exists() else ()


@contextlib.contextmanager
def listing_classes(folder: Path) -> Iterator[set[str]]:
    """Make each JVM of the block write its loaded classes to a file in a folder. Yields the JVMs' class paths."""
    _listing.append((folder, set()))
    try:
        yield _listing[-1][1]
    finally:
        _listing.pop()


def program_command(source: Path, *coordinates: str, heap: str = "512M") -> list[str]:
    """Return the command line of a program with some jars and their dependencies."""
    path = os.pathsep.join(map(jars.classpath, coordinates))
    path = os.pathsep.join([path, str(_compiled(source, path))])
    return [*java_command(path, f"-Xmx{heap}", *jars.QUICK), source.stem]


def _compiled(source: Path, path: str) -> Path:
    """Return a jar of a compiled source file, and make it if it is missing."""
    compiler = jars.require("javac")
    digest = _digest(os.path.realpath(compiler).encode(), path.encode(), source.read_bytes())
    jar = PROGRAMS / f"{source.stem}-{digest}.jar"
    if jar.exists():
        return jar
    with tempfile.TemporaryDirectory() as folder:
        command = [compiler, "-nowarn", "-cp", path, "-d", folder, str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return jars.archive(jar, {each.name: each.read_bytes() for each in sorted(Path(folder).iterdir())})


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


class JavaProgram:
    """A running source file with some jars and their dependencies, until the end of the `with` block."""

    def __init__(self, source: Path, *coordinates: str, folder: Path | None = None) -> None:
        self._command = program_command(source, *coordinates)
        self._folder = folder
        self._start()

    def _start(self) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, text=True, cwd=self._folder)

    def restarted(self) -> int:
        """Start the program anew after its end, and return its exit code."""
        code = self._process.wait()
        self._process.communicate()
        self._start()
        return code

    def answer(self, line: str) -> str:
        """Send a line; return the answer."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(line + "\n")
        stdin.flush()
        answer = stdout.readline()
        assert answer, "the JVM has ended"
        return answer.rstrip("\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
