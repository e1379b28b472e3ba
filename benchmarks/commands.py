"""The time of commands: Kafka's tools, Ottla's commands, and kcat if it is installed.

All use one broker, one command after the other. Kafka's tools run with the options of Kafka's start script, but without
its shell, which would add time.
"""

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from compat_tests.support.brokers import Ottla, running, tool_command
from compat_tests.support.clients import create_topic
from compat_tests.tools.imitation.tools import CLASSES

TITLE: Final = "Ten common commands"
# The options that Kafka's start script passes to a tool.
TOOL_JVM: Final = (
    *("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"),
    *("-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true"),
)
TOPIC: Final = "orders"
GROUP: Final = "billing"
HELP_CPU_BAR_S: Final = 0.15
"""For `ottla --help`, which connects to no broker."""
CPU_BAR_S: Final = 0.25
"""For `ottla topics list`."""
WALL_BAR: Final = 0.15
"""For `ottla topics list`, as a part of Kafka's wall time."""
MOST: Final = 0.1
"""For most commands, as a part of Kafka's wall time."""
MOST_OF: Final = 8
KAFKA, OTTLA, KCAT = "Kafka", "Ottla", "kcat"


class Common(NamedTuple):
    """A command of Kafka's tools, of Ottla, and of kcat if it has one; without the option for the address."""

    tool: str
    arguments: str
    ottla: str
    kcat: str | None = None


COMMANDS: Final = (
    Common("topics", "--list", "topics list", "-L"),
    Common("topics", f"--describe --topic {TOPIC}", f"topics describe {TOPIC}", f"-L -t {TOPIC}"),
    Common("topics", "--create --if-not-exists --topic made", "topics create made --if-not-exists"),
    Common("configs", f"--describe --topic {TOPIC}", f"configs describe topic/{TOPIC} --changed"),
    Common(
        "configs",
        f"--alter --topic {TOPIC} --add-config retention.ms=3600000",
        f"configs set topic/{TOPIC} retention.ms=3600000",
    ),
    Common("consumer-groups", "--list", "groups list"),
    Common("consumer-groups", f"--describe --group {GROUP}", f"groups describe {GROUP}"),
    Common("get-offsets", f"--topic {TOPIC}", f"offsets {TOPIC}", f"-Q -t {TOPIC}:0:-1"),
    Common(
        "console-consumer",
        f"--topic {TOPIC} --from-beginning --max-messages 10",
        f"consume {TOPIC} --from beginning -n 10",
        f"-C -t {TOPIC} -o beginning -c 10 -q",
    ),
    Common("broker-api-versions", "", "api-versions"),
)
HELP: Final = Common("", "", "--help")
Figures = Mapping[tuple[str, Common], Sequence[tuple[float, float]]]


def measure(rounds: int) -> Figures:
    """Return wall and processor seconds of each command, in each round, by each program."""
    figures: defaultdict[tuple[str, Common], list[tuple[float, float]]] = defaultdict(list)
    with running(Ottla) as broker:
        _fill(broker.bootstrap)
        for number in range(rounds + 1):
            for common in (HELP, *COMMANDS):
                for program, command in _programs(common, broker.bootstrap):
                    spent = _spent(command)
                    if number:  # not the first round, because its files are not in the page cache
                        figures[program, common].append(spent)
    return figures


def _fill(bootstrap: str) -> None:
    create_topic(bootstrap, TOPIC, 3)
    lines = "\n".join(f"order {number}" for number in range(1000)).encode()
    _run([*_ottla("produce", TOPIC), "-b", bootstrap], lines)
    _run([*_ottla("consume", TOPIC, "--from", "beginning", "-n", "10", "--group", GROUP), "-b", bootstrap])


def _programs(common: Common, bootstrap: str) -> Iterator[tuple[str, list[str]]]:
    if common is HELP:
        yield OTTLA, _ottla(common.ottla)
        return
    tool = [*common.arguments.split(), "--bootstrap-server", bootstrap]
    yield KAFKA, tool_command(CLASSES[common.tool], *tool, jvm=TOOL_JVM)
    yield OTTLA, [*_ottla(*common.ottla.split()), "-b", bootstrap]
    kcat = shutil.which("kcat")
    if kcat and common.kcat is not None:
        yield KCAT, [kcat, "-b", bootstrap, *common.kcat.split()]


def _ottla(*arguments: str) -> list[str]:
    # Like pip's script.
    return [sys.executable, "-m", "ottla", *arguments]


def _spent(command: Sequence[str]) -> tuple[float, float]:
    """Return the wall and the processor seconds of a command."""
    began, before = time.perf_counter(), os.times()
    _run(command)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - began, cpu


def _run(command: Sequence[str], stdin: bytes = b"") -> None:
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=120)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[-6:])} ended with {done.returncode}: {done.stderr.decode()}")


def table(figures: Figures) -> list[str]:
    """Return the lines of a table of medians, and whether the bars are reached."""
    lines = [
        "| Kafka's tool | Ottla | wall s: Kafka | Ottla | ratio | CPU s: Kafka | Ottla | ratio | kcat: wall | CPU |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    ratios = []
    for common in COMMANDS:
        kafka, ottla = (_medians(figures[program, common]) for program in (KAFKA, OTTLA))
        ratios.append(ottla[0] / kafka[0])
        kcat = [f"{each:.3f}" for each in _medians(figures.get((KCAT, common), ()))] or ["", ""]
        lines.append(
            f"| kafka-{common.tool} {common.arguments} | {common.ottla} "
            f"| {kafka[0]:.2f} | {ottla[0]:.3f} | {ratios[-1]:.3f} "
            f"| {kafka[1]:.2f} | {ottla[1]:.3f} | {ottla[1] / kafka[1]:.3f} | {kcat[0]} | {kcat[1]} |"
        )
    few = sum(ratio <= MOST for ratio in ratios)
    cpu = _medians(figures[OTTLA, COMMANDS[0]])[1]
    help_cpu = _medians(figures[OTTLA, HELP])[1]
    lines += [
        "",
        f"`ottla --help`: {help_cpu:.3f} s of CPU (bar {HELP_CPU_BAR_S}).",
        "",
        f"`ottla topics list`: {ratios[0]:.3f} of Kafka's wall time (bar {WALL_BAR}), {cpu:.3f} s of CPU (bar "
        f"{CPU_BAR_S}). {few} of {len(ratios)} commands within {MOST} of Kafka's wall time (bar {MOST_OF}).",
    ]
    return lines


def _medians(found: Sequence[tuple[float, float]]) -> list[float]:
    return [statistics.median(each) for each in zip(*found, strict=True)]
