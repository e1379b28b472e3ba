"""Kafka's command line tools in one JVM for many commands, because a JVM for each would take over a second."""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from compat_tests.support.brokers import NEWEST
from compat_tests.support.java import JavaProgram

SOURCE = Path(__file__).parent / "Tools.java"


class Printed(NamedTuple):
    """The output and the exit code of a command."""

    code: int
    stdout: str
    stderr: str


class Runs(Protocol):
    """Runs a tool by the name of its Java class: Kafka's tool, or an imitation."""

    def run(self, main_class: str, *arguments: str) -> Printed:
        """Run one command to its end."""
        ...


class Tools(JavaProgram):
    """The JVM of the tools."""

    def __init__(self, folder: Path, jars: Sequence[str] = NEWEST) -> None:
        super().__init__(SOURCE, *jars, folder=folder)

    def run(self, main_class: str, *arguments: str) -> Printed:
        """Run one command to its end."""
        code, printed, complained = self.answer("\t".join([main_class, *arguments])).split("\t")
        # A tool that ends the JVM itself: its code is the JVM's.
        number = self.restarted() if code == "ended" else int(code)
        return Printed(number, base64.b64decode(printed).decode(), base64.b64decode(complained).decode())


def normalized(printed: Printed, names: Mapping[str, str]) -> Printed:
    """Replace a cluster's values by their common names, and leave out what differs in all clusters."""
    return Printed(printed.code, _normalized(printed.stdout, names), _normalized(printed.stderr, names))


def _normalized(text: str, names: Mapping[str, str]) -> str:
    for here, everywhere in names.items():
        text = text.replace(here, everywhere)
    text = re.sub(r"TopicId: \S{22}", "TopicId: ID", text)
    text = re.sub(r"adminclient-\d+", "adminclient-N", text)
    # A client's timeout names its current operation, which is chance.
    text = re.sub(r"TimeoutException: .*", "TimeoutException", text)
    # The place in the tool where an error was caught.
    text = re.sub(r"\n\t(at .*|\.\.\. \d+ more)", "", text)
    return re.sub(r'^\{.*"brokers":.*', lambda found: _sorted_json(found.group()), text, flags=re.MULTILINE)


def _sorted_json(text: str) -> str:
    """Return the output of LogDirsCommand, sorted."""
    found: Any = json.loads(text)
    found["brokers"].sort(key=lambda each: each["broker"])
    for broker in found["brokers"]:
        broker["logDirs"].sort(key=lambda each: each["logDir"])
    for directory in (each for broker in found["brokers"] for each in broker["logDirs"]):
        directory["partitions"].sort(key=lambda each: each["partition"])
    return json.dumps(found)
