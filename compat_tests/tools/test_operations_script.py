"""A script of Kafka's commands has the same output and exit codes with Kafka's or Ottla's commands and brokers.

`operations.sh` runs as for an operator: with Kafka's commands on the PATH, each of them a JVM, and with the scripts of
`ottla install-shims`. `make test` compares the two most important runs, Kafka's commands on Apache Kafka and Ottla's on
Ottla; `make compat` also runs the other combinations.
"""

import contextlib
import functools
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from compat_tests.support.brokers import ApacheKafka, Broker, Ottla, running, tool_command
from compat_tests.support.tools import Printed, normalized
from compat_tests.tools.imitation.tools import CLASSES, without_help

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parent / "operations.sh"
SETTINGS = ["node.id=1", "group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=1"]
LEAST = 40
PATIENCE_S = 240
_COMMAND = re.compile(r"^\$ (.*)\n", re.MULTILINE)
_END = re.compile(r"((?:^! .*\n)*)^exit code (\d+)\n", re.MULTILINE)
# A random id alone on its line; `normalized` leaves out the ids of topics.
_CLUSTER_ID = re.compile(r"(?<=Cluster ID: )\S{22}")
# Exceptions beside the one that ended a tool are part of a stack trace.
_TRACE = re.compile(r"\n\t.*")
# The one line of the shims for the repeated log lines of Kafka's clients about an unreachable broker.
_NOBODY_THERE = re.compile(r"^127\.0\.0\.1:1: Connection refused\..*\n", re.MULTILINE)


class Step(NamedTuple):
    """A command of the script, with its output and exit code."""

    command: str
    printed: Printed


class Run:
    """A running script on a broker of its own."""

    def __init__(self, commands: Path, kind: type[Broker], stack: contextlib.ExitStack) -> None:
        self._broker = stack.enter_context(running(kind, SETTINGS))
        environment = {**os.environ, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "80"}
        self._output = self._broker.data / "operations.txt"
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                ["bash", str(SCRIPT), self._broker.bootstrap],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                process_group=0,
            )
        stack.callback(self._end)

    def _end(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def steps(self) -> list[Step]:
        """Wait for the end of the script; return its steps, without values that differ between runs."""
        code = self._process.wait(PATIENCE_S)
        text = self._output.read_text()
        assert code == 0, text
        _, *found = _COMMAND.split(text)
        return [self._step(command, rest) for command, rest in zip(found[::2], found[1::2], strict=True)]

    def _step(self, command: str, text: str) -> Step:
        end = _END.search(text)
        assert end is not None, (command, text)
        complaints = re.sub(r"^! ", "", end[1], flags=re.MULTILINE)
        names = {self._broker.bootstrap: "HOST:PORT", str(self._broker.data): "DATA"}
        printed = normalized(Printed(int(end[2]), text[: end.start()], complaints), names)
        code, stdout, stderr = without_help(printed)
        stderr = _NOBODY_THERE.sub("", _TRACE.sub("", stderr))
        return Step(
            command.replace(self._broker.bootstrap, "HOST:PORT"), Printed(code, _CLUSTER_ID.sub("ID", stdout), stderr)
        )


Start = Callable[[str, type[Broker]], Run]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Start the script with commands, "Kafka's" or "Ottla's", on a broker of a kind."""
    kafkas, ottlas = tmp_path_factory.mktemp("kafka"), tmp_path_factory.mktemp("ottla")
    write_launchers(kafkas)
    subprocess.run([sys.executable, "-P", "-m", "ottla", "install-shims", str(ottlas)], check=True, capture_output=True)
    with contextlib.ExitStack() as stack:
        yield lambda commands, kind: Run({"Kafka's": kafkas, "Ottla's": ottlas}[commands], kind, stack)


def write_launchers(folder: Path) -> None:
    """Write Kafka's commands as scripts that only start a JVM."""
    for tool, main_class in CLASSES.items():
        path = folder / f"kafka-{tool}.sh"
        path.write_text(f'#!/bin/sh\nexec {shlex.join(tool_command(main_class))} "$@"\n')
        path.chmod(0o755)


@pytest.fixture(scope="module")
def expected(start: Start) -> Callable[[], list[Step]]:
    """Return a function that waits for the steps of Kafka's commands on Apache Kafka, and returns them."""
    return functools.cache(start("Kafka's", ApacheKafka).steps)


@pytest.mark.parametrize(
    ("commands", "kind"),
    [
        pytest.param("Ottla's", Ottla, id="shims-on-Ottla"),
        pytest.param("Ottla's", ApacheKafka, id="shims-on-Kafka", marks=pytest.mark.compat),
        pytest.param("Kafka's", Ottla, id="tools-on-Ottla", marks=pytest.mark.compat),
    ],
)
def test_a_script_of_kafkas_commands_runs_unchanged(
    commands: str, kind: type[Broker], start: Start, expected: Callable[[], list[Step]]
) -> None:
    found = start(commands, kind).steps()
    assert sum(step.command.startswith("kafka-") for step in found) >= LEAST
    for step, theirs in zip(found, expected(), strict=True):
        assert step == theirs
