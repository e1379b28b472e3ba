"""Kafka's own classes for record batches, each in a JVM of its own, spoken to line by line."""

import subprocess
import tempfile
import zipfile
from pathlib import Path
from types import TracebackType
from typing import Self

from compat_tests import jars

FOLDER = Path(__file__).parent
# Kafka 4.4 moved its classes for records.
OLD_PACKAGE = "org.apache.kafka.common.record"
NEW_PACKAGE = f"{OLD_PACKAGE}.internal"


class Refused(Exception):  # noqa: N818
    """Kafka threw."""


class Java:
    """A program of this folder, running with a jar and what that needs."""

    def __init__(self, program: str, coordinates: str) -> None:
        java = jars.require("java")
        classpath = jars.classpath(coordinates)
        self._folder = tempfile.TemporaryDirectory()
        source = Path(self._folder.name, f"{program}.java")
        source.write_text(_for_classpath((FOLDER / source.name).read_text(), classpath))
        command = [java, "-Xmx256M", "-XX:+UseSerialGC", "-cp", classpath, str(source)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *words: object) -> list[str]:
        """Send one line; return the words of the answer. Refused if Kafka threw."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(" ".join(map(str, words)) + "\n")
        stdin.flush()
        answer = stdout.readline()
        if not answer.startswith("="):
            raise Refused(answer.strip() or "the JVM has ended")
        return answer.split()[1:]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()


def _for_classpath(source: str, classpath: str) -> str:
    clients = next(path for path in classpath.split(":") if Path(path).name.startswith("kafka-clients"))
    with zipfile.ZipFile(clients) as archive:
        moved = {name for name in archive.namelist() if name.startswith(NEW_PACKAGE.replace(".", "/"))}
    for name in moved:
        new = name.removesuffix(".class").replace("/", ".")
        source = source.replace(f"import {new.replace('.internal', '')};", f"import {new};")
    return source
