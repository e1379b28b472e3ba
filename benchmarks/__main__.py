"""Run every workload on Apache Kafka and on Ottla in turn, three times; write the table of medians."""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks import clusters, codecs, compaction, footprint, groups, restarts, spark
from benchmarks.machine_memory import touch_free_memory
from benchmarks.workloads import WORKLOADS, Workload
from compat_tests.brokers import Broker, MeasuredKafka, Ottla, running
from compat_tests.spark import running_spark

SYSTEMS = (MeasuredKafka, Ottla)
MB = 1e6
STARTUP = "start-up to the first reply"
AT_REST = "resident memory at rest"
AFTER_LOAD = "resident memory after the load"
THREE_BROKERS = "Three brokers on one ZooKeeper"
Figures = dict[tuple[str, str], list[float]]
# Name, unit, bar, and whether more is better.
Measured = tuple[str, str, float | None, bool]


def measure(system: type[Broker], workloads: tuple[Workload, ...], figures: Figures) -> None:
    """Give one fresh broker all the work."""
    with running(system) as broker:
        figures[system.name, STARTUP].append(broker.started_in_s)
        figures[system.name, AT_REST].append(broker.resident_bytes() / MB)
        for workload in workloads:
            if workload.writes_much:
                touch_free_memory()
            figure = workload.measure(broker)
            figures[system.name, workload.name].append(figure)
            print(f"{system.name:6} {workload.name:45} {figure:14,.1f} {workload.unit}", flush=True)
        figures[system.name, AFTER_LOAD].append(broker.resident_bytes() / MB)


def add(system: type[Broker], measured: Iterable[tuple[footprint.Row | clusters.Row, float]], figures: Figures) -> None:
    """Keep what is measured, and tell of it."""
    for row, figure in measured:
        figures[system.name, row.name].append(figure)
        print(f"{system.name:9} {row.name:62} {figure:14,.2f} {row.unit}", flush=True)


def measure_spark(rounds: int) -> Figures:
    """Have one Spark read from all brokers."""
    figures: Figures = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="spark-") as folder, running_spark(Path(folder)) as session:
        for system in SYSTEMS * rounds:
            touch_free_memory()
            add(system, spark.measure(system, session), figures)
    return figures


def rows_of_one(workloads: tuple[Workload, ...], figures: Figures) -> list[Measured]:
    """Return what was measured of one broker."""
    rows: list[Measured] = [(w.name, w.unit, w.bar, w.higher_is_better) for w in workloads]
    if workloads:
        rows += [(STARTUP, "s", 0.25, False), (AT_REST, "MB", None, False), (AFTER_LOAD, "MB", 0.25, False)]
    few = (*footprint.ROWS, *restarts.ROWS)
    return rows + [(*row, False) for row in few if (SYSTEMS[0].name, row.name) in figures]


def table(rows: Sequence[Measured], systems: Sequence[type[Broker]], figures: Figures) -> list[str]:
    """Return the lines of a table of medians."""
    lines = [
        "| work | unit | Kafka | Ottla | ratio | bar | reached |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for name, unit, bar, higher in rows:
        kafka, ottla = (statistics.median(figures[system.name, name]) for system in systems)
        ratio = ottla / kafka
        reached = "" if bar is None else "yes" if (ratio >= bar if higher else ratio <= bar) else "no"
        limit = "" if bar is None else f"{'≥' if higher else '≤'} {bar}"
        digits = 2 if unit in ("s", "ms") else 0
        lines.append(
            f"| {name} | {unit} | {kafka:,.{digits}f} | {ottla:,.{digits}f} | {ratio:.3f} | {limit} | {reached} |"
        )
    return lines


def machine() -> str:
    """Describe what the figures were measured on."""
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
    """Measure and write docs/benchmarks.md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each system is given all the work")
    parser.add_argument("--only", default="", help="only workloads whose name contains this")
    parser.add_argument("--output", type=Path, default=None, help="write the table to this file")
    arguments = parser.parse_args()
    workloads = tuple(w for w in (*WORKLOADS, *groups.WORKLOADS, *compaction.WORKLOADS) if arguments.only in w.name)
    figures: Figures = defaultdict(list)
    for system in SYSTEMS * arguments.rounds if workloads else ():
        measure(system, workloads, figures)
    for few in (footprint, restarts):
        if any(arguments.only in row.name for row in few.ROWS):
            with tempfile.TemporaryDirectory(prefix="few-") as folder:
                for system in SYSTEMS * arguments.rounds:
                    add(system, few.measure(system, Path(folder)), figures)
    rows = table(rows_of_one(workloads, figures), SYSTEMS, figures) if figures else []
    figures_of_three: Figures = defaultdict(list)
    if arguments.only in THREE_BROKERS:
        for system in clusters.SYSTEMS * arguments.rounds:
            touch_free_memory()
            add(system, clusters.measure(system), figures_of_three)
        rows += ["", f"## {THREE_BROKERS}", "", *table(clusters.ROWS, clusters.SYSTEMS, figures_of_three)]
    if arguments.only in spark.TITLE:
        rows += ["", f"## {spark.TITLE}", "", *spark.table(SYSTEMS, measure_spark(arguments.rounds))]
    print("\n".join(rows))
    if arguments.output:
        text = [
            "# Benchmarks",
            "",
            "Apache Kafka 4.3.1 (one KRaft node, its defaults, 1 GB heap) and Ottla, given the same work in one run,",
            f"in turn, median of {arguments.rounds}. The raw rows have their client on this machine. Before rows that",
            "write much, free memory is written to once, so that none of them pays for the host that provides it.",
            "The rows of three brokers are of Apache Kafka 3.9.2, the last that lives on ZooKeeper.",
            "",
            f"Command: `{' '.join(['python', '-m', 'benchmarks', *sys.argv[1:]])}` (`make bench`).",
            f"Machine: {machine()}.",
            "",
            *rows,
            "",
            "## Messages",
            "",
            "Microseconds for the body of a typical message, at the latest version that all know.",
            *codecs.table(),
            "",
        ]
        arguments.output.write_text("\n".join(text))


if __name__ == "__main__":
    main()
