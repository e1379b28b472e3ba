"""The outcome of each test, as a line of JSON in the file of `--results`."""

import json
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import pytest

from tests.harness.schedule import Notes, read_notes

_cpu = pytest.StashKey[float]()
PASSED, SKIPPED, FAILED = "passed", "skipped", "failed"


class Result(NamedTuple):
    """The outcome of a test."""

    name: str
    group: str
    """The group that one process runs: the tests of a file, or of a name."""
    outcome: str
    seconds: float
    cpu_seconds: float
    """Processor time of its process and of finished child processes."""
    output: str
    is_once: bool
    """Whether a failure is final and the test is not run again."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("ottla tests").addoption("--results", type=Path, help="a file for the outcome of each test")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.results and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(config), "ottla-results")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the processor time since the last report; the recording process gets the attributes of a report."""
    report = yield
    now = _cpu_seconds()
    vars(report)["cpu_seconds"] = now - item.config.stash.get(_cpu, now)
    item.config.stash[_cpu] = now
    return report


def _cpu_seconds() -> float:
    return sum(os.times()[:4])


class Recorder:
    """Writes a line for each phase of each test, at once, because this process may crash."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.notes: Notes | None = None
        self.seen: set[str] = set()
        self.file: TextIO = config.option.results.open("w")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self.notes is None:
            self.notes = read_notes(self.config)
            self.once = frozenset(self.notes.once)
        self.seen.add(report.nodeid)
        line = {
            "name": report.nodeid,
            "when": report.when,
            "outcome": report.outcome,
            "seconds": getattr(report, "duration", 0.0),
            "cpu_seconds": getattr(report, "cpu_seconds", 0.0),
            "output": _output(report) if report.failed else "",
            "is_once": report.nodeid in self.once,
            "group": self.notes.groups[report.nodeid],
        }
        print(json.dumps(line), file=self.file, flush=True)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            line = {"name": report.nodeid, "when": "collect", "outcome": FAILED, "seconds": 0.0, "group": report.nodeid}
            print(json.dumps({**line, "output": _output(report), "is_once": True}), file=self.file, flush=True)

    def pytest_sessionfinish(self) -> None:
        """Record chosen tests that never ran as failed."""
        for name in read_notes(self.config).groups:
            if name not in self.seen:
                line = {"name": name, "when": "call", "outcome": FAILED, "seconds": 0.0, "group": name}
                print(json.dumps({**line, "output": "it was never run", "is_once": True}), file=self.file, flush=True)

    def pytest_unconfigure(self) -> None:
        self.file.close()


def _output(report: pytest.TestReport | pytest.CollectReport) -> str:
    return "\n".join([report.longreprtext, *(f"--- {title}\n{text}" for title, text in report.sections)])


def read_results(path: Path) -> Iterator[Result]:
    """Return the outcome of each test: the worst of its phases, and the time of all phases."""
    phases: dict[str, list[dict[str, Any]]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        phase = json.loads(line)
        phases.setdefault(phase["name"], []).append(phase)
    for name, each in phases.items():
        found = {phase["outcome"] for phase in each}
        has_run = SKIPPED in found or any(phase["when"] == "call" for phase in each)
        yield Result(
            name,
            each[0]["group"],
            FAILED if FAILED in found or not has_run else SKIPPED if SKIPPED in found else PASSED,
            sum(phase["seconds"] for phase in each),
            sum(phase.get("cpu_seconds", 0.0) for phase in each),
            "\n".join(phase["output"] for phase in each if phase["output"]),
            any(phase["is_once"] for phase in each),
        )
