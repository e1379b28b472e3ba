"""Kafka's command line tools in one JVM for many commands: a JVM for each would take a second and more."""

import base64
from pathlib import Path
from typing import NamedTuple

from compat_tests import jars
from compat_tests.java import JavaProgram

SOURCE = Path(__file__).parent / "Tools.java"


class Printed(NamedTuple):
    """What a command left behind."""

    code: int
    stdout: str
    stderr: str


class Tools(JavaProgram):
    """The JVM of the tools."""

    def __init__(self, folder: Path) -> None:
        super().__init__(SOURCE, jars.TOOLS, jars.BROKER, folder=folder)

    def run(self, main_class: str, *arguments: str) -> Printed:
        """Run one command to its end."""
        code, printed, complained = self.answer("\t".join([main_class, *arguments])).split("\t")
        return Printed(int(code), base64.b64decode(printed).decode(), base64.b64decode(complained).decode())
