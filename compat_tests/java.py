"""A Java program in a JVM of its own, spoken to line by line: it stays for many questions, for starting is slow."""

import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from compat_tests import jars


class JavaProgram:
    """A source file, running with some jars and what these need, until the end of the `with` block."""

    def __init__(self, source: Path, *coordinates: str, folder: Path | None = None) -> None:
        path = os.pathsep.join(map(jars.classpath, coordinates))
        self._command = [jars.require("java"), "-Xmx512M", *jars.QUICK, "-cp", path, str(source)]
        self._folder = folder
        self._start()

    def _start(self) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, text=True, cwd=self._folder)

    def restarted(self) -> int:
        """Start the program anew after it ended itself, and return the code that it ended with."""
        code = self._process.wait()
        self._process.communicate()
        self._start()
        return code

    def answer(self, line: str) -> str:
        """Send a line; return the one that answers it."""
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
