"""Kafka's command line tools in one JVM for many commands: a JVM for each would take a second and more."""

import base64
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from compat_tests import jars

SOURCE = Path(__file__).parent / "Tools.java"


class Printed(NamedTuple):
    """What a command left behind."""

    code: int
    stdout: str
    stderr: str


class Tools:
    """The JVM; it stays for many commands."""

    def __init__(self, folder: Path) -> None:
        paths = os.pathsep.join([jars.classpath(jars.TOOLS), jars.classpath(jars.BROKER)])
        command = [jars.require("java"), "-Xmx256M", "-XX:+UseSerialGC", "-cp", paths, str(SOURCE)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=folder)

    def run(self, main_class: str, *arguments: str) -> Printed:
        """Run one command to its end."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write("\t".join([main_class, *arguments]) + "\n")
        stdin.flush()
        code, printed, complained = stdout.readline().rstrip("\n").split("\t")
        return Printed(int(code), base64.b64decode(printed).decode(), base64.b64decode(complained).decode())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
