"""Kafka's own classes for record batches, each in a JVM of its own, spoken to line by line."""

import tempfile
import zipfile
from pathlib import Path
from types import TracebackType

from compat_tests.support import jars
from compat_tests.support.java import JavaProgram

FOLDER = Path(__file__).parent
# Kafka 4.4 moved its classes for records.
OLD_PACKAGE = "org.apache.kafka.common.record"
NEW_PACKAGE = f"{OLD_PACKAGE}.internal"


class Refused(Exception):  # noqa: N818
    """Kafka threw."""


class Java(JavaProgram):
    """A program of this folder, running with a jar and what that needs."""

    def __init__(self, program: str, coordinates: str) -> None:
        self._sources = tempfile.TemporaryDirectory()
        source = Path(self._sources.name, f"{program}.java")
        source.write_text(_for_classpath((FOLDER / source.name).read_text(), jars.classpath(coordinates)))
        super().__init__(source, coordinates)

    def ask(self, *words: object) -> list[str]:
        """Send one line; return the words of the answer. Refused if Kafka threw."""
        answer = self.answer(" ".join(map(str, words)))
        if not answer.startswith("="):
            raise Refused(answer.strip())
        return answer.split()[1:]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, traceback)
        self._sources.cleanup()


def _for_classpath(source: str, classpath: str) -> str:
    clients = next(path for path in classpath.split(":") if Path(path).name.startswith("kafka-clients"))
    with zipfile.ZipFile(clients) as archive:
        moved = {name for name in archive.namelist() if name.startswith(NEW_PACKAGE.replace(".", "/"))}
    for name in moved:
        new = name.removesuffix(".class").replace("/", ".")
        source = source.replace(f"import {new.replace('.internal', '')};", f"import {new};")
    return source
