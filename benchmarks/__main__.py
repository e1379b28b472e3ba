"""Run every workload on Apache Kafka and on Ottla in turn, five times; write the table of medians.

Both brokers run side by side, on fresh data for each workload, and both are warm: before the first round each broker
runs the workload for `WARM_UP_SECONDS`. The first one alternates, and the disk is drained before each round.
"""

import argparse
import contextlib
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks import clusters, codecs, commands, compaction, footprint, groups, restarts, spark
from benchmarks.machine_memory import touch_free_memory
from benchmarks.measuring import WARM_UP_SECONDS, warm_up
from benchmarks.workloads import WORKLOADS, Workload
from compat_tests.support.brokers import Broker, MeasuredKafka, Ottla, running
from compat_tests.support.spark import running_spark
from ottla.native import FOLDER, digest

SYSTEMS = (MeasuredKafka, Ottla)
MB = 1e6
STARTUP = "start-up to the first reply"
AT_REST = "resident memory at rest"
AFTER_LOAD = "resident memory after the load"
THREE_BROKERS = "Three brokers on one ZooKeeper"
Figures = dict[tuple[str, str], list[float]]
# Name, unit, bar, whether more is better.
Measured = tuple[str, str, float | None, bool]


def measure(workload: Workload, rounds: int, figures: Figures, processor_time: Figures) -> None:
    """Run the workload on a fresh broker of each kind, in turn."""
    with contextlib.ExitStack() as stack:
        brokers = [stack.enter_context(running(system)) for system in SYSTEMS]
        for broker in brokers:
            figures[broker.name, STARTUP].append(broker.started_in_s)
            figures[broker.name, AT_REST].append(broker.resident_bytes() / MB)
        for broker in brokers:
            warm_up(workload.measure, broker)
        for number in range(rounds):
            for broker in brokers if number % 2 == 0 else reversed(brokers):
                if workload.writes_much:
                    touch_free_memory()
                figure, cpu_us = workload.measure(broker)
                figures[broker.name, workload.name].append(figure)
                if cpu_us is not None:
                    processor_time[broker.name, workload.name].append(cpu_us)
                cost = "" if cpu_us is None else f"{cpu_us:10.2f} us of CPU"
                print(f"{broker.name:6} {workload.name:48} {figure:14,.1f} {workload.unit:10} {cost}", flush=True)
        for broker in brokers:
            figures[broker.name, AFTER_LOAD].append(broker.resident_bytes() / MB)


def in_turn(systems: Sequence[type[Broker]], rounds: int) -> list[type[Broker]]:
    """Return the order of measurements, in which each system is first as often as the other."""
    return [system for number in range(rounds) for system in (systems if number % 2 == 0 else systems[::-1])]


def add(system: type[Broker], measured: Iterable[tuple[footprint.Row | clusters.Row, float]], figures: Figures) -> None:
    """Add measured figures, and print them."""
    for row, figure in measured:
        figures[system.name, row.name].append(figure)
        print(f"{system.name:9} {row.name:62} {figure:14,.2f} {row.unit}", flush=True)


def measure_spark(rounds: int) -> Figures:
    """Return the figures of one Spark that reads from all brokers."""
    figures: Figures = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="spark-") as folder, running_spark(Path(folder)) as session:
        for system in in_turn(SYSTEMS, rounds):
            touch_free_memory()
            add(system, spark.measure(system, session), figures)
    return figures


def rows_of_one(workloads: tuple[Workload, ...], figures: Figures) -> list[Measured]:
    """Return the measured rows of one broker."""
    rows: list[Measured] = [(w.name, w.unit, w.bar, w.higher_is_better) for w in workloads]
    if workloads:
        rows += [(STARTUP, "s", 0.25, False), (AT_REST, "MB", None, False), (AFTER_LOAD, "MB", 0.25, False)]
    few = (*footprint.ROWS, *restarts.ROWS)
    return rows + [(*row, False) for row in few if (SYSTEMS[0].name, row.name) in figures]


def table(
    rows: Sequence[Measured], systems: Sequence[type[Broker]], figures: Figures, processor_time: Figures
) -> list[str]:
    """Return the lines of a table of medians, with the processor time of a request or record if it was measured."""
    lines = [
        "| work | unit | Kafka | Ottla | ratio | bar | reached | CPU us: Kafka | Ottla | ratio |",
        "|---|---|---:|---:|---:|---:|---|---:|---:|---:|",
    ]
    for name, unit, bar, higher in rows:
        kafka, ottla = (statistics.median(figures[system.name, name]) for system in systems)
        ratio = ottla / kafka
        reached = "" if bar is None else "yes" if (ratio >= bar if higher else ratio <= bar) else "no"
        limit = "" if bar is None else f"{'≥' if higher else '≤'} {bar}"
        digits = 2 if unit in ("s", "ms") else 0
        cost = " | | "
        if (systems[0].name, name) in processor_time:
            of_kafka, of_ottla = (statistics.median(processor_time[system.name, name]) for system in systems)
            cost = f" {of_kafka:,.1f} | {of_ottla:,.1f} | {of_ottla / of_kafka:.3f} "
        measured = f"{kafka:,.{digits}f} | {ottla:,.{digits}f} | {ratio:.3f}"
        lines.append(f"| {name} | {unit} | {measured} | {limit} | {reached} |{cost}|")
    return lines


def machine() -> str:
    """Return a description of the machine, the versions and the commit."""
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.machine(),
    )
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr.splitlines()
    return (
        f"{os.cpu_count()} cores ({model}), Linux {platform.release()}, Python {platform.python_version()}, "
        f"{java[0] if java else 'no Java'}; commit {commit.stdout.strip() or 'unknown'}"
    )


def main() -> None:
    """Run the benchmarks and write docs/benchmarks.md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each system runs each workload")
    parser.add_argument("--only", default="", help="only workloads whose name contains this")
    parser.add_argument("--output", type=Path, default=None, help="write the table to this file")
    arguments = parser.parse_args()
    if not (FOLDER / digest()).is_dir():
        sys.exit("Ottla's hot path is not compiled: run `python -m ottla.build_native` first")
    workloads = tuple(w for w in (*WORKLOADS, *groups.WORKLOADS, *compaction.WORKLOADS) if arguments.only in w.name)
    figures: Figures = defaultdict(list)
    processor_time: Figures = defaultdict(list)
    for workload in workloads:
        measure(workload, arguments.rounds, figures, processor_time)
    for few in (footprint, restarts):
        if any(arguments.only in row.name for row in few.ROWS):
            with tempfile.TemporaryDirectory(prefix="few-") as folder:
                for system in in_turn(SYSTEMS, arguments.rounds):
                    add(system, few.measure(system, Path(folder)), figures)
    rows = table(rows_of_one(workloads, figures), SYSTEMS, figures, processor_time) if figures else []
    figures_of_three: Figures = defaultdict(list)
    if arguments.only in THREE_BROKERS:
        for system in in_turn(clusters.SYSTEMS, arguments.rounds):
            touch_free_memory()
            add(system, clusters.measure(system), figures_of_three)
        rows += ["", f"## {THREE_BROKERS}", "", *table(clusters.ROWS, clusters.SYSTEMS, figures_of_three, {})]
    if arguments.only in commands.TITLE:
        rows += ["", f"## {commands.TITLE}", "", *commands.table(commands.measure(arguments.rounds))]
    if arguments.only in spark.TITLE:
        rows += ["", f"## {spark.TITLE}", "", *spark.table(SYSTEMS, measure_spark(arguments.rounds))]
    print("\n".join(rows))
    if arguments.output:
        arguments.output.write_text("\n".join([_introduction(arguments.rounds), *rows, *_messages()]))


def _introduction(rounds: int) -> str:
    command = " ".join(["python", "-m", "benchmarks", *sys.argv[1:]])
    warm_s = f"{WARM_UP_SECONDS:.0f} s"
    return f"""# Benchmarks

Apache Kafka 4.3.1 (one KRaft node, its defaults, 1 GB heap) and Ottla with its hot path compiled, running side by side
and given the same work in turn; median of {rounds} rounds. The clients of the raw rows share the machine with them.

**Both are warm.** Before the first round of a row each broker has had its work for {warm_s}: a JVM compiles what is
hot, and serves half as much before. Who goes first alternates. Before each timed run the disk is drained (`sync`), or
what one wrote would be written back in the other's time. Before rows that write much, free memory is written to once,
so that neither pays for the host that provides it. Rows of starts, of the creation of topics and of memory are of
processes that have just begun.

*CPU us* is the processor time of the broker, in microseconds, for each request of a raw row and each record of the
others.

The rows of three brokers are of Apache Kafka 3.9.2, the last that lives on ZooKeeper.

Command: `{command}` (`make bench`).
Machine: {machine()}.
"""


def _messages() -> list[str]:
    return [
        "",
        "## Messages",
        "",
        "Microseconds for the body of a typical message, at the latest version that all know.",
        *codecs.table(),
        "",
    ]


if __name__ == "__main__":
    main()
